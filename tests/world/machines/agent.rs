//! The agent's two units as systemd would run them: `bootstrap` until it succeeds, then `run`, restarted a second after it
//! ends, whatever the reason.

use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::Machine;
use super::machine::{Blueprint, Phase};
use crate::process::Process;

/// `RestartSec` of both units.
const RESTART: Duration = Duration::from_secs(1);

/// The agent of one machine. Dropping it kills the process that runs.
pub struct Agent<'a> {
    machine: &'a Machine,
    blueprint: &'a Blueprint,
    endpoint: String,
    process: Option<Process>,
}

impl<'a> Agent<'a> {
    /// Nothing runs yet. `endpoint` is the machine's metadata service.
    pub fn new(machine: &'a Machine, blueprint: &'a Blueprint, endpoint: String) -> Self {
        Self { machine, blueprint, endpoint, process: None }
    }

    /// Runs both units for ever. Cancelling it leaves the process that runs to [`Agent::stop`].
    pub async fn run(&mut self) {
        self.machine.enter(Phase::Bootstrapping);
        while !self.once("bootstrap").await {
            tokio::time::sleep(RESTART).await;
        }
        self.machine.enter(Phase::Running);
        loop {
            self.once("run").await;
            tokio::time::sleep(RESTART).await;
        }
    }

    /// Ends what runs: SIGTERM, then SIGKILL for the whole group.
    pub async fn stop(&mut self, grace: Duration) {
        if let Some(mut process) = self.process.take()
            && let Err(error) = process.stop(grace).await
        {
            log::warn!(instance = self.blueprint.instance_id.as_str(); "cannot stop the agent: {error:#}");
        }
        self.machine.agent_runs(None);
    }

    /// One start of a subcommand up to its end; whether it succeeded.
    async fn once(&mut self, verb: &str) -> bool {
        let ended = self.spawn_and_wait(verb).await;
        self.process = None;
        self.machine.agent_runs(None);
        let instance = self.blueprint.instance_id.as_str();
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

    async fn spawn_and_wait(&mut self, verb: &str) -> Result<bool> {
        let name = format!("kerf-agent {verb} of {}", self.blueprint.instance_id);
        let process = Process::spawn(&name, self.command(verb), self.machine.log())?;
        self.machine.agent_runs(Some(process.id()));
        let process = self.process.insert(process);
        Ok(process.wait().await?.success())
    }

    fn command(&self, verb: &str) -> Command {
        let blueprint = self.blueprint;
        let mut path = OsString::from(blueprint.shims());
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()));
        let mut command = Command::new(&blueprint.programs.agent);
        command
            .arg(verb)
            .env("PATH", path)
            .env("KERF_ROOT", blueprint.root())
            .env("KERF_MACHINE_SOCKET", blueprint.socket())
            .env("AWS_EC2_METADATA_SERVICE_ENDPOINT", &self.endpoint)
            .envs(&blueprint.environment);
        command
    }
}
