//! MIME container for both Amazon Linux families: the user's parts, then Kerf's.

use api::nodeclass::AmiFamily;

use super::user_text::{self, SHELL_SCRIPT};
use super::{RenderError, Warning};
use crate::mime::{self, MimeError, Part};
use crate::nodeconfig::{self, NodeConfigError, labels};
use crate::userdata::{NODE_CONFIG_TYPE, PartKind, part_kind, text, unpack};

/// Parts of the class's user data, with warnings.
#[derive(Debug, Default)]
pub(super) struct UserParts {
    pub(super) parts: Vec<Part>,
    pub(super) warnings: Vec<Warning>,
}

/// Returns the parts of the class's user data. A MIME document keeps all headers of its parts, because a body is unusable
/// without the header of its encoding. A NodeConfig with the type of a script becomes a NodeConfig. Other text becomes one part.
pub(super) fn user_parts(family: AmiFamily, user_text: &str) -> Result<UserParts, RenderError> {
    let mut found = UserParts::default();
    if user_text.trim().is_empty() {
        return Ok(found);
    }
    if !mime::is_mime(user_text.as_bytes()) {
        found.add(Part::new(user_text::content_type(family, user_text), user_text))?;
        return Ok(found);
    }
    match mime::parse(user_text.as_bytes()) {
        Ok(parts) => parts.into_iter().try_for_each(|part| found.add(part))?,
        Err(MimeError::NoPart { boundary }) => found.warnings.push(Warning::NoPart { boundary }),
        Err(error) => return Err(RenderError::UserData(error)),
    }
    Ok(found)
}

impl UserParts {
    fn add(&mut self, mut part: Part) -> Result<(), RenderError> {
        let number = self.parts.len() + 1;
        match part_kind(&part) {
            PartKind::Nested => self.warnings.push(Warning::NestedNodeConfig { part: number }),
            PartKind::Mislabeled => {
                self.warnings.push(Warning::MislabeledNodeConfig { part: number });
                part.set_content_type(NODE_CONFIG_TYPE);
            }
            PartKind::NodeConfig | PartKind::AgentSettings | PartKind::Other => {}
        }
        if part.media_type() == NODE_CONFIG_TYPE {
            self.check_node_config(&part, number)?;
        } else {
            self.warnings.extend(readable(&part).and_then(|script| user_text::second_bootstrap(&script)));
        }
        self.parts.push(part);
        Ok(())
    }

    /// Reports what nodeadm ignores or refuses in a NodeConfig.
    fn check_node_config(&mut self, part: &Part, number: usize) -> Result<(), RenderError> {
        let Some(content) = readable(part) else { return Ok(()) };
        nodeconfig::check_syntax(&content).map_err(|source| RenderError::NodeConfig { part: number, source })?;
        match nodeconfig::parse(&content) {
            Ok(parsed) => {
                let lost = parsed.losses.iter().map(NodeConfigError::to_string);
                self.warnings.extend(lost.map(|problem| Warning::LostNodeConfig { part: number, problem }));
                let keys = labels::permitted_flags(&parsed.config.spec.kubelet.flags).removed;
                self.warnings.extend((!keys.is_empty()).then_some(Warning::RefusedLabels { keys }));
            }
            Err(error) => {
                self.warnings.push(Warning::RefusedNodeConfig { part: number, problem: error.to_string() });
            }
        }
        Ok(())
    }
}

/// Returns the text of a part without its encodings; `None` if it is no text.
fn readable(part: &Part) -> Option<String> {
    let data = unpack(&part.content(), "").ok()?;
    text(&data, "").ok().map(std::borrow::Cow::into_owned)
}

/// Returns a part with a shell script.
pub(super) fn script(script: String) -> Part {
    Part::new(SHELL_SCRIPT, script)
}

pub(super) fn write(parts: &[Part]) -> Result<String, RenderError> {
    let document = mime::render(parts).map_err(RenderError::Part)?;
    Ok(String::from_utf8_lossy(&document).into_owned())
}
