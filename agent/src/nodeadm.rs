//! The command line of EKS's own bootstrap, so that its units, scripts and end-to-end cases work with this program as a
//! replacement. Unlike our own `bootstrap`, these commands run once, with the time limits of that program, because their
//! callers depend on an exit code.

pub mod cache;
pub mod chain;
pub mod command;
mod config;
mod enrich;
mod init;
pub mod link;
pub mod metadata;
mod phases;
pub mod source;
pub mod units;

use std::sync::Arc;

use crate::aws::ec2;
use crate::aws::imds::Imds;
use crate::host::Host;
use crate::host::environment::Environment;

use command::{Internal, Nodeadm};
use link::{hook, udev};
use metadata::{Metadata, MetadataRetries};

/// Dependencies of the commands.
#[derive(Debug)]
pub struct Machine {
    /// The machine itself.
    pub host: Host,
    /// The instance metadata service.
    pub imds: Arc<Imds>,
    /// Environment of the commands, before a NodeConfig adds to it.
    pub environment: Environment,
    /// Default path of the credential provider for ECR. The environment in the NodeConfig may override the path.
    pub credential_provider: String,
    /// Retry limits of requests to IMDS.
    pub patience: MetadataRetries,
    /// Retry limits of requests to EC2.
    pub ec2: ec2::Ec2Retries,
    /// Timeouts for network interfaces.
    pub links: hook::HookTimeouts,
}

impl Machine {
    /// Returns the machine's metadata client with retries.
    #[must_use]
    pub fn metadata(&self) -> Metadata<'_> {
        Metadata { imds: &self.imds, patience: self.patience }
    }
}

/// Runs a `nodeadm` command.
///
/// # Errors
/// The first fact that is missing or wrong, with its remedy.
pub async fn run(machine: &Machine, command: &Nodeadm) -> anyhow::Result<()> {
    match command {
        Nodeadm::Init(options) => init::run(machine, options).await,
        Nodeadm::Config(command) => config::run(machine, command).await,
    }
}

/// Runs a `nodeadm-internal` command.
///
/// # Errors
/// The first fact that is missing or wrong, with its remedy.
pub async fn run_internal(machine: &Machine, command: &Internal) -> anyhow::Result<()> {
    match command {
        Internal::BootHook => hook::run(machine).await,
        Internal::UdevNetManager(options) => udev::run(machine, options).await,
    }
}
