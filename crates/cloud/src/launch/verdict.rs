//! Interpretation of a fleet's errors: the offerings that become unavailable, and the condition of the NodeClaim.

use api::reason;
use planner::CapacityType;

use super::Reservations;
use crate::calls::{CloudError, ErrorKind, FleetAnswer, FleetError};
use crate::unavailable_offerings::{Scope, family_class};

/// Error codes of insufficient capacity, for which another offering may succeed.
const UNFULFILLABLE: [&str; 7] = [
    "InsufficientInstanceCapacity",
    MAX_SPOT,
    VCPU_LIMIT,
    "UnfulfillableCapacity",
    "Unsupported",
    NO_ADDRESSES,
    "ReservationCapacityExceeded",
];
const MAX_SPOT: &str = "MaxSpotInstanceCountExceeded";
const VCPU_LIMIT: &str = "VcpuLimitExceeded";
const NO_ADDRESSES: &str = "InsufficientFreeAddressesInSubnet";
const NO_SPOT_ROLE: &str = "AuthFailure.ServiceLinkedRoleCreationNotPermitted";
/// Hint for an account that never launched spot. A retry does not help, and EC2's message contains no hint.
const SPOT_ROLE_HINT: &str =
    "create the role once: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com";

/// Texts in EC2's errors and the condition reason of each; the first match is used.
const REASONS: [(&str, &str); 22] = [
    (NO_SPOT_ROLE, "SpotSLRCreationFailed"),
    ("UnauthorizedOperation", "Unauthorized"),
    ("with an explicit deny", "Unauthorized"),
    ("no identity-based policy allows", "Unauthorized"),
    ("Not authorized for images", "AMIAuthorizationFailure"),
    ("belong to different networks", "SecurityGroupSubnetVPCMismatch"),
    ("Invalid IAM Instance Profile name", "InstanceProfileNameInvalid"),
    ("InvalidLaunchTemplateName.NotFoundException", "LaunchTemplateNotFound"),
    ("User data is limited to", reason::USER_DATA_SIZE_LIMIT_EXCEEDED),
    ("InvalidAMIID.Malformed", "InvalidAMIID"),
    ("InvalidAMIID.NotFound", reason::AMI_NOT_FOUND),
    ("InvalidAMIID.Unavailable", reason::AMI_NOT_FOUND),
    ("RequestLimitExceeded", "RequestLimitExceeded"),
    ("InternalError", "InternalError"),
    ("not eligible for Free Tier", "FreeTierIneligible"),
    ("MaxFleetCountExceeded", "FleetQuotaExceeded"),
    ("PendingVerification", "AccountPendingVerification"),
    (MAX_SPOT, "SpotQuotaExceeded"),
    (VCPU_LIMIT, "VCPULimitExceeded"),
    (NO_ADDRESSES, NO_ADDRESSES_REASON),
    ("InsufficientFreeAddresses", NO_ADDRESSES_REASON),
    ("Throttling", "RequestLimitExceeded"),
];
const NO_ADDRESSES_REASON: &str = "InsufficientFreeAddressesInSubnet";

/// The reason why NodeClaims of a fleet have no instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchFailure {
    /// All acceptable offerings are unavailable. The NodeClaim is deleted and its pods are planned again.
    InsufficientCapacity {
        /// EC2's message.
        message: String,
    },
    /// Another error. The NodeClaim reports it in its condition and the launch is retried.
    Create {
        /// Reason of the NodeClaim's condition.
        reason: &'static str,
        /// EC2's message.
        message: String,
    },
}

/// Reservations and placement group of a launch. An error of these does not make the pool itself unavailable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Within<'a> {
    /// Reservations that the launch uses.
    pub reservations: Option<&'a Reservations>,
    /// Id of the placement group, with the partition if the group has partitions.
    pub group: Option<(&'a str, Option<u32>)>,
}

impl Within<'_> {
    /// Returns the scope of the placement group in a zone, if the launch has a group.
    pub(super) fn group_in(&self, zone: &str) -> Option<Scope> {
        self.group.map(|(group, _)| Scope::Group { group: group.to_owned(), zone: zone.to_owned() })
    }

    /// Returns the scope of an offering inside the placement group, if the launch has a group.
    pub(super) fn placed(&self, capacity_type: CapacityType, kind: &str, zone: &str) -> Option<Scope> {
        self.group.map(|(group, partition)| Scope::Placed {
            capacity_type,
            instance_type: kind.to_owned(),
            zone: zone.to_owned(),
            group: group.to_owned(),
            partition,
        })
    }
}

/// The interpretation of a fleet's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetVerdict {
    /// Scopes that are unavailable now.
    pub shortages: Vec<Scope>,
    /// Reason why some NodeClaims have no instance; `None` without errors.
    pub failure: Option<LaunchFailure>,
}

