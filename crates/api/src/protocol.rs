//! Facts that the controller and the agent write on the Node for each other: drains, replacements of nodes at risk, and the stages of
//! a start.

pub mod drain;
pub mod risk;
pub mod timeline;
