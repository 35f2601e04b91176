//! EC2 capacity: instance types with offerings and prices, the launch of instances, learned memory overhead, and call rates.

mod cluster_facts;
pub mod launch;
pub mod memory_overhead;
pub mod offerings;
pub mod rate_limits;
pub mod reservations;

pub use cluster_facts::cluster_facts;
