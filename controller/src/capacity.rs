//! EC2 capacity: instance types with offerings and prices, the launch of instances, learned memory overhead, and call rates.

pub mod launch;
pub mod memory_overhead;
pub mod offerings;
pub mod rate_limits;
pub mod reservations;
