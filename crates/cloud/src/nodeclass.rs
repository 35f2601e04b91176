//! What an EC2NodeClass comes to: its selectors become questions to EC2, the answers become subnets, groups and images,
//! and conditions that say what is missing and how to mend it (aws 1.4, 2.1).
//!
//! [`queries`] and [`resolve`] are pure; [`fetch`] only carries the questions out.

mod images;
mod queries;
mod validate;

use std::collections::{BTreeMap, BTreeSet};

use api::nodeclass::{AmiFamily, EC2NodeClassSpec};
use api::{EC2NodeClass, condition, nodeclass, reason};

use crate::calls::{SecurityGroup, Subnet};
use crate::error::CloudError;
use crate::settings::Settings;
use crate::types::Zone;

pub use images::{ResolvedImage, Variant};
pub use queries::{Answers, FoundImages, ImageQuery, Queries, fetch, queries};

/// The role of a class must become an instance profile, which this version does not do.
pub const ROLE_NOT_SUPPORTED: &str = "RoleNotSupported";
/// A field of the class that this version would have to ignore.
pub const FIELD_NOT_SUPPORTED: &str = "FieldNotSupported";
/// An annotation of the class that concerns the agent cannot be followed.
pub const AGENT_SETTINGS_INVALID: &str = "AgentSettingsInvalid";
/// The user data cannot be merged.
pub const USER_DATA_INVALID: &str = "UserDataInvalid";

/// What one condition shall say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Type of the condition.
    pub condition: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// One word.
    pub reason: &'static str,
    /// A sentence with the cure; empty when all is well.
    pub message: String,
}

impl Finding {
    pub(crate) fn good(condition: &'static str) -> Self {
        Self { condition, status: condition::TRUE, reason: condition, message: String::new() }
    }

    pub(crate) fn bad(condition: &'static str, reason: &'static str, message: String) -> Self {
        Self { condition, status: condition::FALSE, reason, message }
    }

    /// Whether the condition holds.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.status == condition::TRUE
    }
}

/// A class with everything that a launch needs.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedClass {
    /// The class's name.
    pub name: String,
    /// Its specification.
    pub spec: EC2NodeClassSpec,
    /// The image family.
    pub family: AmiFamily,
    /// Whether the images carry the Kerf agent.
    pub agent: bool,
    /// The agent's settings, a YAML document that goes into the machines' user data.
    pub agent_settings: Option<String>,
    /// Subnets, most free addresses first, then by id.
    pub subnets: Vec<Subnet>,
    /// Security groups by id.
    pub security_groups: Vec<SecurityGroup>,
    /// Images, newest first.
    pub images: Vec<ResolvedImage>,
    /// Name of the instance profile; empty when there is none.
    pub instance_profile: String,
}

impl ResolvedClass {
    /// Zones with a subnet.
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

    /// The first image that runs on a type with these labels.
    #[must_use]
    pub fn image_for(&self, labels: &BTreeMap<String, Vec<String>>) -> Option<&ResolvedImage> {
        self.images.iter().find(|image| image.fits(labels))
    }
}

/// What the answers came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolution {
    /// The class as far as it could be resolved.
    pub class: ResolvedClass,
    /// Conditions in the order in which they should be set; one is missing where EC2 gave no answer, so that what was
    /// known stays.
    pub findings: Vec<Finding>,
    /// Questions that EC2 did not answer; try again soon.
    pub errors: Vec<CloudError>,
}

impl Resolution {
    /// Whether machines can be launched.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.errors.is_empty() && self.findings.iter().all(Finding::is_good)
    }

    /// Subnets as the status shows them.
    #[must_use]
    pub fn status_subnets(&self) -> Vec<nodeclass::Subnet> {
        let shown = |subnet: &Subnet| nodeclass::Subnet {
            id: subnet.id.clone(),
            zone: subnet.zone.clone(),
            zone_id: subnet.zone_id.clone(),
        };
        self.class.subnets.iter().map(shown).collect()
    }

    /// Security groups as the status shows them.
    #[must_use]
    pub fn status_security_groups(&self) -> Vec<nodeclass::SecurityGroup> {
        let shown = |group: &SecurityGroup| nodeclass::SecurityGroup { id: group.id.clone(), name: group.name.clone() };
        self.class.security_groups.iter().map(shown).collect()
    }

    /// Images as the status shows them.
    #[must_use]
    pub fn status_amis(&self) -> Vec<nodeclass::Ami> {
        self.class.images.iter().map(ResolvedImage::status).collect()
    }
}

/// Puts the answers together.
#[must_use]
pub fn resolve(class: &EC2NodeClass, answers: Answers, settings: &Settings) -> Resolution {
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
    findings.push(validate::profile(&spec));
    let timeout = class.gate_timeout();
    findings.push(validate::placement_group(&spec));
    let class = ResolvedClass {
        name: class.metadata.name.clone().unwrap_or_default(),
        agent: class.has_agent(),
        agent_settings: class.agent_settings().map(str::to_owned),
        family,
        subnets,
        security_groups,
        images,
        instance_profile: spec.instance_profile.clone().unwrap_or_default(),
        spec,
    };
    findings.push(validate::validation(&class, timeout, settings, &findings, !errors.is_empty()));
    Resolution { class, findings, errors }
}

fn none<T>(errors: &mut Vec<CloudError>, error: CloudError) -> Vec<T> {
    errors.push(error);
    Vec::new()
}

/// The things without repetition, in the order of their ids.
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
