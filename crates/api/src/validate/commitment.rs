//! Runtime validation of Commitments.

use super::Fault;
use crate::resources::cost::commitment::CommitmentSpec;

/// Returns all problems of a Commitment; empty if it is valid.
#[must_use]
pub fn commitment(spec: &CommitmentSpec) -> Vec<Fault> {
    spec.faults().into_iter().map(|fault| Fault::new(fault.path, fault.problem)).collect()
}
