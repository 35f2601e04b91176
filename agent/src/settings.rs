//! Command line and environment, validated once; everything else receives values and never looks at either.

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

use crate::host::{Host, Topology};
use crate::imds::{Imds, ImdsError};
use crate::nodeadm::command::{Config, Init, Internal, Nodeadm, Sources, UdevNetManager, spelt_out};

/// One exchange with IMDS, from connecting to the last byte: it is one hop away.
const IMDS_TIMEOUT: Duration = Duration::from_secs(2);
/// What a program ends with that was called in a way that it does not understand.
const MISUSED: u8 = 2;

/// What `kerf-agent` was asked to do, and with what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// What to do.
    pub command: Command,
    /// Prefix of every path that is read or written.
    pub root: PathBuf,
    /// Where the instance metadata service answers.
    pub imds: String,
    /// Use AWS's FIPS endpoints where a region has them.
    pub fips: bool,
    /// Where the credential provider for images of ECR is.
    pub credential_provider: String,
    /// Where the kernel shows CPUs, if not in its own place.
    pub cpu_folder: Option<PathBuf>,
    /// Where the kernel shows NUMA nodes, if not in its own place.
    pub node_folder: Option<PathBuf>,
    /// How to log.
    pub log_format: Format,
    /// The least severe level that is logged.
    pub log_level: LevelFilter,
    /// Where programs are found.
    pub search_path: OsString,
}

/// What one process of the agent does; each has its systemd unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Turn instance metadata into a running kubelet, then end.
    Bootstrap,
    /// Guard the node until it may serve, and empty it when EC2 wants the machine back.
    Run {
        /// Where metrics are served, instead of what the settings say.
        metrics: Option<Listen>,
    },
    /// Say who this machine is and where everything stands.
    Status {
        /// For people, or as JSON.
        output: Output,
    },
    /// Check what the node needs from its surroundings, and say what to mend; fails when something is broken.
    Doctor {
        /// For people, or as JSON.
        output: Output,
        /// Check an image instead, which no machine has started from yet.
        offline: bool,
    },
    /// What EKS's `nodeadm` does, with its arguments; also done when the program is called by that name.
    Nodeadm(Nodeadm),
    /// What EKS's `nodeadm-internal` does, with its arguments; also done when the program is called by that name.
    NodeadmInternal(Internal),
    /// Print a token for an EKS cluster, as a credential plugin of a kubeconfig does.
    Token {
        /// The cluster's name.
        cluster_name: String,
        /// The cluster's region.
        region: String,
        /// What the caller says of itself, which version it speaks above all.
        exec_info: Option<String>,
    },
}

impl Command {
    fn from_line(line: &CommandLine<'_>) -> Result<Self, ArgumentError> {
        let sources = || Ok::<_, ArgumentError>(Sources { sources: line.values("config-source")? });
        Ok(match line.words.as_str() {
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

/// How something is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// For people.
    Text,
    /// One document.
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
    /// What the process ends with where they cannot be understood, or where only help is asked for; that has been printed.
    pub fn from_process() -> Result<Self, ExitCode> {
        Self::read(std::env::args_os(), &|name| std::env::var_os(name)).map_err(|refused| match refused {
            ArgumentError::Told(text) => {
                print!("{text}");
                ExitCode::SUCCESS
            }
            ArgumentError::Wrong(why) => {
                eprint!("kerf-agent: {why}");
                ExitCode::from(MISUSED)
            }
        })
    }

    /// Reads arguments, the program's name first, and the variables that stand in for some of them.
    ///
    /// # Errors
    /// [`Refused`], with what to write instead.
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

    /// How to log: as was asked for, but as text for whoever tries out `nodeadm init --development`.
    #[must_use]
    pub fn log_format(&self) -> Format {
        match &self.command {
            Command::Nodeadm(Nodeadm::Init(init)) if init.development => Format::Text,
            _ => self.log_format,
        }
    }

    /// The machine that these settings name.
    #[must_use]
    pub fn host(&self) -> Host {
        let topology = Topology { cpus: self.cpu_folder.clone(), nodes: self.node_folder.clone() };
        Host::new(&self.root, &self.search_path).with_topology(topology)
    }

    /// A metadata client for the endpoint that these settings name.
    ///
    /// # Errors
    /// [`ImdsError::Endpoint`].
    pub fn imds(&self) -> Result<Imds, ImdsError> {
        Imds::new(&self.imds, IMDS_TIMEOUT)
    }
}

#[cfg(test)]
mod tests;
