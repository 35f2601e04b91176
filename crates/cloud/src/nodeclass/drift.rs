//! Drift of an instance from its EC2NodeClass.
//!
//! A property that is not known yet does not count as drift.

use std::collections::{BTreeMap, BTreeSet};

use api::{EC2NodeClass, NodeClaim, Requirement, annotation, label, reason};

use super::images;
use crate::calls::Instance;

/// A difference between an instance and its EC2NodeClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// Reason of the condition `Drifted`.
    pub reason: &'static str,
    /// Description of the difference.
    pub message: String,
}

/// The placement group that an EC2NodeClass selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group<'a> {
    /// Not queried yet, or without an answer.
    Unknown,
    /// The EC2NodeClass selects no placement group.
    None,
    /// Id of the placement group.
    Id(&'a str),
}

/// A property of an instance that could not be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot compare {claim} with its EC2NodeClass: {what}")]
pub struct DriftUnknown {
    /// Name of the NodeClaim.
    pub claim: String,
    /// The unknown property.
    pub what: &'static str,
}

/// Returns the first difference between a NodeClaim's instance and a new launch of its EC2NodeClass. `instance` is the instance
/// as EC2 describes it, `None` while unknown.
///
/// # Errors
/// When a property for the comparison is unknown. The properties before it in the order did not drift.
pub fn drift(
    claim: &NodeClaim,
    class: &EC2NodeClass,
    instance: Option<&Instance>,
    group: Group<'_>,
) -> Result<Option<Drift>, DriftUnknown> {
    let unknown = |what| DriftUnknown { claim: claim.metadata.name.clone().unwrap_or_default(), what };
    if let Some(drift) = hash(claim, class) {
        return Ok(Some(drift));
    }
    let image = image(claim, class).map_err(unknown)?;
    if image.is_some() {
        return Ok(image);
    }
    let instance = instance.ok_or_else(|| unknown("its instance is not described by EC2"))?;
    let groups = security_groups(instance, class).map_err(unknown)?;
    if groups.is_some() {
        return Ok(groups);
    }
    let subnet = subnet(instance, class).map_err(unknown)?;
    Ok(subnet.or_else(|| reservation(instance, class)).or_else(|| placement_group(claim, group)))
}

/// Compares the hashes of static fields, which a running instance cannot change. Hashes are comparable only with the same hash
/// version.
fn hash(claim: &NodeClaim, class: &EC2NodeClass) -> Option<Drift> {
    let of_claim = |key: &str| claim.metadata.annotations.as_ref()?.get(key);
    let of_class = |key: &str| class.metadata.annotations.as_ref()?.get(key);
    let same = |key: &str| Some(of_claim(key)? == of_class(key)?);
    let differs = same(annotation::EC2_NODE_CLASS_HASH_VERSION)? && !same(annotation::EC2_NODE_CLASS_HASH)?;
    differs.then(|| Drift {
        reason: reason::NODE_CLASS_DRIFT,
        message: "the EC2NodeClass changed after the launch".to_owned(),
    })
}

/// Compares the image with the one that a new instance with these labels would have.
fn image(claim: &NodeClaim, class: &EC2NodeClass) -> Result<Option<Drift>, &'static str> {
    let runs = claim.status.as_ref().map(|status| status.image_id.as_str()).filter(|id| !id.is_empty());
    let runs = runs.ok_or("its image is unknown")?;
    let labels = claim.metadata.labels.as_ref().filter(|labels| labels.contains_key(label::INSTANCE_TYPE));
    let labels: BTreeMap<String, Vec<String>> = labels
        .ok_or("its instance type is unknown")?
        .iter()
        .map(|(key, value)| (key.clone(), vec![value.clone()]))
        .collect();
    let amis = class.status.as_ref().map(|status| status.amis.as_slice()).filter(|amis| !amis.is_empty());
    let amis = amis.ok_or("the EC2NodeClass has no images")?;
    let fits = |requirements: &[Requirement]| images::fit(requirements, &labels);
    let wanted = amis.iter().find(|ami| fits(&ami.requirements)).map(|ami| ami.id.as_str());
    Ok((wanted != Some(runs)).then(|| Drift {
        reason: reason::AMI_DRIFT,
        message: match wanted {
            Some(wanted) => format!("image is {runs}, the EC2NodeClass selects {wanted}"),
            None => format!("image is {runs}, the EC2NodeClass selects none for its instance type"),
        },
    }))
}

fn security_groups(instance: &Instance, class: &EC2NodeClass) -> Result<Option<Drift>, &'static str> {
    let groups = class.status.as_ref().map(|status| status.security_groups.as_slice()).unwrap_or_default();
    let wanted: BTreeSet<&str> = groups.iter().map(|group| group.id.as_str()).collect();
    if wanted.is_empty() {
        return Err("the EC2NodeClass has no security groups");
    }
    let has: BTreeSet<&str> = instance.security_group_ids.iter().map(String::as_str).collect();
    let list = |ids: &BTreeSet<&str>| ids.iter().copied().collect::<Vec<_>>().join(", ");
    Ok((has != wanted).then(|| Drift {
        reason: reason::SECURITY_GROUP_DRIFT,
        message: format!("security groups are {}, the EC2NodeClass selects {}", list(&has), list(&wanted)),
    }))
}

fn subnet(instance: &Instance, class: &EC2NodeClass) -> Result<Option<Drift>, &'static str> {
    let subnets = class.status.as_ref().map(|status| status.subnets.as_slice()).unwrap_or_default();
    if subnets.is_empty() {
        return Err("the EC2NodeClass has no subnets");
    }
    let known = subnets.iter().any(|subnet| subnet.id == instance.subnet_id);
    Ok((!known).then(|| Drift {
        reason: reason::SUBNET_DRIFT,
        message: format!("{} is no longer selected by the EC2NodeClass", instance.subnet_id),
    }))
}

/// Compares the capacity reservation. An instance that lost its reservation and continues as on-demand has not drifted.
fn reservation(instance: &Instance, class: &EC2NodeClass) -> Option<Drift> {
    if instance.capacity_reservation_preference.as_deref() != Some("capacity-reservations-only") {
        return None;
    }
    let held = instance.capacity_reservation_id.as_deref()?;
    let known = class.status.as_ref().map(|status| status.capacity_reservations.as_slice()).unwrap_or_default();
    (!known.iter().any(|reservation| reservation.id == held)).then(|| Drift {
        reason: reason::CAPACITY_RESERVATION_DRIFT,
        message: format!("capacity reservation {held} is no longer selected by the EC2NodeClass"),
    })
}

fn placement_group(claim: &NodeClaim, group: Group<'_>) -> Option<Drift> {
    let wanted = match group {
        Group::Unknown => return None,
        Group::None => "",
        Group::Id(id) => id,
    };
    let labels = claim.metadata.labels.as_ref();
    let current = labels.and_then(|labels| labels.get(label::PLACEMENT_GROUP_ID)).map_or("", String::as_str);
    let shown =
        |id: &str| if id.is_empty() { "no placement group".to_owned() } else { format!("placement group {id}") };
    (current != wanted).then(|| Drift {
        reason: reason::PLACEMENT_GROUP_DRIFT,
        message: format!("instance is in {}, the EC2NodeClass selects {}", shown(current), shown(wanted)),
    })
}
