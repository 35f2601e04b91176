//! Launches: from a NodeClaim to a CreateFleet request, and from instances back to NodeClaims. No NodeClaim is launched twice,
//! and no instance is lost.
//!
//! # The protocol
//!
//! 1. [`choose`] converts the request of a NodeClaim into a [`LaunchChoice`]: launch templates and candidate pools. NodeClaims
//!    with equal choices may share one fleet.
//! 2. [`Token::new`] identifies the launch: it contains the time, and a hash of the choice and of the NodeClaims' UIDs. Each
//!    NodeClaim of the fleet stores it in the annotation `kerf.sh/launch-token` **before** the call.
//! 3. [`LaunchChoice::request`] creates the request. The token is its client token and a tag of every instance, so the
//!    instances can be found after any outcome. A fleet for one NodeClaim also has tags with the NodeClaim's name and UID. All
//!    instances of a fleet have the same tags, so instances of a shared fleet get [`ownership_tags`] when they are nodes.
//! 4. [`create_fleet`] creates the launch templates and the fleet. A call with an unknown outcome is retried with the **same request**,
//!    and EC2 returns the same answer. Other parameters need a new token, because EC2 refuses the old one.
//! 5. [`assign`] assigns the instances to the NodeClaims. An instance with a NodeClaim's UID belongs to that NodeClaim. The other
//!    instances in the order of their ids go to the other NodeClaims in the order of their names. Instances that a status
//!    already names are not assigned again. The assignment is deterministic.
//! 6. A NodeClaim without an instance because of insufficient capacity chooses again at once, without the unavailable
//!    offerings. A new token replaces its old one. Such a NodeClaim is deleted only when no acceptable offering is left.
//!
//! After a crash the request is lost, but the tokens are stored. [`resume`] handles NodeClaims with a token and without an
//! instance. Instances with their token are adopted. While EC2 may still hide new instances ([`SETTLE`]), the NodeClaim waits.
//! After that time the NodeClaim is launched under a new token. An instance that appears even later has no NodeClaim, and gc
//! terminates it.
//!
//! IAM policies may deny the tags with token, name and UID, which Karpenter does not write at launches. Then launches omit them
//! ([`ResolvedClass::omits_own_tags`]): after a crash no instance is adopted, and gc terminates what nothing claims.

mod addresses;
mod assignment;
mod candidate;
mod choice;
pub mod claim;
mod create_fleet;
mod probe;
mod reserved;
mod template;
mod templates;
mod token;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};

use api::{Taint, label};
use jiff::Timestamp;
use planner::{CapacityType, Catalogue, Requirements, Resources};
use thiserror::Error;

use crate::calls::{FleetConfig, FleetRequest, LaunchTemplateRequest, Tags};
use crate::nodeclass::ResolvedClass;
use crate::nodeclass::user_data::NodeRegistration;
use crate::settings::Settings;
use crate::tags::{LAUNCH_TOKEN_TAG, NODE_CLAIM_TAG, NODE_CLAIM_UID_TAG};
use crate::unavailable_offerings::{Scope, UnavailableOfferings, family_class};

pub use addresses::InFlight;
pub use assignment::{Assignment, HeldInstance, Resume, assign, resume, with_owners};
pub use choice::choose;
pub use create_fleet::{CreateFleetError, create_fleet};
pub use probe::{LaunchProbe, PermittedTags, ProbeFailure, Stage, probe, try_out};
pub use reserved::ReservationKind;
pub use template::{block_devices, metadata_options};
pub use templates::Templates;
pub use token::{SETTLE, Token};
pub use verdict::{FleetVerdict, LaunchFailure, Within, interpret, interpret_error, served};

/// Maximum number of instance types per fleet, cheapest first.
pub const MAX_TYPES: usize = 60;
/// Maximum number of instances per fleet. More NodeClaims are split into several fleets.
pub const MAX_TARGET: usize = 1000;

/// The request of a NodeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchRequest {
    /// Name of the NodePool.
    pub pool: String,
    /// Requirements of the NodeClaim, instance types included.
    pub requirements: Requirements,
    /// Resource requests that must fit.
    pub requests: Resources,
    /// Labels of the NodeClaim.
    pub labels: BTreeMap<String, String>,
    /// Taints, `spec.taints`.
    pub taints: Vec<Taint>,
    /// Startup taints, `spec.startupTaints`.
    pub startup_taints: Vec<Taint>,
    /// True if a NodeOverlay changes a price of the NodeClaim's instance types. Then the catalogue's prices select the pool,
    /// instead of EC2's.
    pub overlay_priced: bool,
    /// True if the plan lowered `minValues` to the available number of values. Then `minValues` do not block the launch.
    pub min_values_relaxed: bool,
}

impl LaunchRequest {
    /// Returns the labels and taints with which the node registers.
    #[must_use]
    pub fn registration(&self) -> NodeRegistration<'_> {
        NodeRegistration { labels: &self.labels, taints: &self.taints, startup_taints: &self.startup_taints }
    }
}

