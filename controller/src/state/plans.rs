//! State of plans: the running one, the results of the last one, the objects of those that failed, and pods with decisions.

pub mod evidence;
pub mod pod_decisions;
pub mod progress;
pub mod results;
