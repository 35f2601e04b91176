//! EC2 capacity: instance types with offerings and prices, the launch of instances, measured amounts, and call rates.

mod cluster_facts;
pub mod launch;
pub mod measured;
pub mod offerings;
pub mod rate_limits;
pub mod reservations;

pub use cluster_facts::cluster_facts;
