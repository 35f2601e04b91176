//! What one machine is: how many pods its network interfaces carry, what kubelet keeps for itself, and the user data
//! that tells it who it is. Pure, so that what the controller promises and what the node computes are one formula.

pub mod agent;
pub mod document;
pub mod expression;
pub mod gzip;
pub mod json;
pub mod mime;
pub mod nodeconfig;
pub mod pods;
pub mod quote;
pub mod tables;
pub mod userdata;
pub mod yaml;
