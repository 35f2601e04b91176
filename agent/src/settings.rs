//! Command line and environment, validated once; everything else receives values and never looks at either.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use daemon::log::Format;
use log::LevelFilter;
use machine::agent::mode::Listen;
use serde::Serialize;

use crate::bootstrap::credentials::{DEFAULT_PROVIDER, PROVIDER_VARIABLE};
use crate::host::{Host, Topology};
use crate::imds::{DEFAULT_ENDPOINT, Imds, ImdsError};
use crate::nodeadm::command::{Internal, Nodeadm, spelt_out};

/// One exchange with IMDS, from connecting to the last byte: it is one hop away.
const IMDS_TIMEOUT: Duration = Duration::from_secs(2);

/// What `kerf-agent` was asked to do, and with what.
#[derive(Debug, Clone, Parser)]
#[command(name = "kerf-agent", version, about = "Boots, guards and empties one Kubernetes node on EC2")]
pub struct Settings {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Prefix of every path that is read or written.
    #[arg(long, env = "KERF_ROOT", default_value = "/", global = true)]
    pub root: PathBuf,
    /// Where the instance metadata service answers.
    #[arg(long, env = "AWS_EC2_METADATA_SERVICE_ENDPOINT", default_value = DEFAULT_ENDPOINT, global = true)]
    pub imds: String,
    /// Use AWS's FIPS endpoints where a region has them.
    #[arg(long, env = "AWS_USE_FIPS_ENDPOINT", global = true)]
    pub fips: bool,
    /// Where the credential provider for images of ECR is.
    #[arg(long, env = PROVIDER_VARIABLE, default_value = DEFAULT_PROVIDER, global = true)]
    pub credential_provider: String,
    /// Where the kernel shows CPUs, if not in its own place.
    #[arg(long, env = "CPU_DIR", hide = true, global = true)]
    pub cpu_folder: Option<PathBuf>,
    /// Where the kernel shows NUMA nodes, if not in its own place.
    #[arg(long, env = "NODE_DIR", hide = true, global = true)]
    pub node_folder: Option<PathBuf>,
    /// How to log: auto (journald, else text), json or text.
    #[arg(long, env = "KERF_LOG_FORMAT", default_value = "auto", global = true)]
    pub log_format: Format,
    /// The least severe level that is logged: off, error, warn, info, debug or trace.
    #[arg(long, env = "KERF_LOG_LEVEL", default_value = "info", global = true)]
    pub log_level: LevelFilter,
    /// Where programs are found; the environment's PATH.
    #[arg(long, env = "PATH", default_value = "/usr/sbin:/usr/bin:/sbin:/bin", hide = true, global = true)]
    pub search_path: OsString,
}

/// What one process of the agent does; each has its systemd unit.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Turn instance metadata into a running kubelet, then end.
    Bootstrap,
    /// Guard the node until it may serve, and empty it when EC2 wants the machine back.
    Run {
        /// Where metrics are served, instead of what the settings say: ADDRESS:PORT, or off.
        #[arg(long, env = "KERF_METRICS")]
        metrics: Option<Listen>,
    },
    /// Say who this machine is and where everything stands.
    Status {
        /// For people, or as JSON.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Check what the node needs from its surroundings, and say what to mend; fails when something is broken.
    Doctor {
        /// For people, or as JSON.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// What EKS's `nodeadm` does, with its arguments; also done when the program is called by that name.
    #[command(subcommand)]
    Nodeadm(Nodeadm),
    /// What EKS's `nodeadm-internal` does, with its arguments; also done when the program is called by that name.
    #[command(subcommand)]
    NodeadmInternal(Internal),
    /// Print a token for an EKS cluster, as a credential plugin of a kubeconfig does.
    Token {
        /// The cluster's name.
        #[arg(long)]
        cluster_name: String,
        /// The cluster's region.
        #[arg(long)]
        region: String,
        /// What the caller says of itself, which version it speaks above all.
        #[arg(long, env = "KUBERNETES_EXEC_INFO", hide = true)]
        exec_info: Option<String>,
    },
}

/// How something is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Text,
    /// One document.
    Json,
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
    /// Reads command line and environment; ends the process where they cannot be understood.
    #[must_use]
    pub fn from_process() -> Self {
        Self::parse_from(spelt_out(std::env::args_os()))
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
