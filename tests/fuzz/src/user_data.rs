//! User data: arbitrary bytes, because users can paste any text into a launch template.

use machine::agent::{self, AgentSettings};
use machine::mime::{self, Part};
use machine::nodeconfig;
use machine::userdata::{self, NODE_CONFIG_TYPE, UserData, UserDataError};

use crate::ParseResult;
use crate::node_config::yaml;
use crate::sentence;

pub(crate) fn check(bytes: &[u8]) -> ParseResult {
    parts_survive(bytes);
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
