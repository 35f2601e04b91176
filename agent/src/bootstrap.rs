//! From a machine that just booted to a running kubelet. Nothing is tried once only: whatever is missing or wrong, the
//! agent says in one sentence what it waits for and asks again, because a node that gave up is a bill without work.

pub mod containerd;
pub mod credentials;
pub mod disks;
pub mod environment;
pub mod facts;
pub mod hosts;
pub mod kubeconfig;
pub mod kubelet;
pub mod plan;
pub mod resolved;
pub mod state;
pub mod waiting;

use anyhow::Context as _;
use jiff::Timestamp;
use machine::nodeconfig::NodeConfigError;
use machine::userdata::UserDataError;

use crate::host::Host;
use crate::imds::Imds;
use crate::imds::backoff::Backoff;

pub use plan::{File, Plan};
pub use state::State;
use waiting::{Say, Waiting};

/// Exists from when the units were restarted with the files as they are now until the next change. Below `/run`, so
/// that a reboot starts them again.
const STARTED_PATH: &str = "/run/kerf/units-started";

/// What bootstrap acts with.
#[derive(Debug)]
pub struct Bootstrap {
    /// The machine.
    pub host: Host,
    /// Its metadata.
    pub imds: Imds,
    /// Where the credential provider for ECR is, if it is; the NodeConfig's environment may say otherwise.
    pub credential_provider: String,
    /// Waits between attempts.
    pub backoff: Backoff,
}

impl Bootstrap {
    /// Tries until the machine is configured and its units are started; returns what was done.
    ///
    /// The state is always to be read in [`state::PATH`].
    pub async fn run(&self) -> Plan {
        let mut waiting = Waiting::default();
        let mut attempt = 0_u32;
        loop {
            match self.attempt().await {
                Ok(plan) => {
                    self.finish(&plan);
                    return plan;
                }
                Err(obstacle) => self.report(&mut waiting, &obstacle),
            }
            tokio::time::sleep(self.backoff.delay(attempt)).await;
            attempt = attempt.saturating_add(1);
        }
    }

    /// Gathers, decides, acts: once.
    ///
    /// # Errors
    /// What stands in the way, and its cure; trying again is safe after any of them.
    pub async fn attempt(&self) -> anyhow::Result<Plan> {
        let told = facts::user_data(&self.imds).await?;
        let facts = facts::gather(&self.host, &self.imds, &self.credential_provider, told).await?;
        let plan = plan::plan(&facts).context(facts::NOT_FOLLOWED)?;
        self.apply(&plan).await?;
        Ok(plan)
    }

    async fn apply(&self, plan: &Plan) -> anyhow::Result<()> {
        for file in &plan.files {
            self.put(file)?;
        }
        for path in &plan.absent {
            if self.host.exists(path) {
                self.host.remove(STARTED_PATH)?;
                self.host.remove(path)?;
            }
        }
        if !self.host.exists(STARTED_PATH) {
            self.start_units(plan).await?;
            self.host.write(STARTED_PATH, b"", 0o644)?;
        }
        Ok(())
    }

    fn put(&self, file: &File) -> anyhow::Result<()> {
        if self.host.differs(&file.path, &file.content, file.mode) {
            self.host.remove(STARTED_PATH)?;
            self.host.write(&file.path, &file.content, file.mode)?;
            log::info!(path = file.path.as_str(); "wrote a file");
        }
        Ok(())
    }

    async fn start_units(&self, plan: &Plan) -> anyhow::Result<()> {
        self.host.systemctl(&["daemon-reload"]).await?;
        for unit in plan.system_units.iter().chain(&plan.units) {
            self.host.systemctl(&["restart", unit]).await?;
            log::info!(unit = unit.as_str(); "restarted a unit");
            for step in plan.programs.iter().filter(|step| step.after == *unit) {
                let arguments: Vec<&str> = step.arguments.iter().map(String::as_str).collect();
                self.host.output(&step.program, &arguments).await?;
            }
        }
        Ok(())
    }

    fn finish(&self, plan: &Plan) {
        for warning in &plan.warnings {
            log::warn!("{warning}");
        }
        let state = State::Done { node_name: plan.node_name.clone(), since: Timestamp::now() };
        self.record(&state);
        self.host.status(&format!("kubelet is started as {}", plan.node_name));
        self.host.ready();
        log::info!(node = plan.node_name.as_str(); "bootstrap is done");
    }

    fn report(&self, waiting: &mut Waiting, obstacle: &anyhow::Error) {
        let (reason, now) = (format!("{obstacle:#}"), Timestamp::now());
        match waiting.observe(&reason, now) {
            Say::Changed => {
                log::warn!("waiting: {reason}");
                self.host.status(&format!("waiting: {reason}"));
                self.record(&state_of(obstacle, reason, now));
            }
            Say::Still { since } => log::info!(since:% = since; "still waiting: {reason}"),
            Say::Nothing => {}
        }
    }

    fn record(&self, state: &State) {
        if let Err(error) = state.write(&self.host) {
            log::warn!("{}", daemon::error::chain(&error));
        }
    }
}

/// Whether only people can clear the obstacle (what the machine was told is wrong), or time may.
fn state_of(obstacle: &anyhow::Error, reason: String, since: Timestamp) -> State {
    if obstacle.is::<UserDataError>() || obstacle.is::<NodeConfigError>() {
        State::Failed { reason, since }
    } else {
        State::Waiting { reason, since }
    }
}
