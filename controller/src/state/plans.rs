//! State of plans: the running one, the results of the last one, and the objects of those that failed.

pub mod evidence;
pub mod progress;
pub mod results;
