//! Command line and environment, validated once. All other modules receive values and read neither.

mod arguments;
mod table;

use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use daemon::log::Format;
use log::LevelFilter;
use machine::agent::mode::Listen;
use serde::Serialize;

pub use arguments::ArgumentError;
use arguments::{CommandLine, Environment};

use crate::aws::imds::{Imds, ImdsError};
use crate::host::{Host, Topology};
use crate::nodeadm::command::{Config, Init, Internal, Nodeadm, Sources, UdevNetManager, spelt_out};

/// Time limit for one exchange with IMDS, from the connection to the last byte: IMDS is one hop away.
const IMDS_TIMEOUT: Duration = Duration::from_secs(2);
/// Exit code for an invalid command line.
const MISUSED: u8 = 2;

/// Subcommand of `kerf-agent` with its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The subcommand.
    pub command: Command,
    /// Prefix of all paths.
    pub root: PathBuf,
    /// Endpoint of the instance metadata service.
    pub imds: String,
    /// Use of AWS's FIPS endpoints where a region has them.
    pub fips: bool,
    /// Path of the credential provider for images of ECR.
    pub credential_provider: String,
    /// The kernel's folder of CPUs, if not the default one.
    pub cpu_folder: Option<PathBuf>,
    /// The kernel's folder of NUMA nodes, if not the default one.
    pub node_folder: Option<PathBuf>,
    /// Log format.
    pub log_format: Format,
    /// Log level.
    pub log_level: LevelFilter,
    /// Search path of programs.
    pub search_path: OsString,
}

/// Subcommand of one process of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Configuration and start of kubelet from instance metadata, followed by exit.
    Bootstrap,
    /// Mount of the EBS volumes that bootstrap planned, in a unit of its own, followed by exit.
    Volumes,
    /// Protection of the node: the startup taint until the node is ready, and a drain on interruption.
    Run {
        /// Address of the metrics, overrides the settings.
        metrics: Option<Listen>,
    },
    /// Output of the identity and state of this node.
    Status {
        /// Output format.
        output: Output,
    },
    /// Check of everything that the node needs, with a fix for each problem; fails if the node cannot work.
    Doctor {
        /// Output format.
        output: Output,
        /// Check of a machine image instead, from which no machine has started yet.
        offline: bool,
    },
    /// EKS's `nodeadm` with its arguments; also chosen when the program is called by that name.
    Nodeadm(Nodeadm),
    /// EKS's `nodeadm-internal` with its arguments; also chosen when the program is called by that name.
    NodeadmInternal(Internal),
    /// Output of a token for an EKS cluster, as a kubeconfig credential plugin.
    Token {
        /// Name of the cluster.
        cluster_name: String,
        /// Region of the cluster.
        region: String,
        /// Request of the caller, with its API version.
        exec_info: Option<String>,
    },
}

impl Command {
    fn from_line(line: &CommandLine<'_>) -> Result<Self, ArgumentError> {
        let sources = || Ok::<_, ArgumentError>(Sources { sources: line.values("config-source")? });
        Ok(match line.words.as_str() {
            "volumes" => Self::Volumes,
            "run" => Self::Run { metrics: line.value("metrics")? },
            "status" => Self::Status { output: line.needed("output")? },
            "doctor" => Self::Doctor { output: line.needed("output")?, offline: line.is_set("offline")? },
            "token" => Self::Token {
                cluster_name: line.needed("cluster-name")?,
                region: line.needed("region")?,
                exec_info: line.value("exec-info")?,
            },
            "nodeadm init" => Self::Nodeadm(Nodeadm::Init(Init {
                sources: sources()?,
                config_cache: line.raw("config-cache").map(PathBuf::from),
                skip: line.values("skip")?,
                daemons: line.values("daemon")?,
                development: line.is_set("development")?,
            })),
            "nodeadm config check" => Self::Nodeadm(Nodeadm::Config(Config::Check(sources()?))),
            "nodeadm config dump" => Self::Nodeadm(Nodeadm::Config(Config::Dump(sources()?))),
            "nodeadm-internal boot-hook" => Self::NodeadmInternal(Internal::BootHook),
            "nodeadm-internal udev-net-manager" => Self::NodeadmInternal(Internal::UdevNetManager(UdevNetManager {
                action: line.needed("action")?,
                interface: line.needed("interface")?,
            })),
            _ => Self::Bootstrap,
        })
    }
}

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Text for users.
    Text,
    /// One JSON document.
    Json,
}

impl FromStr for Output {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err("write text or json"),
        }
    }
}

impl Output {
    /// Prints `value`.
    pub fn print(self, value: &(impl Display + Serialize)) {
        match self {
            Self::Text => print!("{value}"),
            Self::Json => println!("{}", serde_json::to_string_pretty(value).unwrap_or_default()),
        }
    }
}

impl Settings {
    /// Reads command line and environment.
    ///
    /// # Errors
    /// The exit code after an invalid command line, or after a request for help; the message has been printed.
    pub fn from_process() -> Result<Self, ExitCode> {
        Self::read(std::env::args_os(), &|name| std::env::var_os(name)).map_err(|refused| match refused {
            ArgumentError::Help(text) => {
                print!("{text}");
                ExitCode::SUCCESS
            }
            ArgumentError::Wrong(why) => {
                eprint!("kerf-agent: {why}");
                ExitCode::from(MISUSED)
            }
        })
    }

    /// Parses arguments, the program's name first, and the variables that replace some of them.
    ///
    /// # Errors
    /// [`ArgumentError`], with the correct form.
    pub fn read(
        arguments: impl IntoIterator<Item = OsString>,
        environment: Environment<'_>,
    ) -> Result<Self, ArgumentError> {
        let line = table::TABLE.read(spelt_out(arguments).into_iter().skip(1), environment)?;
        Ok(Self {
            command: Command::from_line(&line)?,
            root: line.raw("root").unwrap_or_default().into(),
            imds: line.needed("imds")?,
            fips: line.is_set("fips")?,
            credential_provider: line.needed("credential-provider")?,
            cpu_folder: line.raw("cpu-folder").map(PathBuf::from),
            node_folder: line.raw("node-folder").map(PathBuf::from),
            log_format: line.needed("log-format")?,
            log_level: line.needed("log-level")?,
            search_path: line.raw("search-path").unwrap_or_default(),
        })
    }

    /// Returns the log format: the configured one, but text for `nodeadm init --development`.
    #[must_use]
    pub fn log_format(&self) -> Format {
        match &self.command {
            Command::Nodeadm(Nodeadm::Init(init)) if init.development => Format::Text,
            _ => self.log_format,
        }
    }

    /// Returns the machine of these settings.
    #[must_use]
    pub fn host(&self) -> Host {
        let topology = Topology { cpus: self.cpu_folder.clone(), nodes: self.node_folder.clone() };
        Host::new(&self.root, &self.search_path).with_topology(topology)
    }

    /// Returns a metadata client for the endpoint of these settings.
    ///
    /// # Errors
    /// [`ImdsError::Endpoint`].
    pub fn imds(&self) -> Result<Imds, ImdsError> {
        Imds::new(&self.imds, IMDS_TIMEOUT)
    }
}

#[cfg(test)]
mod tests;
