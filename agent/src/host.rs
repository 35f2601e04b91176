//! All side effects of bootstrap on its machine: files below a root folder, programs from a search path, and notifications to
//! systemd. Tests use a folder and a search path of their own.

pub mod clock;
mod cpu;
pub mod environment;
pub(crate) mod files;
pub(crate) mod hardware;
pub mod secret;
pub(crate) mod transport;
mod version;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use thiserror::Error;
use tokio::process::Command;

use crate::host::files::beside;

pub use version::{ContainerdVersion, KubeletVersion};

/// Time after which a program is killed: a restart of containerd with many shims takes most of a minute.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(120);

/// Reasons why a file operation or a program failed.
#[derive(Debug, Error)]
pub enum HostError {
    /// A file could not be read or written.
    #[error("cannot {action} {}; check that it is a file, that its disk is not full and that the agent runs as root", path.display())]
    File {
        /// `read`, `write`, `create` or `remove`.
        action: &'static str,
        /// Path of the file, with the root folder.
        path: PathBuf,
        /// Cause, from the operating system.
        #[source]
        source: io::Error,
    },
    /// A program could not be started.
    #[error("cannot run `{command}`; install it or put it on PATH")]
    Start {
        /// Program and arguments.
        command: String,
        /// Cause, from the operating system.
        #[source]
        source: io::Error,
    },
    /// A program failed.
    #[error("`{command}` failed ({status}): {message}")]
    Failed {
        /// Program and arguments.
        command: String,
        /// Exit status.
        status: String,
        /// Last line of its output.
        message: String,
    },
    /// A program did not exit in time.
    #[error("`{command}` did not exit within {} s and was killed; see its unit in the journal", timeout.as_secs())]
    Timeout {
        /// Program and arguments.
        command: String,
        /// Time limit.
        timeout: Duration,
    },
    /// kubelet's version is neither in a file nor in kubelet's output.
    #[error("invalid version of kubelet `{found}`; write it to /etc/eks/kubelet-version.txt as v1.36.0")]
    Version {
        /// The invalid text.
        found: String,
    },
}

/// The machine.
#[derive(Debug, Clone)]
pub struct Host {
    root: PathBuf,
    search_path: OsString,
    topology: Topology,
}

/// The kernel's CPU folders, if not below the root: a container can be given those of another machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// Replacement for `/sys/devices/system/cpu`.
    pub cpus: Option<PathBuf>,
    /// Replacement for `/sys/devices/system/node`.
    pub nodes: Option<PathBuf>,
}

impl Host {
    /// Returns a machine whose files are below `root` and whose programs are in `search_path` (as in PATH).
    #[must_use]
    pub fn new(root: impl Into<PathBuf>, search_path: impl Into<OsString>) -> Self {
        Self { root: root.into(), search_path: search_path.into(), topology: Topology::default() }
    }

    /// Returns the same machine with other CPUs.
    #[must_use]
    pub fn with_topology(self, topology: Topology) -> Self {
        Self { topology, ..self }
    }

    /// Returns the real path of `path`, which is absolute on the machine.
    #[must_use]
    pub fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Returns the real path of a user's path: below the root when it is absolute, else from the working folder.
    #[must_use]
    pub fn locate(&self, path: &Path) -> PathBuf {
        match path.strip_prefix("/") {
            Ok(below) => self.root.join(below),
            Err(_) => path.to_owned(),
        }
    }

    /// Reports whether `path` exists.
    #[must_use]
    pub fn exists(&self, path: &str) -> bool {
        self.at(path).exists()
    }