/// Interprets an answer, with or without launched instances. All NodeClaims without an instance share `failure`.
///
/// For reserved capacity the reservation becomes unavailable instead of the instance type; in a placement group, the group
/// does.
#[must_use]
pub fn interpret(answer: &FleetAnswer, within: &Within<'_>) -> FleetVerdict {
    let mut shortages: Vec<Scope> = answer.errors.iter().filter_map(|error| scope(error, within)).collect();
    shortages.sort();
    shortages.dedup();
    let is_insufficient =
        |error: &FleetError| UNFULFILLABLE.contains(&error.code.as_str()) || error.code == NO_SPOT_ROLE;
    let message = summary(&answer.errors);
    let failure = match answer.errors.iter().find(|error| !is_insufficient(error)) {
        _ if answer.errors.is_empty() => None,
        Some(_) => Some(LaunchFailure::Create { reason: reason_of(&message), message }),
        None => Some(LaunchFailure::InsufficientCapacity { message }),
    };
    FleetVerdict { shortages, failure }
}

/// Interprets the failure of a whole call.
#[must_use]
pub fn interpret_error(error: &CloudError) -> LaunchFailure {
    let text = format!("{}: {}", error.code, error.message);
    match error.kind {
        ErrorKind::InsufficientCapacity => LaunchFailure::InsufficientCapacity { message: text },
        _ => LaunchFailure::Create { reason: reason_of(&text), message: error.to_string() },
    }
}

/// Returns the scope that an error makes unavailable. The cause may be wider than the pool.
fn scope(error: &FleetError, within: &Within<'_>) -> Option<Scope> {
    let capacity_type = match error.lifecycle.as_str() {
        "spot" => CapacityType::Spot,
        _ => CapacityType::OnDemand,
    };
    let kind = error.instance_type.as_str();
    let pool = (error.instance_type.clone(), error.zone.clone());
    let reservation = within.reservations.and_then(|all| all.get(&pool));
    if let Some(id) = reservation.filter(|_| UNFULFILLABLE.contains(&error.code.as_str()) && error.code != NO_ADDRESSES)
    {
        return Some(Scope::Reservation(id.clone()));
    }
    match error.code.as_str() {
        NO_SPOT_ROLE => Some(Scope::CapacityType(CapacityType::Spot)),
        NO_ADDRESSES if !error.subnet_id.is_empty() => Some(Scope::Subnet(error.subnet_id.clone())),
        MAX_SPOT if !kind.is_empty() => {
            Some(Scope::Quota { capacity_type: CapacityType::Spot, class: family_class(kind) })
        }
        VCPU_LIMIT if !kind.is_empty() => Some(Scope::Quota { capacity_type, class: family_class(kind) }),
        code if UNFULFILLABLE.contains(&code) && !kind.is_empty() && !error.zone.is_empty() => {
            let full = within.group_in(&error.zone).filter(|_| is_full_group(error));
            let placed = || within.placed(capacity_type, kind, &error.zone);
            Some(full.or_else(placed).unwrap_or_else(|| Scope::offering(capacity_type, kind, &error.zone)))
        }
        _ => None,
    }
}

/// Reports whether the error means a full spread placement group. Such a group takes seven instances of any type per zone, and
/// EC2 reports a full group as insufficient capacity.
fn is_full_group(error: &FleetError) -> bool {
    let message = error.message.to_lowercase();
    message.contains("placement group") && message.contains("7 ")
}

/// Returns the scopes of the launched instances, which are available again.
#[must_use]
pub fn served(answer: &FleetAnswer, within: &Within<'_>) -> Vec<Scope> {
    let mut scopes: Vec<Scope> = answer
        .instances
        .iter()
        .flat_map(|one| {
            let capacity_type = if one.lifecycle == "spot" { CapacityType::Spot } else { CapacityType::OnDemand };
            let placed = within.placed(capacity_type, &one.instance_type, &one.zone);
            let scopes = [
                Scope::offering(capacity_type, &one.instance_type, &one.zone),
                Scope::Quota { capacity_type, class: family_class(&one.instance_type) },
                Scope::CapacityType(capacity_type),
                Scope::Subnet(one.subnet_id.clone()),
            ];
            scopes.into_iter().chain(placed)
        })
        .collect();
    scopes.sort();
    scopes.dedup();
    scopes
}

/// Lists each code and message once with its pools, and a hint if an administrator must act.
fn summary(errors: &[FleetError]) -> String {
    let mut seen: Vec<(String, Vec<String>)> = Vec::new();
    for error in errors {
        let text = format!("{}: {}", error.code, error.message);
        let pool = format!("{} {} {}", error.lifecycle, error.instance_type, error.zone);
        match seen.iter_mut().find(|(known, _)| *known == text) {
            Some((_, pools)) => pools.push(pool),
            None => seen.push((text, vec![pool])),
        }
    }
    let line = |(text, pools): (String, Vec<String>)| format!("{text} ({})", pools.join(", "));
    let hint = errors.iter().any(|error| error.code == NO_SPOT_ROLE).then(|| SPOT_ROLE_HINT.to_owned());
    seen.into_iter().map(line).chain(hint).collect::<Vec<_>>().join("; ")
}

fn reason_of(text: &str) -> &'static str {
    REASONS.iter().find(|(part, _)| text.contains(part)).map_or(reason::LAUNCH_FAILED, |(_, reason)| *reason)
}
