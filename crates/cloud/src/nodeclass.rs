//! Resolution of an EC2NodeClass. Its selectors become queries to EC2. The answers become subnets, security groups and images,
//! and conditions with a hint for each missing resource.
//!
//! [`queries`] and [`resolve`] are pure; [`fetch`] only sends the queries.

mod alias;
mod cache;
mod drift;
mod images;
mod profile;
mod queries;
mod reserved;
pub mod user_data;
mod validate;
mod variant;

use std::collections::{BTreeMap, BTreeSet};

use api::duration::InvalidDuration;
use api::nodeclass::{AmiFamily, EC2NodeClassSpec};
use api::{EC2NodeClass, condition, nodeclass, reason};

use crate::calls::{CapacityReservation, CloudError, InstanceProfile, PlacementGroup, SecurityGroup, Subnet};
use crate::settings::Settings;
use crate::tags::fingerprint;
use jiff::Timestamp;

pub use cache::{Keep, ResolutionCache};
pub use drift::{Drift, DriftUnknown, Group, drift};
pub use images::ResolvedImage;
pub use profile::{ProfilePlan, ProfileStep, Unused, class_path, cluster_path, own_name, removal};
pub use queries::{Answers, FoundImages, ImageQuery, Queries, fetch, queries};
pub use reserved::is_expiring;
pub use variant::Variant;

/// Condition reason: an annotation of the EC2NodeClass for the agent is invalid.
pub const AGENT_SETTINGS_INVALID: &str = "AgentSettingsInvalid";
/// Condition reason: the user data cannot be merged.
pub const USER_DATA_INVALID: &str = "UserDataInvalid";

/// The content of one condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Type of the condition.
    pub condition: &'static str,
    /// Status: `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// Reason in CamelCase.
    pub reason: &'static str,
    /// Message with a hint; empty if the condition holds.
    pub message: String,
}

impl Finding {
    pub(crate) fn good(condition: &'static str) -> Self {
        Self { condition, status: condition::TRUE, reason: condition, message: String::new() }
    }

    pub(crate) fn bad(condition: &'static str, reason: &'static str, message: String) -> Self {
        Self { condition, status: condition::FALSE, reason, message }
    }

    /// Reports whether the condition holds.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.status == condition::TRUE
    }
}

/// A zone of an EC2NodeClass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zone {
    /// Zone id, such as `usw2-az1`.
    pub id: String,
    /// Ids of the EC2NodeClass's subnets in the zone that have free addresses.
    pub subnets: Vec<String>,
}

/// An EC2NodeClass with everything that a launch needs.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedClass {
    /// Name of the EC2NodeClass.
    pub name: String,
    /// Its specification.
    pub spec: EC2NodeClassSpec,
    /// AMI family.
    pub family: AmiFamily,
    /// True if the images contain the Kerf agent.
    pub agent: bool,
    /// Settings of the agent, a YAML document that becomes part of the user data.
    pub agent_settings: Option<String>,
    /// Subnets, those with the most free addresses first, then by id.
    pub subnets: Vec<Subnet>,
    /// Security groups by id.
    pub security_groups: Vec<SecurityGroup>,
    /// Images, newest first.
    pub images: Vec<ResolvedImage>,
    /// Capacity reservations by id; empty without the ReservedCapacity feature gate.
    pub reservations: Vec<CapacityReservation>,
    /// Placement group, if the EC2NodeClass selects one.
    pub placement_group: Option<PlacementGroup>,
    /// Name of the instance profile; empty if it does not exist.
    pub instance_profile: String,
    /// True if the IAM policies deny launches with tags that Karpenter does not write, so that launches omit these.
    pub omits_own_tags: bool,
}

impl ResolvedClass {
    /// Returns the zones with a subnet.
    #[must_use]
    pub fn zones(&self) -> BTreeMap<String, Zone> {
        let mut zones: BTreeMap<String, Zone> = BTreeMap::new();
        for subnet in &self.subnets {
            let zone = zones.entry(subnet.zone.clone()).or_default();
            zone.id.clone_from(&subnet.zone_id);
            zone.subnets.extend((subnet.free_addresses > 0).then(|| subnet.id.clone()));
        }
        zones
    }

    /// Returns the first image that runs on an instance type with these labels.
    #[must_use]
    pub fn image_for(&self, labels: &BTreeMap<String, Vec<String>>) -> Option<&ResolvedImage> {
        self.images.iter().find(|image| image.fits(labels))
    }
}

