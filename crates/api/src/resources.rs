//! Custom resources, and the types of fields that they share: requirements, taints and conditions.

pub mod capacitybuffer;
pub mod cost;
pub mod nodeclaim;
pub mod nodeclass;
pub mod nodeoverlay;
pub mod nodepool;
pub mod nodeusage;
pub mod provisioningrequest;
pub mod requirement;
mod schema_rules;
pub mod status;
pub mod taint;
