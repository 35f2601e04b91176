//! Bootstrap: from a machine that just booted to a running kubelet. Bootstrap never gives up, because a failed node costs money
//! without doing work. Bootstrap reports in one sentence what is missing or wrong, and retries.

pub mod facts;
pub mod mode;
pub mod node_name;
pub mod observe;
pub mod plan;
pub mod policies;
pub mod prepare;
pub mod retry_log;
pub mod state;
pub mod timeline;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use machine::nodeconfig::NodeConfigError;
use machine::pods::InterfaceLimits;
use machine::userdata::UserDataError;

use crate::aws::ec2::{self, Ec2};
use crate::aws::identity::Role;
use crate::aws::imds::Imds;
use crate::aws::imds::backoff::Backoff;
use crate::host::environment::Environment;
use crate::host::{Host, HostError};

use facts::Facts;
use mode::{BootstrapMode, ObservedResult};
use node_name::NameSources;
use observe::Configurator;
pub use plan::{BootstrapPlan, PlannedFile};
use retry_log::{LogDecision, RetryLog};
pub use state::BootstrapState;
use timeline::Timeline;

/// Marker file. The file exists from the restart of the units with the current files until the next change of a file. The file
/// is below `/run`, so that a reboot restarts the units.
const STARTED_PATH: &str = "/run/kerf/units-started";

/// Longest wait for the role's credentials, whose arrival is recorded in the timeline.
const CREDENTIALS: Duration = Duration::from_secs(2);

/// Dependencies of bootstrap.
#[derive(Debug)]
pub struct Bootstrap {
    /// The machine.
    pub host: Host,
    /// The instance metadata service.
    pub imds: Arc<Imds>,
    /// Default path of the credential provider for ECR. The environment in the NodeConfig may override the path.
    pub credential_provider: String,
    /// Environment, for calls to EC2.
    pub environment: Environment,
    /// Delays between attempts.
    pub backoff: Backoff,
}

/// Result of bootstrap.
#[derive(Debug, Clone, PartialEq)]
pub enum BootstrapOutcome {
    /// All files are written and all units are started.
    Configured(Box<BootstrapPlan>),
    /// Another program configured the machine.
    Observed {
        /// The name that kubelet registers.
        node_name: String,
        /// The program that configured the machine, where it is known.
        by: Option<Configurator>,
        /// Warnings for the log, one sentence each.
        warnings: Vec<String>,
    },
}

impl BootstrapOutcome {
    /// Returns the name that kubelet registers.
    #[must_use]
    pub fn node_name(&self) -> &str {
        match self {
            Self::Configured(plan) => &plan.node_name,
            Self::Observed { node_name, .. } => node_name,
        }
    }

    /// Returns the plan that was carried out; `None` where another program configured the machine.
    #[must_use]
    pub fn plan(self) -> Option<BootstrapPlan> {
        match self {
            Self::Configured(plan) => Some(*plan),
            Self::Observed { .. } => None,
        }
    }
}

impl Bootstrap {
    /// Retries until the machine is configured and its units are started. Returns the result.
    ///
    /// The current state is always in [`state::PATH`].
    pub async fn run(&self) -> BootstrapOutcome {
        let mut timeline = Timeline::read(&self.host.at("/"));
        timeline.begin(Timestamp::now());
        timeline.boot(&self.host.at("/"), Timestamp::now());
        let mut waiting = RetryLog::default();
        let mut attempt = 0_u32;
        loop {
            match self.attempt(&mut timeline).await {
                Ok(outcome) => {
                    self.keep(&mut timeline);
                    self.finish(&outcome);
                    return outcome;
                }
                Err(obstacle) => self.report(&mut waiting, &obstacle),
            }
            tokio::time::sleep(self.backoff.delay(attempt)).await;
            attempt = attempt.saturating_add(1);
        }
    }

