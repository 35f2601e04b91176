//! Service manager of a machine, as far as an agent uses it: two units that can be started, stopped and queried, and
//! those that prepare disks.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use crate::kubelet::{self, Kubelet};

/// Time limit for the request of a shim.
const PATIENCE: Duration = Duration::from_secs(5);

/// Response to a call: an exit code with systemctl's meaning, and the output.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    code: u8,
    text: String,
}

impl Answer {
    fn new(code: u8, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    fn done() -> Self {
        Self::new(0, "")
    }
}

/// Units of one machine.
#[derive(Debug)]
pub struct Units {
    options: kubelet::Options,
    kubelet: Option<Kubelet>,
    containerd: bool,
}

impl Units {
    /// Creates the units without any process.
    pub fn new(options: kubelet::Options) -> Self {
        Self { options, kubelet: None, containerd: false }
    }

    /// Serves the machine's shims forever; every call is recorded in `calls`.
    pub async fn serve(&mut self, listener: &UnixListener, calls: &Mutex<Vec<String>>) {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            if let Err(error) = self.converse(stream, calls).await {
                log::warn!("a systemctl went away: {error:#}");
            }
        }
    }

    /// Stops the kubelet, if it runs.
    pub async fn stop_kubelet(&mut self) {
        if let Some(kubelet) = self.kubelet.take() {
            kubelet.stop().await;
        }
    }

    async fn converse(&mut self, mut stream: UnixStream, calls: &Mutex<Vec<String>>) -> Result<()> {
        let mut text = String::new();
        tokio::time::timeout(PATIENCE, stream.read_to_string(&mut text)).await.context("no output")??;
        let arguments: Vec<&str> = text.lines().collect();
        calls.lock().unwrap_or_else(PoisonError::into_inner).push(arguments.join(" "));
        let Answer { code, text } = self.execute(&arguments).await;
        stream.write_all(format!("{code}\n{text}").as_bytes()).await.context("it did not wait for the answer")
    }

    /// Runs a command with the verbs and exit codes of systemctl(1). Several units are handled in order; the first failure is
    /// the result.
    async fn execute(&mut self, arguments: &[&str]) -> Answer {
        let mut plain = arguments.iter().filter(|word| !word.starts_with('-'));
        let Some(verb) = plain.next() else {
            return Answer::new(1, "Too few arguments.\n");
        };
        if matches!(*verb, "daemon-reload" | "enable" | "disable" | "preset") {
            return Answer::done();
        }
        let mut last = Answer::new(1, "Too few arguments.\n");
        for unit in plain {
            last = self.one(verb, unit.strip_suffix(".service").unwrap_or(unit)).await;
            if last.code != 0 {
                break;
            }
        }
        last
    }

    async fn one(&mut self, verb: &str, unit: &str) -> Answer {
        match (verb, unit) {
            ("start" | "restart" | "try-restart" | "reload", "containerd") => {
                self.containerd = true;
                Answer::done()
            }
            ("stop", "containerd") => {
                self.containerd = false;
                Answer::done()
            }
            ("is-active", "containerd") => active(self.containerd),
            ("start", "kubelet") if self.kubelet.is_some() => Answer::done(),
            ("start" | "restart", "kubelet") => self.restart_kubelet().await,
            ("stop", "kubelet") => {
                self.stop_kubelet().await;
                Answer::done()
            }
            ("is-active", "kubelet") => active(self.kubelet.is_some()),
            // The machine's disks exist only in its description.
            ("restart", "kerf-local-disks" | "kerf-volumes") => Answer::done(),
            (_, "containerd" | "kubelet") => Answer::new(1, format!("Unknown command verb '{verb}'.\n")),
            _ => Answer::new(5, format!("Unit {unit}.service not found.\n")),
        }
    }

    async fn restart_kubelet(&mut self) -> Answer {
        self.stop_kubelet().await;
        match Kubelet::start(self.options.clone()).await {
            Ok(kubelet) => {
                self.kubelet = Some(kubelet);
                Answer::done()
            }
            Err(error) => Answer::new(1, format!("Job for kubelet.service failed: {error:#}\n")),
        }
    }
}

fn active(active: bool) -> Answer {
    if active { Answer::new(0, "active\n") } else { Answer::new(3, "inactive\n") }
}

/// Calls the service manager as a shim does; returns the exit code and the output.
///
/// # Errors
/// Returns an error if the socket has no listener, or if the response is incomplete.
pub async fn call(socket: &Path, arguments: &[&str]) -> Result<(u8, String)> {
    let connected = UnixStream::connect(socket).await;
    let mut stream = connected.with_context(|| format!("no process listens on {}", socket.display()))?;
    stream.write_all(arguments.join("\n").as_bytes()).await?;
    stream.shutdown().await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (code, text) = answer.split_once('\n').context("the answer has no exit code")?;
    Ok((code.parse().context("the exit code is no number")?, text.to_owned()))
}

/// Listens on the socket of the machine's shims.
///
/// # Errors
/// Returns an error if the socket cannot be created.
pub fn listen(path: &Path) -> Result<UnixListener> {
    UnixListener::bind(path).with_context(|| format!("cannot listen on {}", path.display()))
}