/// The result of a resolution.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolution {
    /// The EC2NodeClass, as far as it could be resolved.
    pub class: ResolvedClass,
    /// Conditions in the order in which they are set. A condition is missing if EC2 gave no answer; its previous value then
    /// remains.
    pub findings: Vec<Finding>,
    /// Changes in IAM that launches need first; see [`Resolution::profile_failed`].
    pub profile_steps: Vec<ProfileStep>,
    /// Failed queries, to be retried soon.
    pub errors: Vec<CloudError>,
    invalid_timeout: Option<(&'static str, InvalidDuration)>,
}

impl Resolution {
    /// Reports whether instances can be launched.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.errors.is_empty() && self.findings.iter().all(Finding::is_good)
    }

    /// Returns the subnets for the status.
    #[must_use]
    pub fn status_subnets(&self) -> Vec<nodeclass::Subnet> {
        let shown = |subnet: &Subnet| nodeclass::Subnet {
            id: subnet.id.clone(),
            zone: subnet.zone.clone(),
            zone_id: subnet.zone_id.clone(),
        };
        self.class.subnets.iter().map(shown).collect()
    }

    /// Returns the security groups for the status.
    #[must_use]
    pub fn status_security_groups(&self) -> Vec<nodeclass::SecurityGroup> {
        let shown = |group: &SecurityGroup| nodeclass::SecurityGroup { id: group.id.clone(), name: group.name.clone() };
        self.class.security_groups.iter().map(shown).collect()
    }

    /// Returns the images for the status.
    #[must_use]
    pub fn status_amis(&self) -> Vec<nodeclass::Ami> {
        self.class.images.iter().map(ResolvedImage::status).collect()
    }

    /// Returns the capacity reservations for the status.
    #[must_use]
    pub fn status_reservations(&self, now: Timestamp) -> Vec<nodeclass::CapacityReservation> {
        self.class.reservations.iter().map(|one| reserved::shown(one, now)).collect()
    }

    /// Records the failure of one of [`Self::profile_steps`]: no instance profile exists yet, and the validation is repeated.
    pub fn profile_failed(&mut self, class: &EC2NodeClass, error: CloudError, settings: &Settings) {
        self.class.instance_profile.clear();
        self.findings.retain(|finding| {
            ![condition::INSTANCE_PROFILE_READY, condition::VALIDATION_SUCCEEDED].contains(&finding.condition)
        });
        match profile::step_failed(class, &error) {
            Some(finding) => self.findings.push(finding),
            None => self.errors.push(error),
        }
        self.validate(settings);
    }

    /// Records a failed launch probe: its condition, or its error without one. The previous condition then remains.
    pub fn launch_failed(&mut self, failure: Result<Finding, CloudError>) {
        self.findings.retain(|finding| finding.condition != condition::VALIDATION_SUCCEEDED);
        match failure {
            Ok(finding) => self.findings.push(finding),
            Err(error) => self.errors.push(error),
        }
    }

    /// Returns a hash of everything that a launch of the EC2NodeClass depends on. A successful probe is not repeated while the
    /// hash is the same.
    #[must_use]
    pub fn fingerprint(&self, class: &EC2NodeClass) -> u64 {
        let subnets: BTreeSet<&str> = self.class.subnets.iter().map(|subnet| subnet.id.as_str()).collect();
        let groups: Vec<&str> = self.class.security_groups.iter().map(|group| group.id.as_str()).collect();
        let images: Vec<&str> = self.class.images.iter().map(|one| one.image.id.as_str()).collect();
        let annotations = class.metadata.annotations.as_ref();
        fingerprint(&(subnets, groups, images, &self.class.instance_profile, &class.spec, annotations))
    }

    /// Adds the condition `ValidationSucceeded` of the whole EC2NodeClass.
    fn validate(&mut self, settings: &Settings) {
        let verdict =
            validate::validation(&self.class, &self.invalid_timeout, settings, &self.findings, !self.errors.is_empty());
        self.findings.push(verdict);
    }
}

