//! Which nodes go.
use crate::{Plan, Snapshot};
pub(crate) fn remove_empty(_snapshot: &Snapshot, _plan: &mut Plan) {}
