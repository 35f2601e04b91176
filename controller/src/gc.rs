//! Background loops that compare AWS with the cluster: orphaned instances, unused instance profiles, missing tags, drifted
//! instances.

pub mod drift;
pub mod instances;
pub mod periodic;
pub mod profiles;
pub mod tags;