/// Resolves an EC2NodeClass from the answers of its queries.
#[must_use]
pub fn resolve(class: &EC2NodeClass, answers: Answers, settings: &Settings, now: Timestamp) -> Resolution {
    let mut errors = Vec::new();
    let spec = class.spec.clone();
    let family = spec.resolved_ami_family();
    let mut findings = Vec::new();
    let images = match answers.images {
        Ok(found) => {
            let images = images::resolve(found);
            findings.push(images::finding(&spec, &images, settings));
            images
        }
        Err(error) => none(&mut errors, error),
    };
    let subnets = match answers.subnets {
        Ok(found) => {
            let subnets = sort_subnets(found);
            findings.push(subnets_finding(&spec, &subnets));
            subnets
        }
        Err(error) => none(&mut errors, error),
    };
    let security_groups = match answers.security_groups {
        Ok(found) => {
            let groups = unique(found, |group| group.id.clone());
            findings.push(groups_finding(&spec, &groups));
            groups
        }
        Err(error) => none(&mut errors, error),
    };
    let reservations = match answers.reservations {
        Ok(found) => {
            let good = Finding::good(condition::CAPACITY_RESERVATIONS_READY);
            findings.extend(settings.reserved_capacity.then_some(good));
            reserved::alive(found, now)
        }
        Err(error) => none(&mut errors, error),
    };
    let placement_group = match answers.placement_group {
        Ok(group) => {
            findings.push(reserved::group_finding(&spec, group.as_ref()));
            group
        }
        Err(error) => {
            match reserved::group_failed(&error) {
                Some(finding) => findings.push(finding),
                None => errors.push(error),
            }
            None
        }
    };
    let plan = profile_plan(class, answers.profiles, settings, &mut findings, &mut errors);
    let class_name = class.metadata.name.clone().unwrap_or_default();
    let resolved = ResolvedClass {
        name: class_name,
        agent: class.has_agent(),
        agent_settings: class.agent_settings().map(str::to_owned),
        family,
        subnets,
        security_groups,
        images,
        reservations,
        placement_group,
        instance_profile: plan.name,
        omits_own_tags: false,
        spec,
    };
    let invalid_timeout = class.invalid_timeout();
    let mut resolution = Resolution { class: resolved, findings, profile_steps: plan.steps, errors, invalid_timeout };
    resolution.validate(settings);
    resolution
}

fn profile_plan(
    class: &EC2NodeClass,
    found: Result<Vec<InstanceProfile>, CloudError>,
    settings: &Settings,
    findings: &mut Vec<Finding>,
    errors: &mut Vec<CloudError>,
) -> ProfilePlan {
    match found.map(|found| profile::plan(class, &found, settings)) {
        Ok(Ok(plan)) => {
            findings.push(Finding::good(condition::INSTANCE_PROFILE_READY));
            plan
        }
        Ok(Err(finding)) => {
            findings.push(finding);
            ProfilePlan::default()
        }
        Err(error) => {
            errors.push(error);
            ProfilePlan::default()
        }
    }
}

fn none<T>(errors: &mut Vec<CloudError>, error: CloudError) -> Vec<T> {
    errors.push(error);
    Vec::new()
}

/// Returns the items without duplicates, in the order of their ids.
fn unique<T>(found: Vec<T>, id: impl Fn(&T) -> String) -> Vec<T> {
    let by_id: BTreeMap<String, T> = found.into_iter().map(|one| (id(&one), one)).collect();
    by_id.into_values().collect()
}

fn sort_subnets(found: Vec<Subnet>) -> Vec<Subnet> {
    let mut subnets = unique(found, |subnet| subnet.id.clone());
    subnets.sort_by(|a, b| b.free_addresses.cmp(&a.free_addresses).then_with(|| a.id.cmp(&b.id)));
    subnets
}

fn subnets_finding(spec: &EC2NodeClassSpec, subnets: &[Subnet]) -> Finding {
    if !subnets.is_empty() {
        return Finding::good(condition::SUBNETS_READY);
    }
    let terms = spec.subnet_selector_terms.iter().map(|term| queries::describe(term.id.as_deref(), None, &term.tags));
    let message =
        format!("no subnet matches subnetSelectorTerms ({}); tag a subnet so, or correct the terms", listed(terms));
    Finding::bad(condition::SUBNETS_READY, reason::SUBNETS_NOT_FOUND, message)
}

fn groups_finding(spec: &EC2NodeClassSpec, groups: &[SecurityGroup]) -> Finding {
    if !groups.is_empty() {
        return Finding::good(condition::SECURITY_GROUPS_READY);
    }
    let terms = spec
        .security_group_selector_terms
        .iter()
        .map(|term| queries::describe(term.id.as_deref(), term.name.as_deref(), &term.tags));
    let message = format!(
        "no security group matches securityGroupSelectorTerms ({}); tag a security group so, or correct the terms",
        listed(terms)
    );
    Finding::bad(condition::SECURITY_GROUPS_READY, reason::SECURITY_GROUPS_NOT_FOUND, message)
}

fn listed(terms: impl Iterator<Item = String>) -> String {
    terms.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" or ")
}
