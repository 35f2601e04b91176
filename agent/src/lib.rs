//! The Kerf agent of one machine. The agent configures and starts kubelet from instance metadata, and holds the startup taint
//! until the node is ready. The agent drains the node when EC2 reclaims the machine. The binary only calls this library, so
//! that tests can run all of it against a simulated machine.

pub mod aws;
pub mod bootstrap;
pub mod cluster;
pub mod doctor;
pub mod gates;
pub mod health;
pub mod host;
pub mod nodeadm;
pub mod notices;
pub mod run;
pub mod settings;
pub mod usage;

use std::sync::Arc;

use anyhow::Context as _;
use jiff::Timestamp;

use aws::ec2::Ec2Retries;
use aws::identity::{Audience, Role, plugin};
use aws::imds::Imds;
use aws::imds::backoff::Backoff;
use bootstrap::Bootstrap;
use bootstrap::prepare::volumes;
use host::environment::Environment;
use nodeadm::Machine;
use nodeadm::link::hook;
use nodeadm::metadata::MetadataRetries;
use run::status::socket;
use settings::{Command, Settings};

/// Runs the subcommand of `settings` to its end.
///
/// # Errors
/// Invalid settings, and the errors of the subcommand.
pub fn start(settings: &Settings) -> anyhow::Result<()> {
    daemon::log::install(settings.log_format(), settings.log_level).map_err(anyhow::Error::msg)?;
    let imds = settings.imds()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the asynchronous runtime")?;
    match &settings.command {
        Command::Bootstrap => {
            let backoff = Backoff::bootstrap(seed());
            let (imds, credential_provider) = (Arc::new(imds), settings.credential_provider.clone());
            runtime.block_on(
                Bootstrap {
                    host: settings.host(),
                    imds,
                    credential_provider,
                    environment: Environment::of_process(),
                    backoff,
                }
                .run(),
            );
            Ok(())
        }
        Command::Volumes => runtime.block_on(volumes::mount_planned(&settings.host())),
        Command::Nodeadm(command) => runtime.block_on(nodeadm::run(&machine(settings, imds), command)),
        Command::NodeadmInternal(command) => runtime.block_on(nodeadm::run_internal(&machine(settings, imds), command)),
        Command::Run { metrics } => {
            let imds = Arc::new(imds);
            let role = Role::new(Arc::clone(&imds)).with_fips(settings.fips);
            let (root, metrics) = (settings.root.clone(), *metrics);
            // A separate task saves work: the runtime polls for events once more each time it wakes the future of `block_on`.
            let guarding = runtime.spawn(async move { run::run(&root, imds, role, metrics).await });
            runtime.block_on(guarding).context("the agent ended")?
        }
        Command::Status { output } => {
            output.print(&runtime.block_on(socket::read(&settings.root)));
            Ok(())
        }
        Command::Doctor { output, offline } => {
            let diagnosis = match offline {
                true => doctor::image::examine(&settings.root),
                false => runtime.block_on(doctor::examine(&settings.root, Arc::new(imds), settings.fips)),
            };
            output.print(&diagnosis);
            anyhow::ensure!(diagnosis.is_well(), "doctor found problems");
            Ok(())
        }
        Command::Token { cluster_name, region, exec_info } => {
            let role = Role::new(Arc::new(imds));
            let audience = Audience { cluster: cluster_name.clone(), region: region.clone(), fips: settings.fips };
            let credential = plugin::credential(&role, &audience, exec_info.as_deref(), Timestamp::now());
            println!("{}", runtime.block_on(credential)?);
            Ok(())
        }
    }
}

/// Returns the machine on which the nodeadm-compatible commands act.
fn machine(settings: &Settings, imds: Imds) -> Machine {
    Machine {
        host: settings.host(),
        imds: Arc::new(imds),
        environment: Environment::of_process(),
        credential_provider: settings.credential_provider.clone(),
        patience: MetadataRetries::nodeadm(seed()),
        ec2: Ec2Retries::nodeadm(seed()),
        links: hook::HookTimeouts::NODEADM,
    }
}

/// Returns a seed that differs between machines and starts, so that the machines of a fleet that boot together send requests at
/// different times.
fn seed() -> u64 {
    let nanoseconds = Timestamp::now().as_nanosecond().unsigned_abs();
    (nanoseconds as u64) ^ u64::from(std::process::id()).rotate_left(32)
}
