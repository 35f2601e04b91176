//! What a class's selectors came to.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Requirement;
use crate::status::Condition;

/// What a class's selectors came to, and whether machines can be launched from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EC2NodeClassStatus {
    /// Subnets, most free addresses first, then by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subnets: Vec<Subnet>,
    /// Security groups by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<SecurityGroup>,
    /// Capacity reservations by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capacity_reservations: Vec<CapacityReservation>,
    /// Images, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub amis: Vec<Ami>,
    /// Instance profile of the machines.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instance_profile: String,
    /// What is true of the class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A subnet that machines may be launched into.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Subnet {
    /// Id of the subnet.
    pub id: String,
    /// Availability zone of the subnet.
    pub zone: String,
    /// Id of the availability zone, the same for every account.
    #[serde(default, rename = "zoneID", skip_serializing_if = "String::is_empty")]
    pub zone_id: String,
}

/// A security group that machines get.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecurityGroup {
    /// Id of the group.
    pub id: String,
    /// Name of the group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// A capacity reservation that machines may be launched into.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReservation {
    /// Availability zone of the reservation.
    pub availability_zone: String,
    /// When the reservation ends; absent for one without end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Time>,
    /// Id of the reservation.
    pub id: String,
    /// `open` or `targeted`.
    pub instance_match_criteria: String,
    /// Instance type that the reservation holds.
    pub instance_type: String,
    /// Account that owns the reservation.
    #[serde(rename = "ownerID")]
    pub owner_id: String,
    /// `default` or `capacity-block`.
    #[serde(default = "default_reservation_type")]
    pub reservation_type: String,
    /// Whether EC2 may take its machines back.
    #[serde(default)]
    pub interruptible: bool,
    /// `active` or `expiring`.
    #[serde(default = "default_reservation_state")]
    pub state: String,
}

fn default_reservation_type() -> String {
    "default".to_owned()
}

fn default_reservation_state() -> String {
    "active".to_owned()
}

/// An image, with the labels of the machines that it can run on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ami {
    /// Id of the image.
    pub id: String,
    /// Whether the image's owner has deprecated it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deprecated: bool,
    /// Name of the image.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What the labels of a machine must be to run this image.
    pub requirements: Vec<Requirement>,
}
