//! Both systemd units of the agent: they run concurrently, `bootstrap` until it succeeds, `run` forever. Each restarts one
//! second after its end.

use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::Machine;
use super::machine::{MachineSpec, Phase};
use crate::process::Process;

/// `RestartSec` of both units.
const RESTART: Duration = Duration::from_secs(1);

/// Port of each agent's metrics, on the machine's own loopback address.
pub const METRICS: u16 = 9192;

/// Subcommands of the agent, each in its own unit.
pub const BOOTSTRAP: &str = "bootstrap";
pub const RUN: &str = "run";

/// Agent of one machine. Dropping it kills its processes.
pub struct Agent<'a> {
    machine: &'a Machine,
    bootstrap: Unit<'a>,
    run: Unit<'a>,
}

impl<'a> Agent<'a> {
    /// Creates the agent without any process. `endpoint` is the machine's metadata service.
    pub fn new(machine: &'a Machine, spec: &'a MachineSpec, endpoint: &str) -> Self {
        let unit = |verb| Unit { verb, machine, spec, endpoint: endpoint.to_owned(), process: None };
        Self { machine, bootstrap: unit(BOOTSTRAP), run: unit(RUN) }
    }

    /// Runs both units forever. After a cancellation, the processes continue until [`Agent::stop`].
    pub async fn run(&mut self) {
        let Self { machine, bootstrap, run } = self;
        machine.enter(Phase::Bootstrapping);
        let bootstrapped = async {
            while !bootstrap.once().await {
                tokio::time::sleep(RESTART).await;
            }
            machine.enter(Phase::Running);
        };
        let guarded = async {
            loop {
                run.once().await;
                tokio::time::sleep(RESTART).await;
            }
        };
        tokio::join!(bootstrapped, guarded);
    }

    /// Stops the processes: SIGTERM, then SIGKILL for the whole group.
    pub async fn stop(&mut self, grace: Duration) {
        tokio::join!(self.bootstrap.stop(grace), self.run.stop(grace));
    }
}

/// One of the units.
struct Unit<'a> {
    verb: &'static str,
    machine: &'a Machine,
    spec: &'a MachineSpec,
    endpoint: String,
    process: Option<Process>,
}

impl Unit<'_> {
    async fn stop(&mut self, grace: Duration) {
        if let Some(mut process) = self.process.take()
            && let Err(error) = process.stop(grace).await
        {
            log::warn!(instance = self.machine.instance_id(), verb = self.verb; "cannot stop the agent: {error:#}");
        }
        self.machine.agent_runs(self.verb, None);
    }

    /// Runs the unit once to its end; returns true for a success.
    async fn once(&mut self) -> bool {
        let ended = self.spawn_and_wait().await;
        self.process = None;
        self.machine.agent_runs(self.verb, None);
        let (instance, verb) = (self.machine.instance_id(), self.verb);
        match ended {
            Ok(true) => true,
            Ok(false) => {
                log::warn!(instance = instance, verb = verb; "the agent failed, see {}", self.machine.log().display());
                false
            }
            Err(error) => {
                log::warn!(instance = instance, verb = verb; "the agent does not start: {error:#}");
                false
            }
        }
    }

    async fn spawn_and_wait(&mut self) -> Result<bool> {
        let name = format!("kerf-agent {} of {}", self.verb, self.machine.instance_id());
        let process = Process::spawn(&name, self.command(), self.machine.log())?;
        self.machine.agent_runs(self.verb, Some(process.id()));
        let process = self.process.insert(process);
        Ok(process.wait().await?.success())
    }

    fn command(&self) -> Command {
        let spec = self.spec;
        let mut path = OsString::from(spec.shims());
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()));
        let mut command = Command::new(&spec.programs.agent);
        command
            .arg(self.verb)
            .env("PATH", path)
            .env("KERF_ROOT", spec.root())
            .env("KERF_MACHINE_SOCKET", spec.socket())
            .env("AWS_EC2_METADATA_SERVICE_ENDPOINT", &self.endpoint)
            .env("KERF_METRICS", format!("{}:{METRICS}", spec.loopback()))
            .envs(&spec.environment);
        command
    }
}