    /// Gathers facts, makes a plan and carries it out, once. Records the stages that it reaches in `timeline`.
    ///
    /// # Errors
    /// The obstacle and its remedy; a retry is safe after each of them.
    pub async fn attempt(&self, timeline: &mut Timeline) -> anyhow::Result<BootstrapOutcome> {
        let root = self.host.at("/");
        let policies = policies::read(&root, &self.imds).await?;
        timeline.reach(timeline::IMDS, Timestamp::now());
        let (mode, warning) = mode::bootstrap_mode(policies.settings.mode, observe::other(&root));
        let warnings = policies.problem.into_iter().chain(warning.map(str::to_owned));
        match mode {
            BootstrapMode::Configure => {
                let mut plan = self.configure(timeline).await?;
                plan.warnings.extend(warnings);
                Ok(BootstrapOutcome::Configured(Box::new(plan)))
            }
            BootstrapMode::Observe(by) => {
                let ObservedResult { node_name, written } = mode::read_result(&root, by)?;
                timeline.reach(timeline::CONFIG, written.unwrap_or_else(Timestamp::now));
                Ok(BootstrapOutcome::Observed { node_name, by, warnings: warnings.collect() })
            }
        }
    }

    async fn configure(&self, timeline: &mut Timeline) -> anyhow::Result<BootstrapPlan> {
        let mut user_data = facts::user_data(&self.imds).await?;
        facts::add_default_gates(&self.host, &mut user_data.config);
        let names = NameSources {
            host: &self.host,
            imds: &self.imds,
            environment: &self.environment,
            retries: ec2::Ec2Retries::repeated(self.backoff.seed),
        };
        let mut facts = facts::gather(&names, &self.credential_provider, user_data).await?;
        facts.interface_limits = self.unknown_limits(&facts).await;
        let plan = plan::plan(&facts).context(facts::NOT_FOLLOWED)?;
        self.write_files(&plan)?;
        timeline.reach(timeline::CONFIG, Timestamp::now());
        let by_token = !facts.software.client_certificate;
        let (credentials, started) = tokio::join!(self.credentials(by_token), self.start_units(&plan, timeline));
        started?;
        if let Some(at) = credentials {
            timeline.reach(timeline::CREDENTIALS, at);
        }
        Ok(plan)
    }

    /// Returns the interface limits of an instance type that is newer than our table, from EC2.
    async fn unknown_limits(&self, facts: &Facts) -> Option<InterfaceLimits> {
        let environment = self.environment.of_node(&facts.user_data.config);
        let patience = ec2::Ec2Retries::brief(self.backoff.seed);
        let ec2 = Ec2::new(&facts.identity.region, &environment, &self.host, Arc::clone(&self.imds), patience);
        ec2.unknown_limits(&facts.identity.instance_type).await
    }

    /// Returns when IMDS returned the role's credentials, where kubelet depends on them. Missing credentials do not block
    /// bootstrap, because kubelet requests them itself with retries.
    async fn credentials(&self, needed: bool) -> Option<Timestamp> {
        if !needed {
            return None;
        }
        let role = Role::new(Arc::clone(&self.imds));
        match tokio::time::timeout(CREDENTIALS, role.credentials(Timestamp::now())).await.ok()? {
            Ok(_) => Some(Timestamp::now()),
            Err(error) => {
                log::warn!(error = daemon::error::chain(&error).as_str(); "kubelet has no credentials yet");
                None
            }
        }
    }

    fn write_files(&self, plan: &BootstrapPlan) -> anyhow::Result<()> {
        for file in &plan.files {
            self.put(file)?;
        }
        for path in &plan.absent {
            if self.host.exists(path) {
                self.host.remove(STARTED_PATH)?;
                self.host.remove(path)?;
            }
        }
        Ok(())
    }

    fn put(&self, file: &PlannedFile) -> anyhow::Result<()> {
        if self.host.differs(&file.path, &file.content, file.mode) {
            self.host.remove(STARTED_PATH)?;
            self.host.write(&file.path, &file.content, file.mode)?;
            log::info!(path = file.path.as_str(); "wrote file");
        }
        Ok(())
    }

