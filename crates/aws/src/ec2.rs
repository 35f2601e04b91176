//! Calls to EC2, by the kind of resource.

pub(crate) mod describe;
pub(crate) mod fleet;
pub(crate) mod instances;
pub(crate) mod launch_templates;
pub(crate) mod places;
pub(crate) mod statuses;
pub(crate) mod tags;
