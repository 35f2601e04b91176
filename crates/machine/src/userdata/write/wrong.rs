//! What stands in the way of user data, and what merely deserves a word; each names the field and the cure.

use std::fmt;

use thiserror::Error;

use crate::agent::{HOST_CONTAINER, MEDIA_TYPE};
use crate::mime::MimeError;
use crate::nodeconfig::NodeConfigError;
use crate::userdata::LIMIT;

/// Why user data could not be written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RenderError {
    /// The service CIDR is not known yet.
    #[error("unknown service CIDR of the cluster; wait for it, or set it")]
    NoCidr,
    /// The class's user data is a broken MIME document.
    #[error("spec.userData of the EC2NodeClass is invalid MIME multipart")]
    UserData(#[source] MimeError),
    /// A part could not be written.
    #[error("spec.userData of the EC2NodeClass cannot be put into a multipart document")]
    Part(#[source] MimeError),
    /// The generated NodeConfig could not be written as YAML.
    #[error("the generated NodeConfig is not writable as YAML ({problem})")]
    Yaml {
        /// What the writer says.
        problem: String,
    },
    /// The class's user data is not TOML, the form of Bottlerocket's settings.
    #[error(
        "spec.userData of the EC2NodeClass, line {line}: invalid TOML: {problem}; Bottlerocket takes settings as TOML"
    )]
    NotToml {
        /// 1-based line of the user data.
        line: usize,
        /// What the reader says.
        problem: String,
    },
    /// A setting that must be a table is none.
    #[error("{path} in spec.userData of the EC2NodeClass is {found}; write a table [{path}]")]
    NotATable {
        /// Dotted path of the setting.
        path: String,
        /// What it is.
        found: &'static str,
    },
    /// A block of PowerShell that does not end.
    #[error("the <powershell> block in spec.userData of the EC2NodeClass does not end; close it, or remove both tags")]
    OpenPowerShell,
    /// A tag inside the user's commands would end the block early.
    #[error("spec.userData of the EC2NodeClass has a second <powershell> tag; EC2Launch runs only one, merge them")]
    InnerPowerShell,
    /// The agent could not follow its settings.
    #[error("annotation kerf.sh/agent-settings of the EC2NodeClass")]
    Agent(#[source] NodeConfigError),
    /// The class has settings for the agent, but its user data is not ours to write.
    #[error(
        "annotation kerf.sh/agent-settings of the EC2NodeClass: Kerf writes no user data for amiFamily Custom; put the settings into \
         spec.userData as a part {MEDIA_TYPE}"
    )]
    NoAgentPart,
    /// The class asks for the agent where there is none.
    #[error(
        "the agent does not support images of family {family}; use {instead}, or remove the annotations \
         kerf.sh/agent and kerf.sh/agent-settings from the EC2NodeClass"
    )]
    AgentNotServed {
        /// The family.
        family: &'static str,
        /// Those that it runs on.
        instead: &'static str,
    },
    /// Bottlerocket is to run the agent, but nobody says which image.
    #[error(
        "agent settings have no effect: set settings.host-containers.{HOST_CONTAINER}.source in spec.userData to \
         the agent's image; if the agent is part of the AMI, write its settings there (/etc/kerf/agent.yaml) and \
         remove the annotation kerf.sh/agent-settings"
    )]
    NoAgentSource,
    /// EC2 refuses user data of this size.
    #[error(
        "user data has {size} bytes, the limit of EC2 is {LIMIT}; shorten spec.userData, or download its long part"
    )]
    TooLarge {
        /// Bytes before base64.
        size: usize,
    },
}

/// What the class's owner should know of user data that is of use all the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Warning {
    /// At least 90 % of what EC2 takes.
    NearLimit {
        /// Bytes before base64.
        size: usize,
    },
    /// Taints in the user's settings that pods would not be planned by.
    TaintsLeftOut {
        /// Their keys, in order.
        keys: Vec<String>,
    },
    /// A Kubernetes setting of Bottlerocket that Kerf has not heard of.
    UnknownSetting {
        /// Its name.
        name: String,
        /// The one that may have been meant.
        nearest: Option<String>,
    },
    /// A table that Bottlerocket would not take.
    TableLeftOut {
        /// Its name.
        name: String,
    },
    /// No host container runs the agent, so the AMI must.
    AgentFromImage,
}

impl fmt::Display for Warning {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NearLimit { size } => {
                write!(out, "user data has {size} bytes, near the limit of EC2 of {LIMIT}; shorten spec.userData")
            }
            Self::TaintsLeftOut { keys } => write!(
                out,
                "settings.kubernetes.node-taints in spec.userData has {}, which the NodePool does not have: \
                 ignored; add them to taints or startupTaints of the NodePool",
                keys.join(", ")
            ),
            Self::UnknownSetting { name, nearest } => {
                write!(out, "unknown setting settings.kubernetes.{name} in spec.userData; ")?;
                match nearest {
                    Some(nearest) => write!(out, "did you mean {nearest}? ")?,
                    None => write!(out, "check its name: ")?,
                }
                write!(out, "an image that does not know it will not start")
            }
            Self::TableLeftOut { name } => {
                write!(out, "{name} in spec.userData is ignored; Bottlerocket reads only settings")
            }
            Self::AgentFromImage => write!(
                out,
                "no host container runs the agent, so it must be part of the AMI; for Bottlerocket's own AMIs set \
                 settings.host-containers.{HOST_CONTAINER}.source in spec.userData"
            ),
        }
    }
}
