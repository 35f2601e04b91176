//! User data: arbitrary bytes, because users can paste any text into a launch template.

use machine::agent::{self, AgentSettings};
use machine::mime::{self, Part};
use machine::nodeconfig;
use machine::userdata::{self, AmiFamily, Bootstrap, LIMIT, NODE_CONFIG_TYPE, UserData, UserDataError};

use crate::ParseResult;
use crate::node_config::yaml;
use crate::sentence;

/// Name of the controller's cluster.
const CLUSTER: &str = "the-controllers-own";

pub(crate) fn check(bytes: &[u8]) -> ParseResult {
    parts_survive(bytes);
    rendered_settings_take_effect(bytes);
    let agent_alone = userdata::parse_agent(bytes);
    match userdata::parse(bytes) {
        Ok(read) => {
            let agent_alone = agent_alone.map(Option::unwrap_or_default);
            assert_eq!(agent_alone.as_ref(), Ok(&read.agent), "both ways of reading find the same settings");
            read.warnings.iter().for_each(|warning| sentence::hold(warning));
            assert_eq!(again(&read), Ok((read.config, read.agent)));
            ParseResult::Accepted
        }
        Err(error) => sentence::refused(&error),
    }
}

/// Writes the parsed user data as a document and parses it again.
fn again(read: &UserData) -> Result<(nodeconfig::NodeConfig, AgentSettings), UserDataError> {
    let parts = [Part::new(NODE_CONFIG_TYPE, yaml(&read.config)), Part::new(agent::MEDIA_TYPE, yaml(&read.agent))];
    let document = mime::render(&parts).map_err(UserDataError::Mime)?;
    userdata::parse(&document).map(|read| (read.config, read.agent))
}

/// Asserts that parts are the same after writing and parsing again; carriage returns are not kept.
fn parts_survive(bytes: &[u8]) {
    let Ok(parts) = mime::parse(bytes) else { return };
    let Ok(document) = mime::render(&parts) else { return };
    let plain = |part: Part| Part { body: part.body.into_iter().filter(|byte| *byte != b'\r').collect(), ..part };
    let again = mime::parse(&document);
    assert!(again == Ok(parts.into_iter().map(plain).collect()), "{again:?} from {}", document.escape_ascii());
}

/// Asserts that a document that the controller renders from any `spec.userData` names the cluster to join. The only exception
/// is a part of the user that cannot be parsed. The document must also contain the user's text.
fn rendered_settings_take_effect(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    others_name_the_cluster(text);
    let Some(document) = rendered(AmiFamily::Al2023, text, None) else { return };
    let config = match userdata::parse(document.as_bytes()) {
        Ok(read) => read.config,
        Err(UserDataError::Empty | UserDataError::Mime(_) | UserDataError::NoNodeConfig { .. }) => {
            unreachable!("what we render is a document with a NodeConfig: {document}")
        }
        Err(_) => return,
    };
    assert_eq!(config.spec.cluster.name, CLUSTER);
    let plain = !mime::is_mime(bytes) && !text.starts_with("#!") && !text.contains('\r');
    if let Some(user) = nodeconfig::parse(text).ok().filter(|_| plain) {
        assert!(config.spec.kubelet.flags.starts_with(&user.config.spec.kubelet.flags), "{document}");
    }
}

/// Asserts the same for the families without NodeConfig: the document names the cluster, and Bottlerocket's agent receives its
/// settings.
fn others_name_the_cluster(text: &str) {
    for family in [AmiFamily::Al2, AmiFamily::Windows2022, AmiFamily::Bottlerocket] {
        assert!(rendered(family, text, None).is_none_or(|document| document.contains(CLUSTER)), "{family:?}");
    }
    let settings_text = "units: [kubelet.service]\n";
    if let Some(document) = rendered(AmiFamily::Bottlerocket, text, Some(settings_text)) {
        assert_eq!(userdata::parse_agent(document.as_bytes()), Ok(agent::parse(settings_text).ok()), "{document}");
    }
}

/// Renders the document of a family; returns `None` if the user's text is refused, and checks the error message.
fn rendered(family: AmiFamily, text: &str, agent: Option<&str>) -> Option<String> {
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
            Some(document.text)
        }
        Err(error) => {
            sentence::refused(&error);
            None
        }
    }
}
