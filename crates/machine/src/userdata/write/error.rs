//! Errors and warnings of the renderer, each with the field and the fix.

use std::fmt;

use thiserror::Error;

use crate::agent::{HOST_CONTAINER, MEDIA_TYPE};
use crate::mime::MimeError;
use crate::nodeconfig::{NodeConfigError, labels};
use crate::userdata::{LIMIT, NODE_CONFIG_TYPE};

/// Reason why user data could not be rendered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RenderError {
    /// The service CIDR is still unknown.
    #[error("unknown service CIDR of the cluster; wait for it, or set it")]
    NoCidr,
    /// The class's user data is an invalid MIME document.
    #[error("spec.userData of the EC2NodeClass is invalid MIME multipart")]
    UserData(#[source] MimeError),
    /// A NodeConfig of the class cannot be parsed.
    #[error(
        "part {part} of spec.userData of the EC2NodeClass is a NodeConfig that is invalid YAML or JSON; correct it"
    )]
    NodeConfig {
        /// 1-based number of the part.
        part: usize,
        /// Line and problem.
        #[source]
        source: NodeConfigError,
    },
    /// A part could not be written.
    #[error("spec.userData of the EC2NodeClass cannot be put into a multipart document")]
    Part(#[source] MimeError),
    /// The generated NodeConfig could not be written as YAML.
    #[error("the generated NodeConfig is not writable as YAML ({problem})")]
    Yaml {
        /// Message of the writer.
        problem: String,
    },
    /// The class's user data is not TOML, the format of Bottlerocket's settings.
    #[error(
        "spec.userData of the EC2NodeClass, line {line}: invalid TOML: {problem}; Bottlerocket takes settings as TOML"
    )]
    NotToml {
        /// 1-based line of the user data.
        line: usize,
        /// Message of the parser.
        problem: String,
    },
    /// A setting that must be a table has another type.
    #[error("{path} in spec.userData of the EC2NodeClass is {found}; write a table [{path}]")]
    NotATable {
        /// Dotted path of the setting.
        path: String,
        /// Type of the setting.
        found: &'static str,
    },
    /// A block of PowerShell does not end.
    #[error("the <powershell> block in spec.userData of the EC2NodeClass does not end; close it, or remove both tags")]
    OpenPowerShell,
    /// A tag inside the user's commands would end the block early.
    #[error("spec.userData of the EC2NodeClass has a second <powershell> tag; EC2Launch runs only one, merge them")]
    InnerPowerShell,
    /// The agent's settings are invalid.
    #[error("annotation kerf.sh/agent-settings of the EC2NodeClass")]
    Agent(#[source] NodeConfigError),
    /// The class has settings for the agent, but Kerf does not render user data for family Custom.
    #[error(
        "annotation kerf.sh/agent-settings of the EC2NodeClass: Kerf writes no user data for amiFamily Custom; put the settings into \
         spec.userData as a part {MEDIA_TYPE}"
    )]
    NoAgentPart,
    /// The class requires the agent for a family that the agent does not support.
    #[error(
        "the agent does not support images of family {family}; use {instead}, or remove the annotations \
         kerf.sh/agent and kerf.sh/agent-settings from the EC2NodeClass"
    )]
    AgentNotServed {
        /// The family.
        family: &'static str,
        /// Supported families.
        instead: &'static str,
    },
    /// Bottlerocket should run the agent, but the agent's image is not set.
    #[error(
        "agent settings have no effect: set settings.host-containers.{HOST_CONTAINER}.source in spec.userData to \
         the agent's image; if the agent is part of the AMI, write its settings there (/etc/kerf/agent.yaml) and \
         remove the annotation kerf.sh/agent-settings"
    )]
    NoAgentSource,
    /// The user data exceeds EC2's limit.
    #[error(
        "user data has {size} bytes, the limit of EC2 is {LIMIT}; shorten spec.userData, or download its long part"
    )]
    TooLarge {
        /// Bytes before base64.
        size: usize,
    },
}

