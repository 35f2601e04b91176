//! User data, the only input of an instance before its start: the controller renders it and the agent reads it. The parser
//! accepts the output of all EC2 tools (base64, gzip, MIME, plain) within limits, and reports errors.

mod host_container;
mod write;

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;

use crate::agent::{self, AgentSettings};
use crate::gzip;
use crate::mime::{self, MimeError};
use crate::nodeconfig::{self, NodeConfig, NodeConfigError};
use crate::quote::quote;

pub use api::nodeclass::AmiFamily;
pub use write::{Bootstrap, Document, RenderError, Warning, check_size, encode, render};

/// EC2's limit for user data before base64, in bytes.
pub const LIMIT: usize = 16_384;
/// Maximum unpacked size of compressed user data and of all its NodeConfigs together, in bytes: a limit for decompression bombs.
pub const UNPACKED_LIMIT: usize = 1_048_576;
/// Media type of a NodeConfig part.
pub const NODE_CONFIG_TYPE: &str = "application/node.eks.aws";
/// Path of the agent's settings in Bottlerocket's settings, for messages.
const HOST_CONTAINER: &str = "settings.host-containers.kerf-agent.user-data";
/// Depth to which nested documents are searched for NodeConfigs.
const DEEPEST: usize = 4;
/// Media type of a shell script.
const SHELL_SCRIPT_TYPE: &str = "text/x-shellscript";
/// Problem of a nested document with a NodeConfig.
const NESTED: &str = "NodeConfigs in a nested multipart document have no effect; move them into the outer document";
/// Problem of a NodeConfig with another media type.
const MISLABELED: &str =
    "a NodeConfig of this media type has no effect; write `Content-Type: application/node.eks.aws`";

/// Parsed user data.
#[derive(Debug, Clone, PartialEq)]
pub struct UserData {
    /// All NodeConfigs of the document, merged in order.
    pub config: NodeConfig,
    /// Last settings part; defaults without one.
    pub agent: AgentSettings,
    /// Warnings about ignored content, one sentence each.
    pub warnings: Vec<String>,
}

/// Reason why user data cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UserDataError {
    /// The user data is empty or white space.
    #[error("user data is empty; write a NodeConfig, plain or as a MIME part {NODE_CONFIG_TYPE}")]
    Empty,
    /// The bytes are neither text nor gzip nor base64.
    #[error("{what} is neither text nor gzip nor base64: byte {offset} is not UTF-8; check its encoding")]
    NotText {
        /// Name of the input.
        what: String,
        /// 0-based offset of the first invalid byte.
        offset: usize,
    },
    /// A gzip stream is corrupt.
    #[error("{what} is invalid gzip ({problem}); compress it again")]
    Gzip {
        /// Name of the input.
        what: String,
        /// Message of the decoder.
        problem: String,
    },
    /// A gzip stream exceeds [`UNPACKED_LIMIT`].
    #[error("{what} unpacks to more than {UNPACKED_LIMIT} bytes, the limit of all NodeConfigs; shorten it")]
    TooLarge {
        /// Name of the input.
        what: String,
    },
    /// A MIME document is invalid.
    #[error("user data is invalid MIME multipart")]
    Mime(#[source] MimeError),
    /// A NodeConfig or a settings part cannot be parsed.
    #[error("cannot use {what}")]
    Document {
        /// Name of the document.
        what: String,
        /// Line, field and problem.
        #[source]
        source: NodeConfigError,
    },
    /// A MIME document has no NodeConfig part.
    #[error("user data has no {NODE_CONFIG_TYPE} part, only {found}; add one with a NodeConfig{lost}")]
    NoNodeConfig {
        /// Media types of the document.
        found: String,
        /// Parts with a NodeConfig that has no effect, each after a semicolon.
        lost: String,
    },
}