    async fn start_units(&self, plan: &BootstrapPlan, timeline: &mut Timeline) -> anyhow::Result<()> {
        if self.host.exists(STARTED_PATH) {
            return Ok(());
        }
        prepare::mark(&self.host)?;
        if !plan.volumes.is_empty() {
            prepare::volumes::prepare(&self.host, &plan.volumes).await?;
        }
        if let Some(disks) = &plan.disks {
            prepare::local_disks::prepare(&self.host, disks).await?;
        }
        self.host.systemctl(&["daemon-reload"]).await?;
        for unit in plan.system_units.iter().chain(&plan.units) {
            self.host.systemctl(&["restart", unit]).await?;
            log::info!(unit = unit.as_str(); "restarted unit");
            if let Some(stage) = stage_of(unit) {
                timeline.reach(stage, Timestamp::now());
            }
            run_after(&self.host, plan, unit).await?;
        }
        self.host.write(STARTED_PATH, b"", 0o644)?;
        Ok(())
    }

    fn keep(&self, timeline: &mut Timeline) {
        if let Err(error) = timeline.keep(&self.host.at("/")) {
            log::warn!(error:% = error; "failed to write the timeline of this start");
        }
    }

    fn finish(&self, outcome: &BootstrapOutcome) {
        let name = outcome.node_name();
        let (done, warnings) = match outcome {
            BootstrapOutcome::Configured(plan) => (format!("started kubelet as {name}"), &plan.warnings),
            BootstrapOutcome::Observed { by, warnings, .. } => (
                format!("{} configured this node as {name}", by.map_or("another program", Configurator::name)),
                warnings,
            ),
        };
        for warning in warnings {
            log::warn!("{warning}");
        }
        self.record(&BootstrapState::Done { node_name: name.to_owned(), since: Timestamp::now() });
        self.host.status(&done);
        self.host.ready();
        log::info!(node = name, summary:% = done; "bootstrap finished");
    }

    fn report(&self, waiting: &mut RetryLog, obstacle: &anyhow::Error) {
        let (reason, now) = (daemon::error::chain(obstacle.as_ref()), Timestamp::now());
        match waiting.observe(&reason, now) {
            LogDecision::Changed => {
                log::warn!(reason:% = reason; "waiting");
                self.host.status(&format!("waiting: {reason}"));
                self.record(&state_of(obstacle, reason, now));
            }
            LogDecision::Still { since } => log::info!(since:% = since, reason:% = reason; "still waiting"),
            LogDecision::Nothing => {}
        }
    }

    fn record(&self, state: &BootstrapState) {
        if let Err(error) = state.write(&self.host) {
            log::warn!("{}", daemon::error::chain(&error));
        }
    }
}

/// Runs the programs that the plan lists for the time after the start of `unit`.
pub(crate) async fn run_after(host: &Host, plan: &BootstrapPlan, unit: &str) -> Result<(), HostError> {
    for step in plan.programs.iter().filter(|step| step.after == unit) {
        let arguments: Vec<&str> = step.arguments.iter().map(String::as_str).collect();
        host.output(&step.program, &arguments).await?;
    }
    Ok(())
}

/// Returns the timeline stage that is reached when `unit` is up.
fn stage_of(unit: &str) -> Option<&'static str> {
    match unit.strip_suffix(".service").unwrap_or(unit) {
        "containerd" => Some(timeline::CONTAINERD),
        "kubelet" => Some(timeline::KUBELET),
        _ => None,
    }
}

/// Returns `Failed` where only a user can remove the obstacle, because the user data is wrong; else `Waiting`.
fn state_of(obstacle: &anyhow::Error, reason: String, since: Timestamp) -> BootstrapState {
    if obstacle.is::<UserDataError>() || obstacle.is::<NodeConfigError>() {
        BootstrapState::Failed { reason, since }
    } else {
        BootstrapState::Waiting { reason, since }
    }
}
