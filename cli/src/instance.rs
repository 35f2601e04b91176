//! Instances: the list of instance types, and the user data of an instance.

pub mod types;
pub mod userdata;