/// Parses user data: base64 if it decodes, gzip by its magic, then MIME parts or one NodeConfig document. Parts are unpacked in
/// the same way. NodeConfigs merge in order. What nodeadm accepts is accepted with the same meaning, and losses are reported.
///
/// # Errors
/// Returns a [`UserDataError`]; its sources have line and field.
pub fn parse(raw: &[u8]) -> Result<UserData, UserDataError> {
    let data = unpack(raw, "user data")?;
    if data.trim_ascii().is_empty() {
        return Err(UserDataError::Empty);
    }
    if !mime::is_mime(&data) {
        let mut user_data = UserData::new();
        user_data.add_node_config(&data, "user data")?;
        return Ok(user_data);
    }
    parse_parts(&mime::parse(&data).map_err(UserDataError::Mime)?)
}

fn parse_parts(parts: &[mime::Part]) -> Result<UserData, UserDataError> {
    let mut user_data = UserData::new();
    let (mut has_config, mut room) = (false, UNPACKED_LIMIT);
    for (index, part) in parts.iter().enumerate() {
        let what = format!("MIME part {} ({})", index + 1, quote(&part.media_type()));
        let kind = match part_kind(part) {
            // For nodeadm, the headers of a document that is not multipart are unknown fields of its NodeConfig.
            PartKind::Mislabeled if parts.len() == 1 => PartKind::NodeConfig,
            kind => kind,
        };
        match kind {
            PartKind::NodeConfig => {
                let content = unpack(&part.content(), &what)?;
                room = room.checked_sub(content.len()).ok_or_else(|| UserDataError::TooLarge { what: what.clone() })?;
                user_data.add_node_config(&content, &what)?;
                has_config = true;
            }
            PartKind::AgentSettings => user_data.agent = agent_settings(&unpack(&part.content(), &what)?, &what)?,
            PartKind::Nested => user_data.warnings.push(format!("{what}: {NESTED}")),
            PartKind::Mislabeled => user_data.warnings.push(format!("{what}: {MISLABELED}")),
            PartKind::Other => {}
        }
    }
    if has_config {
        return Ok(user_data);
    }
    let found: Vec<String> = parts.iter().map(mime::Part::media_type).collect();
    let lost = user_data.warnings.into_iter().map(|warning| format!("; {warning}")).collect();
    Err(UserDataError::NoNodeConfig { found: quote(&found.join(", ")), lost })
}

/// Use of a part by a reader of NodeConfigs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartKind {
    NodeConfig,
    AgentSettings,
    /// A multipart document that contains a NodeConfig or settings, which have no effect.
    Nested,
    /// A NodeConfig by its content that has the type of a script, of text or no type.
    Mislabeled,
    Other,
}

fn part_kind(part: &mime::Part) -> PartKind {
    match part.media_type().as_str() {
        NODE_CONFIG_TYPE => PartKind::NodeConfig,
        agent::MEDIA_TYPE => PartKind::AgentSettings,
        _ if contains_config(part, DEEPEST) => PartKind::Nested,
        SHELL_SCRIPT_TYPE | "text/plain" | "text/yaml" | "application/yaml" if is_node_config(&part.content()) => {
            PartKind::Mislabeled
        }
        _ => PartKind::Other,
    }
}

/// Reports whether a nested document contains a NodeConfig or settings of the agent, down to a depth.
fn contains_config(part: &mime::Part, depth: usize) -> bool {
    let is_config = |part: &mime::Part| [NODE_CONFIG_TYPE, agent::MEDIA_TYPE].contains(&part.media_type().as_str());
    let parts = part.nested().filter(|_| depth > 0).unwrap_or_default();
    parts.iter().any(|part| is_config(part) || contains_config(part, depth - 1))
}

/// Reports whether bytes are a NodeConfig by its `apiVersion`, packed or not.
fn is_node_config(data: &[u8]) -> bool {
    let unpacked = unpack(data, "");
    unpacked.is_ok_and(|data| text(&data, "").is_ok_and(|text| nodeconfig::is_node_config(&text)))
}

