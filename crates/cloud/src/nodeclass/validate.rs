//! Validation of an EC2NodeClass before any launch.

use api::duration::InvalidDuration;
use api::nodeclass::AmiFamily;
use api::{annotation, condition, label, reason};
use machine::userdata::RenderError;

use super::user_data::{self, NodeRegistration, NodeUserData};
use super::{AGENT_SETTINGS_INVALID, Finding, ResolvedClass, USER_DATA_INVALID};
use crate::settings::Settings;

/// Tag keys that Kerf sets itself.
const RESERVED_TAGS: [&str; 4] =
    ["eks:eks-cluster-name", "karpenter.sh/nodepool", "karpenter.sh/nodeclaim", "karpenter.k8s.aws/ec2nodeclass"];

/// Returns the condition of the whole EC2NodeClass, given the conditions of its parts.
pub(super) fn validation(
    class: &ResolvedClass,
    invalid_timeout: &Option<(&'static str, InvalidDuration)>,
    settings: &Settings,
    parts: &[Finding],
    unanswered: bool,
) -> Finding {
    let condition = condition::VALIDATION_SUCCEEDED;
    let failed: Vec<&str> = parts.iter().filter(|part| !part.is_good()).map(|part| part.condition).collect();
    if !failed.is_empty() || unanswered {
        let status = if failed.is_empty() { condition::UNKNOWN } else { condition::FALSE };
        let message = match failed.is_empty() {
            true => "not all EC2 resources are resolved yet".to_owned(),
            false => format!("waiting for {}", failed.join(", ")),
        };
        return Finding { condition, status, reason: reason::DEPENDENCIES_NOT_READY, message };
    }
    let timeout = invalid_timeout
        .as_ref()
        .map(|(annotation, error)| (AGENT_SETTINGS_INVALID, format!("annotation {annotation}: {error}")));
    match timeout.or_else(|| problem(class, settings)) {
        Some((reason, message)) => Finding::bad(condition, reason, message),
        None => Finding::good(condition),
    }
}

fn problem(class: &ResolvedClass, settings: &Settings) -> Option<(&'static str, String)> {
    let reserved = |key: &&String| RESERVED_TAGS.contains(&key.as_str()) || key.starts_with("kubernetes.io/cluster");
    if let Some(key) = class.spec.tags.keys().find(reserved) {
        return Some((
            reason::TAG_VALIDATION_FAILED,
            format!("spec.tags has {key}, which Kerf sets itself; remove it"),
        ));
    }
    if let Some(message) = class.agent_settings.as_deref().and_then(|text| agent_problem(class.family, text)) {
        return Some((AGENT_SETTINGS_INVALID, message));
    }
    if class.family == AmiFamily::Al2023 && settings.cluster_cidr.is_empty() {
        let message = "unknown service CIDR of the cluster; allow eks:DescribeCluster, or set CLUSTER_CIDR, and \
                       restart the controller"
            .to_owned();
        return Some((reason::CLUSTER_CIDR_RESOLUTION_FAILED, message));
    }
    let machine = NodeUserData { capacity_type: label::CAPACITY_SPOT, image_id: "", max_pods: 110 };
    let sample = user_data::render(class, settings, NodeRegistration::default(), machine);
    sample.err().map(|error| (render_reason(&error), chain(&error)))
}

/// Returns why the agent's settings are invalid for instances of the EC2NodeClass.
fn agent_problem(family: AmiFamily, text: &str) -> Option<String> {
    let key = annotation::AGENT_SETTINGS;
    if family == AmiFamily::Custom {
        return Some(format!(
            "annotation {key}: Kerf writes no user data for amiFamily Custom; put the settings into spec.userData as a part {}",
            machine::agent::MEDIA_TYPE
        ));
    }
    machine::agent::parse(text).err().map(|error| format!("annotation {key}: {error}"))
}

fn render_reason(error: &RenderError) -> &'static str {
    match error {
        RenderError::TooLarge { .. } => reason::USER_DATA_SIZE_LIMIT_EXCEEDED,
        RenderError::Agent(_)
        | RenderError::AgentNotServed { .. }
        | RenderError::NoAgentPart
        | RenderError::NoAgentSource => AGENT_SETTINGS_INVALID,
        _ => USER_DATA_INVALID,
    }
}

fn chain(error: &RenderError) -> String {
    let cause = std::error::Error::source(error).map_or_else(String::new, |cause| format!(": {cause}"));
    format!("{error}{cause}")
}
