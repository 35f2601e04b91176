//! Settings of objects of each kind that have no effect.

use api::ineffective::{self, Ineffective, KeyOwner};
use api::{CapacityBuffer, EC2NodeClass, NodeOverlay, NodePool, ProvisioningRequest};

use super::{Problem, ineffective};

/// Returns the settings of a NodePool that have no effect.
#[must_use]
pub fn ineffective_in_pool(pool: &NodePool) -> Vec<Problem> {
    let (own, template) = (&pool.metadata, &pool.spec.template.metadata);
    let names = pool.spec.limits.iter().flat_map(|limits| limits.keys().map(String::as_str));
    let mut found = ineffective::keys(KeyOwner::Pool, "metadata", own.annotations.as_ref(), own.labels.as_ref());
    let path = "spec.template.metadata";
    let of_template = (template.annotations.as_ref(), template.labels.as_ref());
    found.extend(ineffective::keys(KeyOwner::PoolTemplate, path, of_template.0, of_template.1));
    found.extend(ineffective::limits(names));
    ineffective("NodePool", own.name.as_deref(), found)
}

/// Returns the settings of an EC2NodeClass that have no effect on EC2, or on its emulation.
#[must_use]
pub fn ineffective_in_class(class: &EC2NodeClass, is_ec2_emulated: bool) -> Vec<Problem> {
    let own = &class.metadata;
    let mut found = ineffective::keys(KeyOwner::Class, "metadata", own.annotations.as_ref(), own.labels.as_ref());
    found.extend(ineffective::request_to_real_ec2(own.annotations.as_ref()).filter(|_| !is_ec2_emulated));
    ineffective("EC2NodeClass", own.name.as_deref(), found)
}

/// Returns the settings of a CapacityBuffer that have no effect.
#[must_use]
pub fn ineffective_in_buffer(buffer: &CapacityBuffer) -> Vec<Problem> {
    let own = &buffer.metadata;
    let found = ineffective::keys(KeyOwner::Buffer, "metadata", own.annotations.as_ref(), own.labels.as_ref());
    let name = format!("{}/{}", own.namespace.as_deref().unwrap_or_default(), own.name.as_deref().unwrap_or_default());
    ineffective("CapacityBuffer", Some(&name), found)
}

/// Returns the parameters of a ProvisioningRequest that have no effect. Another program reads those of its own classes.
#[must_use]
pub fn ineffective_in_request(request: &ProvisioningRequest) -> Vec<Problem> {
    if request.class().is_none() {
        return Vec::new();
    }
    let found = request.unknown_parameters().map(|name| Ineffective {
        field: format!("spec.parameters[{name}]"),
        fix: "Kerf reads no such parameter of this class".to_owned(),
    });
    let own = &request.metadata;
    let name = format!("{}/{}", own.namespace.as_deref().unwrap_or_default(), own.name.as_deref().unwrap_or_default());
    ineffective("ProvisioningRequest", Some(&name), found.collect())
}

/// Returns the settings of a NodeOverlay that have no effect.
#[must_use]
pub fn ineffective_in_overlay(overlay: &NodeOverlay) -> Vec<Problem> {
    let own = &overlay.metadata;
    let found = ineffective::keys(KeyOwner::Overlay, "metadata", own.annotations.as_ref(), own.labels.as_ref());
    ineffective("NodeOverlay", own.name.as_deref(), found)
}