    /// Reads a file; `None` when it does not exist.
    ///
    /// # Errors
    /// [`HostError::File`].
    pub fn read(&self, path: &str) -> Result<Option<Vec<u8>>, HostError> {
        match fs::read(self.at(path)) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(HostError::File { action: "read", path: self.at(path), source }),
        }
    }

    /// Reads a file as text; bytes that are no UTF-8 are replaced.
    ///
    /// # Errors
    /// [`HostError::File`].
    pub fn read_text(&self, path: &str) -> Result<Option<String>, HostError> {
        Ok(self.read(path)?.map(|content| String::from_utf8_lossy(&content).into_owned()))
    }

    /// Returns the names of a folder's entries, sorted; empty when the folder does not exist.
    ///
    /// # Errors
    /// [`HostError::File`].
    pub fn list(&self, path: &str) -> Result<Vec<String>, HostError> {
        let failed = |source| HostError::File { action: "read", path: self.at(path), source };
        let entries = match fs::read_dir(self.at(path)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut names = BTreeSet::new();
        for entry in entries {
            names.insert(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
        }
        Ok(names.into_iter().collect())
    }

    /// Reports whether a file is absent or has another content or mode.
    #[must_use]
    pub fn differs(&self, path: &str, content: &[u8], mode: u32) -> bool {
        !has(&self.at(path), content, mode)
    }

    /// Writes a file, unless it already has this content and mode. Creates parent folders. Replaces the file atomically, so
    /// that no process reads a part of it. Reports whether the file changed.
    ///
    /// # Errors
    /// [`HostError::File`].
    pub fn write(&self, path: &str, content: &[u8], mode: u32) -> Result<bool, HostError> {
        put(&self.at(path), content, mode)
    }

    /// Removes a file; reports whether it existed.
    ///
    /// # Errors
    /// [`HostError::File`].
    pub fn remove(&self, path: &str) -> Result<bool, HostError> {
        match fs::remove_file(self.at(path)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(HostError::File { action: "remove", path: self.at(path), source }),
        }
    }

    /// Reports whether the distribution is this version of Amazon Linux, by its `os-release`.
    #[must_use]
    pub fn is_amazon_linux(&self, version: &str) -> bool {
        let files = ["/etc/os-release", "/usr/lib/os-release"];
        let text = files.iter().find_map(|path| self.read_text(path).ok().flatten()).unwrap_or_default();
        let value = |name: &str| {
            let fields = text.lines().filter_map(|line| line.trim().split_once('='));
            fields.filter(|(key, _)| *key == name).map(|(_, value)| value.trim_matches(['"', '\''])).next_back()
        };
        value("ID") == Some("amzn") && value("VERSION_ID") == Some(version)
    }

    /// Creates a folder with all folders above it.
    ///
    /// # Errors
    /// [`HostError::File`].
    pub fn create_folder(&self, path: &str) -> Result<(), HostError> {
        let failed = |source| HostError::File { action: "create", path: self.at(path), source };
        fs::create_dir_all(self.at(path)).map_err(failed)
    }

    /// Runs `systemctl` with `arguments`.
    ///
    /// # Errors
    /// [`HostError`] when it cannot be started, fails or does not exit in time.
    pub async fn systemctl(&self, arguments: &[&str]) -> Result<(), HostError> {
        self.output("systemctl", arguments).await.map(|_| ())
    }

    /// Runs a program to its end and returns its output.
    ///
    /// # Errors
    /// [`HostError`] when it cannot be started, fails or does not exit in time.
    pub async fn output(&self, program: &str, arguments: &[&str]) -> Result<String, HostError> {
        self.output_within(program, arguments, Some(PROGRAM_TIMEOUT)).await
    }

    /// Runs a program with another time limit, or none, and returns its output.
    ///
    /// # Errors
    /// [`HostError`] when it cannot be started, fails or does not exit in time.
    pub async fn output_within(
        &self,
        program: &str,
        arguments: &[&str],
        limit: Option<Duration>,
    ) -> Result<String, HostError> {
        let command = [&[program], arguments].concat().join(" ");
        let run = Command::new(program)
            .args(arguments)
            .env("PATH", &self.search_path)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let ended = match limit {
            None => run.await,
            Some(timeout) => match tokio::time::timeout(timeout, run).await {
                Ok(ended) => ended,
                Err(_) => return Err(HostError::Timeout { command, timeout }),
            },
        };
        match ended {
            Err(source) => Err(HostError::Start { command, source }),
            Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            Ok(output) => Err(failure(command, &output)),
        }
    }

    /// Returns the number of online CPUs of the machine.
    #[must_use]
    pub fn cpus(&self) -> u32 {
        let folder = |own: &Option<PathBuf>, path| own.clone().unwrap_or_else(|| self.at(path));
        let Topology { cpus, nodes } = &self.topology;
        cpu::count(&folder(cpus, "/sys/devices/system/cpu"), &folder(nodes, "/sys/devices/system/node"))
    }

    /// Returns the version of kubelet on this machine: from a file of the image, else from the program.
    ///
    /// # Errors
    /// [`HostError`] when neither returns a valid version.
    pub async fn kubelet_version(&self) -> Result<KubeletVersion, HostError> {
        let text = self.kubelet_version_text().await?;
        KubeletVersion::parse(&text).ok_or(HostError::Version { found: text })
    }

    /// Returns the version with patch and suffix, such as `v1.36.0`.
    ///
    /// # Errors
    /// [`HostError`] when the file cannot be read or the program fails.
    pub async fn kubelet_version_text(&self) -> Result<String, HostError> {
        let text = match self.read_text("/etc/eks/kubelet-version.txt")? {
            Some(text) => text.trim().to_owned(),
            None => self.output("kubelet", &["--version"]).await?.trim().to_owned(),
        };
        Ok(text.strip_prefix("Kubernetes ").unwrap_or(&text).to_owned())
    }

    /// Reports to systemd the current obstacle (`STATUS=`). Does nothing without systemd.
    pub fn status(&self, status: &str) {
        self.notify(sd_notify::NotifyState::Status(status));
    }

    /// Reports to systemd that the start is complete (`READY=1`).
    pub fn ready(&self) {
        self.notify(sd_notify::NotifyState::Ready);
    }

    fn notify(&self, state: sd_notify::NotifyState<'_>) {
        if let Err(error) = sd_notify::notify(&[state]) {
            log::debug!(error:% = error; "failed to notify systemd");
        }
    }
}

/// Does the same as [`Host::write`], for a path that is not below the root.
pub(crate) fn put(target: &Path, content: &[u8], mode: u32) -> Result<bool, HostError> {
    if has(target, content, mode) {
        return Ok(false);
    }
    let failed = |source| HostError::File { action: "write", path: target.to_owned(), source };
    replace(target, content, mode).map_err(failed)?;
    Ok(true)
}

fn has(path: &Path, content: &[u8], mode: u32) -> bool {
    let same_mode = fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o7777 == mode);
    same_mode && fs::read(path).is_ok_and(|found| found == content)
}

fn replace(target: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    beside(target, content, mode, |draft, file| {
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.sync_all()?;
        take_place(draft, target, content)
    })
}

/// Moves the draft to the target. A target that is a mount by itself, as `/etc/hosts` is in a container, cannot be replaced and
/// is overwritten instead.
fn take_place(draft: &Path, target: &Path, content: &[u8]) -> io::Result<()> {
    match fs::rename(draft, target) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            fs::write(target, content).and_then(|()| fs::remove_file(draft))
        }
        other => other,
    }
}

fn failure(command: String, output: &Output) -> HostError {
    let text =
        String::from_utf8_lossy(if output.stderr.is_empty() { &output.stdout } else { &output.stderr }).into_owned();
    let message = text.trim().lines().last().unwrap_or("no output").to_owned();
    HostError::Failed { command, status: output.status.to_string(), message }
}
