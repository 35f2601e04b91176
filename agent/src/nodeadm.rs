//! The command line of EKS's own bootstrap, so that its units, scripts and end-to-end cases work with this program in
//! its place. Unlike our own `bootstrap` these commands are tried once, with that program's time-outs: whoever calls
//! them relies on an exit code.

pub mod cache;
pub mod chain;
pub mod command;
mod config;
pub mod metadata;
pub mod source;

use std::sync::Arc;

use crate::host::Host;
use crate::imds::Imds;

use command::{Internal, Nodeadm};
use metadata::{Metadata, Patience};

/// What the commands act on and with.
#[derive(Debug)]
pub struct Machine {
    /// The machine itself.
    pub host: Host,
    /// Its metadata.
    pub imds: Arc<Imds>,
    /// How long to insist on an answer.
    pub patience: Patience,
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
        Nodeadm::Init(_) => anyhow::bail!("init is not here yet"),
        Nodeadm::Config(command) => config::run(machine, command).await,
    }
}

/// Does what `nodeadm-internal` was asked to do.
///
/// # Errors
/// The first thing that is missing or wrong, with its cure.
pub async fn run_internal(_machine: &Machine, command: &Internal) -> anyhow::Result<()> {
    match command {
        Internal::BootHook | Internal::UdevNetManager(_) => anyhow::bail!("not here yet"),
    }
}
