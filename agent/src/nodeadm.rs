//! The command line of EKS's own bootstrap, so that its units, scripts and end-to-end cases work with this program in
//! its place. Unlike our own `bootstrap` these commands are tried once, with that program's time-outs: whoever calls
//! them relies on an exit code.

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

use crate::ec2;
use crate::environment::Environment;
use crate::host::Host;
use crate::imds::Imds;

use command::{Internal, Nodeadm};
use link::{hook, udev};
use metadata::{Metadata, MetadataRetries};

/// What the commands act on and with.
#[derive(Debug)]
pub struct Machine {
    /// The machine itself.
    pub host: Host,
    /// Its metadata.
    pub imds: Arc<Imds>,
    /// Environment of the commands, before a NodeConfig adds to it.
    pub environment: Environment,
    /// Where the credential provider for ECR is, if it is; the NodeConfig's environment may say otherwise.
    pub credential_provider: String,
    /// How long to insist on an answer of metadata.
    pub patience: MetadataRetries,
    /// How long to insist on an answer of EC2.
    pub ec2: ec2::Ec2Retries,
    /// How long to wait for network interfaces.
    pub links: hook::HookTimeouts,
}

impl Machine {
    /// The machine's metadata, asked with patience.
    #[must_use]
    pub fn metadata(&self) -> Metadata<'_> {
        Metadata { imds: &self.imds, patience: self.patience }
    }
}

/// Does what `nodeadm` was asked to do.
///
/// # Errors
/// The first thing that is missing or wrong, with its cure.
pub async fn run(machine: &Machine, command: &Nodeadm) -> anyhow::Result<()> {
    match command {
        Nodeadm::Init(options) => init::run(machine, options).await,
        Nodeadm::Config(command) => config::run(machine, command).await,
    }
}

/// Does what `nodeadm-internal` was asked to do.
///
/// # Errors
/// The first thing that is missing or wrong, with its cure.
pub async fn run_internal(machine: &Machine, command: &Internal) -> anyhow::Result<()> {
    match command {
        Internal::BootHook => hook::run(machine).await,
        Internal::UdevNetManager(options) => udev::run(machine, options).await,
    }
}
