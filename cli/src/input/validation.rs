//! Validation of objects that have not passed an API server: errors that it would return, and fields that it would drop.

mod cross_field;
mod outdated;
pub(super) mod scheduling;
mod schema;
mod settings;
mod strict;

use super::error::InputError;
use super::kinds::Kind;
use super::raw::Raw;

pub(crate) use settings::settings;

/// Returns all errors for which the API server would reject a custom resource or drop a field. Such an object is not validated
/// further. A field with a specific fix is reported only with that fix.
pub(super) fn custom_resource(raw: &Raw) -> Vec<InputError> {
    let mut faults = outdated::faults(raw);
    let reported: Vec<Box<str>> = faults.iter().map(|fault| fault.field.clone()).collect();
    faults.extend(schema::faults(raw).into_iter().filter(|fault| !reported.contains(&fault.field)));
    faults.extend(cross_field::faults(raw));
    faults
}

/// Returns warnings about unknown fields, most of which are typing mistakes, and about keys and limits without effect.
pub(super) fn ineffective(raw: &Raw) -> Vec<String> {
    let of_schema = schema::unknown_fields(raw).into_iter();
    let strict = strict::unknown_fields(raw).into_iter().map(|path| (path, None));
    let unknown = of_schema.chain(strict).map(|(path, similar)| {
        let hint = similar.map(|similar| format!("; did you mean {similar}?")).unwrap_or_default();
        format!("{path} is not a field and is ignored{hint}")
    });
    let settings = match raw.kind {
        // The plan reports those of nodes and pods once per workload.
        Kind::CapacityBuffer | Kind::EC2NodeClass | Kind::NodeOverlay | Kind::NodePool => {
            settings(&raw.kind.to_string(), &raw.value)
        }
        _ => Vec::new(),
    };
    let all = unknown.chain(settings.iter().map(ToString::to_string));
    all.map(|text| format!("{} {}: {text}", raw.kind, raw.full_name())).collect()
}
