//! `spec.userData` and the settings annotation of an EC2NodeClass, which the controller reads and renders.

use machine::agent;
use machine::mime;
use machine::nodeconfig;
use machine::userdata::{self, AmiFamily, Bootstrap, LIMIT, UserDataError};

use crate::ParseResult;
use crate::sentence;

/// Name of the controller's cluster.
const CLUSTER: &str = "the-controllers-own";

pub(crate) fn check(bytes: &[u8]) -> ParseResult {
    let Ok(text) = std::str::from_utf8(bytes) else { return ParseResult::Refused("no text".to_owned()) };
    others_name_the_cluster(text);
    settings_are_part_of_the_document(text);
    match rendered(AmiFamily::Al2023, text, None) {
        Ok(document) => {
            settings_take_effect(text, &document);
            ParseResult::Accepted
        }
        Err(problem) => ParseResult::Refused(problem),
    }
}

/// Asserts that a document names the cluster to join and contains the user's text. The only exception is a part of the user that
/// cannot be parsed.
fn settings_take_effect(text: &str, document: &str) {
    let config = match userdata::parse(document.as_bytes()) {
        Ok(read) => read.config,
        Err(UserDataError::Empty | UserDataError::Mime(_) | UserDataError::NoNodeConfig { .. }) => {
            unreachable!("what we render is a document with a NodeConfig: {document}")
        }
        Err(_) => return,
    };
    assert_eq!(config.spec.cluster.name, CLUSTER);
    let plain = !mime::is_mime(text.as_bytes()) && !text.starts_with("#!") && !text.contains('\r');
    if let Some(user) = nodeconfig::parse(text).ok().filter(|_| plain) {
        assert!(config.spec.kubelet.flags.starts_with(&user.config.spec.kubelet.flags), "{document}");
    }
}

/// Asserts that valid settings of an annotation reach the agent.
fn settings_are_part_of_the_document(text: &str) {
    if let Ok(document) = rendered(AmiFamily::Al2023, "", Some(text)) {
        let settings = userdata::parse_agent(document.as_bytes());
        let is_blank = text.trim().is_empty();
        assert_eq!(settings, Ok(agent::parse(text).ok().filter(|_| !is_blank)), "{document}");
    }
}

/// Asserts the same for the families without NodeConfig: the document names the cluster, and Bottlerocket's agent receives its
/// settings.
fn others_name_the_cluster(text: &str) {
    for family in [AmiFamily::Al2, AmiFamily::Windows2022, AmiFamily::Bottlerocket] {
        assert!(rendered(family, text, None).ok().is_none_or(|document| document.contains(CLUSTER)), "{family:?}");
    }
    let settings_text = "units: [kubelet.service]\n";
    if let Ok(document) = rendered(AmiFamily::Bottlerocket, text, Some(settings_text)) {
        assert_eq!(userdata::parse_agent(document.as_bytes()), Ok(agent::parse(settings_text).ok()), "{document}");
    }
}

/// Renders the document of a family, or returns the error message, which is checked.
fn rendered(family: AmiFamily, text: &str, agent: Option<&str>) -> Result<String, String> {
    let bootstrap = Bootstrap {
        cluster_name: CLUSTER.to_owned(),
        cluster_endpoint: "https://example.com".to_owned(),
        cluster_ca: "Y2VydGlmaWNhdGVBdXRob3JpdHk=".to_owned(),
        cluster_cidr: "10.100.0.0/16".to_owned(),
        user_data: Some(text.to_owned()),
        agent: agent.map(str::to_owned),
        ..Bootstrap::default()
    };
    match userdata::render(family, &bootstrap) {
        Ok(document) => {
            assert!(document.text.len() <= LIMIT);
            Ok(document.text)
        }
        Err(error) => {
            sentence::refused(&error);
            Err(error.to_string())
        }
    }
}