/// Warning for the owner of the class; the user data is valid nevertheless.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Warning {
    /// The size is at least 90 % of EC2's limit.
    NearLimit {
        /// Bytes before base64.
        size: usize,
    },
    /// The user's settings have taints that plans do not consider.
    IgnoredTaints {
        /// Sorted keys of the taints.
        keys: Vec<String>,
    },
    /// A Kubernetes setting of Bottlerocket is unknown to Kerf.
    UnknownSetting {
        /// Name of the setting.
        name: String,
        /// Similar known setting.
        nearest: Option<String>,
    },
    /// Bottlerocket would reject a table.
    IgnoredTable {
        /// Name of the table.
        name: String,
    },
    /// No host container runs the agent, so the agent must be part of the AMI.
    AgentFromImage,
    /// Bottlerocket does not start a container without an image.
    NoSource {
        /// Settings of the container: `bootstrap-containers` or `host-containers`.
        kind: &'static str,
        /// Name of the container.
        name: String,
    },
    /// The user's settings have labels with which kubelet does not start.
    IgnoredLabels {
        /// Sorted keys of the labels.
        keys: Vec<String>,
    },
    /// A NodeConfig has labels in kubelet's flags with which kubelet does not start.
    RefusedLabels {
        /// Keys of the labels.
        keys: Vec<String>,
    },
    /// A MIME document has no part.
    NoPart {
        /// Boundary of the document.
        boundary: String,
    },
    /// A nested multipart document contains a NodeConfig that is not read.
    NestedNodeConfig {
        /// 1-based number of the part.
        part: usize,
    },
    /// A part with a NodeConfig has the type of a script or text.
    MislabeledNodeConfig {
        /// 1-based number of the part.
        part: usize,
    },
    /// Content of a NodeConfig is ignored.
    LostNodeConfig {
        /// 1-based number of the part.
        part: usize,
        /// Line and problem.
        problem: String,
    },
    /// nodeadm refuses a part as NodeConfig.
    RefusedNodeConfig {
        /// 1-based number of the part.
        part: usize,
        /// Line and problem.
        problem: String,
    },
    /// Images of the family do not read a NodeConfig.
    UnreadNodeConfig {
        /// The family.
        family: &'static str,
    },
    /// A script calls the bootstrap program that runs anyway.
    SecondBootstrap {
        /// The program.
        program: &'static str,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NearLimit { size } => {
                write!(out, "user data has {size} bytes, near the limit of EC2 of {LIMIT}; shorten spec.userData")
            }
            Self::IgnoredTaints { keys } => write!(
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
            Self::IgnoredTable { name } => {
                write!(out, "{name} in spec.userData is ignored; Bottlerocket reads only settings")
            }
            Self::NoSource { kind, name } => write!(
                out,
                "settings.{kind}.{name} in spec.userData has no source, so Bottlerocket cannot start it; set source to \
                 an image"
            ),
            Self::IgnoredLabels { keys } => write!(
                out,
                "settings.kubernetes.node-labels in spec.userData has {}, with which kubelet does not start: ignored; {}",
                keys.join(", "),
                labels::CURE
            ),
            Self::RefusedLabels { keys } => write!(
                out,
                "spec.kubelet.flags of the NodeConfig in spec.userData has the labels {}, with which kubelet does not \
                 start; {}",
                keys.join(", "),
                labels::CURE
            ),
            Self::NoPart { boundary } => write!(
                out,
                "spec.userData has no effect: no line `--{boundary}` opens a part; compare the boundary of its header"
            ),
            Self::NestedNodeConfig { part } => write!(
                out,
                "part {part} of spec.userData is a nested multipart document, whose NodeConfigs have no effect; move \
                 them into the outer document"
            ),
            Self::MislabeledNodeConfig { part } => write!(
                out,
                "part {part} of spec.userData is a NodeConfig of another media type: sent as {NODE_CONFIG_TYPE}; \
                 correct its Content-Type"
            ),
            Self::LostNodeConfig { part, problem } => write!(out, "part {part} of spec.userData: {problem}"),
            Self::RefusedNodeConfig { part, problem } => {
                write!(
                    out,
                    "part {part} of spec.userData is sent as {NODE_CONFIG_TYPE}, but nodeadm may refuse it: {problem}"
                )
            }
            Self::UnreadNodeConfig { family } => write!(
                out,
                "spec.userData is a NodeConfig, which images of family {family} do not read: ignored; use amiFamily \
                 AL2023, or write a script"
            ),
            Self::SecondBootstrap { program } => write!(
                out,
                "spec.userData calls {program}, which also runs without this call, so kubelet is configured twice; \
                 remove the call"
            ),
            Self::AgentFromImage => write!(
                out,
                "no host container runs the agent, so it must be part of the AMI; for Bottlerocket's own AMIs set \
                 settings.host-containers.{HOST_CONTAINER}.source in spec.userData"
            ),
        }
    }
}
