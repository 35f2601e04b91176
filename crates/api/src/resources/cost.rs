//! Custom resources about money: limits of the cost, and what is paid already.

pub mod commitment;
pub mod spendpolicy;

use std::fmt;

/// Pattern of an amount of dollars.
const DOLLARS: &str = r"^\d+(\.\d+)?$";

/// Problem of a field, as the states of SpendPolicies and Commitments have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldFault {
    /// Path of the field, such as `spec.windows[0].schedule`.
    pub path: String,
    /// Problem as a sentence that does not contain the path.
    pub problem: String,
}

impl fmt::Display for FieldFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.path, self.problem)
    }
}
