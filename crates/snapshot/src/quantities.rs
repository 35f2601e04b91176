//! Conversion of resource lists into integers.

use api::objects::ResourceList;
use planner::Resources;

use crate::Problem;

/// Converts the amounts of a list. Omits invalid quantities and reports them as problems.
pub(crate) fn resources(list: &ResourceList, kind: &'static str, name: &str, problems: &mut Vec<Problem>) -> Resources {
    let mut amounts = Resources::default();
    for (resource, quantity) in list {
        match quantity.amount(resource) {
            Ok(amount) => amounts.set(resource, amount),
            Err(_) => problems.push(Problem::Quantity { kind, name: name.to_owned(), resource: resource.clone() }),
        }
    }
    amounts
}

/// Returns `own`, with amounts that are zero or missing taken from `fallback`.
pub(crate) fn filled(own: &Resources, fallback: &Resources) -> Resources {
    let mut amounts = own.clone();
    for (name, amount) in fallback.iter().filter(|(name, _)| own.get(name) == 0) {
        amounts.set(name, amount);
    }
    amounts
}
