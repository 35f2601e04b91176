//! Status of an EC2NodeClass: results of its selectors.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::resources::requirement::Requirement;
use crate::resources::status::Condition;

/// Observed state of an EC2NodeClass: results of its selectors, and its conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EC2NodeClassStatus {
    /// Selected subnets, those with the most free IP addresses first, then by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subnets: Vec<Subnet>,
    /// Selected security groups by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<SecurityGroup>,
    /// Selected capacity reservations by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capacity_reservations: Vec<CapacityReservation>,
    /// Selected images, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub amis: Vec<Ami>,
    /// Instance profile of the instances.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instance_profile: String,
    /// Conditions of the EC2NodeClass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Subnet for the launch of instances.
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

/// Security group of the instances.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecurityGroup {
    /// Id of the group.
    pub id: String,
    /// Name of the group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// Capacity reservation for the launch of instances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReservation {
    /// Availability zone of the reservation.
    pub availability_zone: String,
    /// End of the reservation; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Time>,
    /// Id of the reservation.
    pub id: String,
    /// Instance match criteria: `open` or `targeted`.
    #[schemars(extend("enum" = ["open", "targeted"]))]
    pub instance_match_criteria: String,
    /// Instance type of the reservation.
    pub instance_type: String,
    /// Id of the account that owns the reservation.
    #[serde(rename = "ownerID")]
    pub owner_id: String,
    /// Type of the reservation: `default` or `capacity-block`.
    #[serde(default = "default_reservation_type")]
    #[schemars(extend("enum" = ["default", "capacity-block"]))]
    pub reservation_type: String,
    /// True if EC2 may reclaim instances of the reservation.
    #[serde(default)]
    pub interruptible: bool,
    /// State of the reservation: `active` or `expiring`.
    #[serde(default = "default_reservation_state")]
    #[schemars(extend("enum" = ["active", "expiring"]))]
    pub state: String,
}

fn default_reservation_type() -> String {
    "default".to_owned()
}

fn default_reservation_state() -> String {
    "active".to_owned()
}

/// Image, with requirements on the instance types that can run it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ami {
    /// Id of the image.
    pub id: String,
    /// True if the owner has deprecated the image.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deprecated: bool,
    /// Name of the image.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Requirements on the labels of an instance type that can run this image.
    pub requirements: Vec<Requirement>,
}
