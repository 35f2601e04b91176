//! Child processes that cannot outlive their test. Each leads its own process group, writes one log file, and is ended by pid,
//! in the order that its owner requests.
//!
//! A process ends by the first of three events: [`Process::stop`], its drop, or the [`lifeline`], which acts after the end of
//! this whole process, even by `kill -9`.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

pub mod folder;
pub mod lifeline;
pub mod usage;

pub use folder::RunFolder;

/// Interval between two checks whether a child has ended.
const POLL: Duration = Duration::from_millis(20);

/// Most bytes of a log's end that [`Process::log_tail`] reads.
const TAIL_BYTES: u64 = 64 * 1024;

/// Most lines of a log in [`Process::exit_report`]: enough for a program's usage text below its error message.
const EXIT_REPORT_LINES: usize = 30;

/// Variables that no child inherits: all traffic stays on loopback, so a proxy or a real AWS account must be unreachable.
const REMOVED_VARIABLES: [&str; 10] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "KUBECONFIG",
    "AWS_PROFILE",
    "AWS_SESSION_TOKEN",
    "NOTIFY_SOCKET",
];

/// Running child, its process group and its log.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts `command` as the leader of a new process group, with standard output and error appended to `log` and an empty
    /// standard input. Proxies, KUBECONFIG and AWS sessions of the caller are not inherited unless `command` sets them itself.
    ///
    /// # Errors
    /// Returns an error with both names if the log cannot be opened or the program cannot be started.
    pub fn spawn(name: &str, mut command: Command, log: &Path) -> Result<Self> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("cannot open {}, the log of {name}", log.display()))?;
        let errors = file.try_clone().with_context(|| format!("cannot share {}", log.display()))?;
        keep_on_loopback(&mut command);
        command.stdin(Stdio::null()).stdout(file).stderr(errors).process_group(0);
        let program = command.get_program().to_owned();
        let child = command.spawn().with_context(|| format!("cannot start {name} ({})", program.display()))?;
        let process = Self { name: name.to_owned(), child, log: log.to_owned(), ended: None };
        lifeline::guard_group(process.id())?;
        Ok(process)
    }

    /// Returns the owner's name for the process, which errors contain.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the process id, which is also the id of its process group.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the file with its standard output and error.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Returns its exit status, or `None` while it runs. The rest of its process group is ended with it.
    ///
    /// # Errors
    /// Returns an error if the kernel does not know the child (other code has reaped it).
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        if self.ended.is_none() && self.has_exited()? {
            // The zombie still holds its pid here, so no other group can have this id.
            self.signal_group(Signal::SIGKILL)?;
            let status = self.child.wait().with_context(|| format!("cannot reap {}", self.name))?;
            lifeline::release_group(self.id())?;
            self.ended = Some(status);
        }
        Ok(self.ended)
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    /// Returns the errors of [`Process::ended`].
    pub async fn wait(&mut self) -> Result<ExitStatus> {
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Sends one signal to the process alone. Does nothing if it has already ended.
    ///
    /// # Errors
    /// Returns an error if the signal is not permitted.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        if self.ended()?.is_some() {
            return Ok(());
        }
        nix::sys::signal::kill(self.pid(), signal).with_context(|| format!("cannot send {signal} to {}", self.name))
    }

    /// Sends SIGTERM, waits up to `grace`, then ends the whole group with SIGKILL. Returns the exit status.
    ///
    /// # Errors
    /// Returns the errors of [`Process::ended`] and [`Process::signal`].
    pub async fn stop(&mut self, grace: Duration) -> Result<ExitStatus> {
        self.signal(Signal::SIGTERM)?;
        if let Ok(status) = tokio::time::timeout(grace, self.wait()).await {
            return status;
        }
        self.kill()
    }

    /// Ends the process and its group at once with SIGKILL and waits for the exit.
    ///
    /// # Errors
    /// Returns the errors of [`Process::ended`].
    pub fn kill(&mut self) -> Result<ExitStatus> {
        if let Some(status) = self.ended {
            return Ok(status);
        }
        self.signal_group(Signal::SIGKILL)?;
        let status = self.child.wait().with_context(|| format!("cannot reap {}", self.name))?;
        lifeline::release_group(self.id())?;
        Ok(*self.ended.insert(status))
    }

    /// Returns the last `lines` lines of its log for error messages, or a message if the log cannot be read.
    #[must_use]
    pub fn log_tail(&self, lines: usize) -> String {
        let text = read_end(&self.log).unwrap_or_else(|error| format!("cannot read {}: {error}", self.log.display()));
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// Returns one sentence and the end of the log, for an error about an unexpected end.
    #[must_use]
    pub fn exit_report(&self) -> String {
        let how = match self.ended {
            None => "is still running".to_owned(),
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("ended with exit code {code}"),
                (None, Some(signal)) => format!("was ended by signal {signal}"),
                (None, None) => "ended".to_owned(),
            },
        };
        format!(
            "{} {how}; its log is {}, which ends with:\n{}",
            self.name,
            self.log.display(),
            self.log_tail(EXIT_REPORT_LINES)
        )
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Reports whether it has exited, without reaping it.
    fn has_exited(&self) -> Result<bool> {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let status =
            waitid(Id::Pid(self.pid()), flags).with_context(|| format!("cannot ask how {} is doing", self.name))?;
        Ok(!matches!(status, WaitStatus::StillAlive))
    }

    fn signal_group(&self, signal: Signal) -> Result<()> {
        match killpg(self.pid(), signal) {
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(error) => Err(error).with_context(|| format!("cannot send {signal} to the group of {}", self.name)),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            log::warn!(process = self.name.as_str(); "left behind: {error:#}");
        }
    }
}

/// Stops the processes one after the other, each with its own `grace`; a failure does not affect the others. Returns the names
/// of the processes that had to be killed.
///
/// # Errors
/// Returns the first error, after all processes were tried.
pub async fn stop_in_order(processes: impl IntoIterator<Item = Process>, grace: Duration) -> Result<Vec<String>> {
    let mut killed = Vec::new();
    let mut failure = None;
    for mut process in processes {
        match process.stop(grace).await {
            Ok(status) if status.signal() == Some(Signal::SIGKILL as i32) => killed.push(process.name.clone()),
            Ok(_) => {}
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    failure.map_or(Ok(killed), Err)
}

/// Sets the defaults that limit a child to loopback and to messages in English, unless its owner chose otherwise.
pub fn keep_on_loopback(command: &mut Command) {
    let chosen: Vec<_> = command.get_envs().map(|(key, _)| key.to_owned()).collect();
    for name in REMOVED_VARIABLES {
        if !chosen.iter().any(|key| key == name) {
            command.env_remove(name);
        }
    }
    for (name, value) in [("AWS_EC2_METADATA_DISABLED", "true"), ("LC_ALL", "C")] {
        if !chosen.iter().any(|key| key == name) {
            command.env(name, value);
        }
    }
}

/// Returns the last [`TAIL_BYTES`] of a file as text.
fn read_end(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
