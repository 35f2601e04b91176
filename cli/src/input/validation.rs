//! Validation of objects that have not passed an API server: errors that it would return, and fields that it would drop.

mod cross_field;
mod outdated;
pub(super) mod scheduling;
mod schema;
mod strict;

use super::error::InputError;
use super::raw::Raw;

/// Returns all errors for which the API server would reject a custom resource or drop a field. Such an object is not validated
/// further. A field with a specific fix is reported only with that fix.
pub(super) fn custom_resource(raw: &Raw) -> Vec<InputError> {
    let mut faults = outdated::faults(raw);
    let reported: Vec<Box<str>> = faults.iter().map(|fault| fault.field.clone()).collect();
    faults.extend(schema::faults(raw).into_iter().filter(|fault| !reported.contains(&fault.field)));
    faults.extend(cross_field::faults(raw));
    faults
}

/// Returns warnings about unknown fields, most of which are typing mistakes.
pub(super) fn unknown_fields(raw: &Raw) -> Vec<String> {
    let paths = schema::unknown_fields(raw).into_iter().chain(strict::unknown_fields(raw));
    paths.map(|path| format!("{} {}: {path} is not a field and is ignored", raw.kind, raw.full_name())).collect()
}