/// The state that a choice depends on, besides the request.
#[derive(Clone, Copy, Debug)]
pub struct LaunchOffer<'a> {
    /// Resolved EC2NodeClass.
    pub class: &'a ResolvedClass,
    /// Catalogue of the EC2NodeClass, with the current unavailable offerings.
    pub catalogue: &'a Catalogue,
    /// Unavailable offerings, subnets without addresses, and pools that another launch is probing.
    pub shortages: &'a UnavailableOfferings,
    /// Addresses that launches in flight will use.
    pub in_flight: &'a InFlight,
    /// Settings of the cluster.
    pub settings: &'a Settings,
    /// Current time.
    pub now: Timestamp,
}

/// The reason why a NodeClaim cannot be launched.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LaunchRefusal {
    /// No instance type is available. The NodeClaim is deleted and its pods are planned again.
    #[error("insufficient capacity: {0}")]
    InsufficientCapacity(String),
    /// The EC2NodeClass cannot be launched with its current configuration.
    #[error("EC2NodeClass {class} is not ready to launch")]
    Class {
        /// Name of the EC2NodeClass.
        class: String,
        /// Reason.
        #[source]
        source: machine::userdata::RenderError,
    },
}

/// Ids of capacity reservations by instance type and zone.
pub type Reservations = BTreeMap<(String, String), String>;

/// The pools and templates of a launch, independent of its NodeClaims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchChoice {
    /// Capacity type.
    pub capacity_type: CapacityType,
    /// Kind of the reservations that the launch uses.
    pub reservation_kind: Option<ReservationKind>,
    /// Reservation of each instance type and zone; empty unless the capacity type is reserved.
    pub reservations: Reservations,
    /// Launch templates that must exist.
    pub templates: Vec<LaunchTemplateRequest>,
    /// Candidate pools by launch template.
    pub configs: Vec<FleetConfig>,
    /// Tags of every instance of the NodePool and EC2NodeClass.
    pub tags: Tags,
    /// The `context` of the EC2NodeClass.
    pub context: Option<String>,
    /// True if the catalogue's prices or performance factors select the pool, instead of EC2's prices.
    pub prioritized: bool,
    /// True if launches omit the launch token and the NodeClaim from the tags.
    pub omits_own_tags: bool,
    /// Minimum number of pod IP addresses per instance: those of the smallest instance type.
    pub addresses: u32,
    /// True if `minValues` were lowered, by the plan or because capacity has changed since.
    pub min_values_relaxed: bool,
}

/// Name and UID of a NodeClaim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimId {
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
}

impl LaunchChoice {
    /// Returns the scopes under which any capacity of this choice could be unavailable.
    #[must_use]
    pub fn scopes(&self) -> BTreeSet<Scope> {
        let mut scopes = BTreeSet::from([Scope::CapacityType(self.capacity_type)]);
        let within = self.within();
        for one in self.configs.iter().flat_map(|config| &config.overrides) {
            scopes.extend(within.placed(self.capacity_type, &one.instance_type, &one.zone));
            scopes.extend(within.group_in(&one.zone));
            let class = family_class(&one.instance_type);
            scopes.insert(Scope::Quota { capacity_type: self.capacity_type, class });
            scopes.insert(Scope::offering(self.capacity_type, &one.instance_type, &one.zone));
            scopes.insert(Scope::Subnet(one.subnet_id.clone()));
        }
        scopes.extend(self.reservations.values().cloned().map(Scope::Reservation));
        scopes
    }

    /// Returns the reservations and the placement group of the choice.
    #[must_use]
    pub fn within(&self) -> Within<'_> {
        let placement = self.templates.first().map(|template| &template.placement);
        let group = placement.and_then(|place| Some((place.group_id.as_deref()?, place.partition)));
        Within { reservations: Some(&self.reservations), group }
    }

    /// Returns the CreateFleet request for these NodeClaims under a token.
    #[must_use]
    pub fn request(&self, token: &Token, claims: &[ClaimId]) -> FleetRequest {
        let mut tags = self.tags.clone();
        if !self.omits_own_tags {
            tags.insert(LAUNCH_TOKEN_TAG.to_owned(), token.to_string());
            tags.extend(if let [claim] = claims { ownership_tags(claim) } else { Tags::new() });
        }
        FleetRequest {
            client_token: token.to_string(),
            target: u32::try_from(claims.len()).unwrap_or(u32::MAX),
            capacity_type: match self.capacity_type {
                CapacityType::Spot => label::CAPACITY_SPOT.to_owned(),
                CapacityType::OnDemand | CapacityType::Reserved => label::CAPACITY_ON_DEMAND.to_owned(),
            },
            default_target_capacity_type: self
                .reservation_kind
                .and_then(ReservationKind::target_type)
                .map(str::to_owned),
            reserved_capacity_types: self
                .reservation_kind
                .and_then(ReservationKind::fleet_option)
                .map(str::to_owned)
                .into_iter()
                .collect(),
            configs: self.configs.clone(),
            tags,
            context: self.context.clone(),
            prioritized: self.prioritized,
        }
    }
}

/// Returns the tags that name an instance's NodeClaim.
#[must_use]
pub fn ownership_tags(claim: &ClaimId) -> Tags {
    [(NODE_CLAIM_TAG.to_owned(), claim.name.clone()), (NODE_CLAIM_UID_TAG.to_owned(), claim.uid.clone())].into()
}