/// Parses only the agent's settings, from user data of any kind: a part of MIME or a host container of Bottlerocket. The agent
/// does not validate the rest, which is for another program's bootstrap. Returns `None` without settings.
///
/// # Errors
/// Returns a [`UserDataError`]; its sources have line and field.
pub fn parse_agent(raw: &[u8]) -> Result<Option<AgentSettings>, UserDataError> {
    let data = unpack(raw, "user data")?;
    if !mime::is_mime(&data) {
        let settings = host_container::user_data(&data);
        return settings
            .map(|settings| agent_settings(&unpack(settings.as_bytes(), HOST_CONTAINER)?, HOST_CONTAINER))
            .transpose();
    }
    let parts = mime::parse(&data).map_err(UserDataError::Mime)?;
    let last = parts.iter().enumerate().rfind(|(_, part)| part.media_type() == agent::MEDIA_TYPE);
    let read = |(index, part): (usize, &mime::Part)| {
        let what = format!("MIME part {} ({})", index + 1, agent::MEDIA_TYPE);
        agent_settings(&unpack(&part.content(), &what)?, &what)
    };
    last.map(read).transpose()
}

impl UserData {
    fn new() -> Self {
        Self { config: NodeConfig::new(), agent: AgentSettings::default(), warnings: Vec::new() }
    }

    fn add_node_config(&mut self, data: &[u8], what: &str) -> Result<(), UserDataError> {
        let document = |source| UserDataError::Document { what: what.to_owned(), source };
        let parsed = nodeconfig::parse(&text(data, what)?).map_err(document)?;
        self.config.merge(parsed.config);
        let named = parsed.warnings.into_iter().map(|warning| format!("{what}: {warning}"));
        self.warnings.extend(named);
        Ok(())
    }
}

fn agent_settings(data: &[u8], what: &str) -> Result<AgentSettings, UserDataError> {
    agent::parse(&text(data, what)?).map_err(|source| UserDataError::Document { what: what.to_owned(), source })
}

/// Returns the text of UTF-8, or of UTF-16 with a byte order mark.
fn text<'a>(data: &'a [u8], what: &str) -> Result<Cow<'a, str>, UserDataError> {
    let unit: Option<fn([u8; 2]) -> u16> = match data {
        [0xff, 0xfe, ..] => Some(u16::from_le_bytes),
        [0xfe, 0xff, ..] => Some(u16::from_be_bytes),
        _ => None,
    };
    if let Some(unit) = unit
        && let (pairs, []) = data.as_chunks()
        && let Ok(text) = String::from_utf16(&pairs.iter().skip(1).copied().map(unit).collect::<Vec<_>>())
    {
        return Ok(Cow::Owned(text));
    }
    let text = std::str::from_utf8(data)
        .map_err(|error| UserDataError::NotText { what: what.to_owned(), offset: error.valid_up_to() })?;
    Ok(Cow::Borrowed(text))
}

fn unpack(raw: &[u8], what: &str) -> Result<Vec<u8>, UserDataError> {
    let data = decode_base64(raw).unwrap_or_else(|| raw.to_vec());
    if data.starts_with(&gzip::MAGIC) { gunzip(&data, what) } else { Ok(data) }
}

fn decode_base64(raw: &[u8]) -> Option<Vec<u8>> {
    let compact: Vec<u8> = raw.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let decoded = STANDARD.decode(compact).ok()?;
    (!decoded.is_empty()).then_some(decoded)
}

fn gunzip(data: &[u8], what: &str) -> Result<Vec<u8>, UserDataError> {
    let unpacked = gzip::unpack(data, UNPACKED_LIMIT)
        .map_err(|problem| UserDataError::Gzip { what: what.to_owned(), problem: problem.to_string() })?;
    if unpacked.len() > UNPACKED_LIMIT {
        return Err(UserDataError::TooLarge { what: what.to_owned() });
    }
    Ok(unpacked)
}
