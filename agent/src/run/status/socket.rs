//! The status socket of the running agent. Only root may open the socket. The agent writes its status to each connection once.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use super::AgentStatus;
use crate::run::journal::Journal;

/// Path of the socket, below the root of the machine.
const SOCKET: &str = "run/kerf/admin.sock";
/// Time limit for one connection, of both the agent and its client.
const PATIENCE: Duration = Duration::from_secs(2);

/// The status socket, or nothing where it cannot be opened: an agent without the socket protects its node all the same.
#[derive(Debug)]
pub struct StatusSocket {
    listener: Option<UnixListener>,
}

impl StatusSocket {
    /// Opens the socket below `root`. Replaces the socket that an earlier start left.
    #[must_use]
    pub fn open(root: &Path) -> Self {
        let path = socket(root);
        let listener = listen(&path);
        if let Err(error) = &listener {
            log::warn!(path:% = path.display(), error:% = error; "cannot open the status socket");
        }
        Self { listener: listener.ok() }
    }

    /// Returns the next connection of a client. Never returns where the socket could not be opened.
    pub async fn accept(&self) -> UnixStream {
        loop {
            let Some(listener) = &self.listener else {
                return std::future::pending().await;
            };
            match listener.accept().await {
                Ok((stream, _)) => return stream,
                // The process may have no free file descriptor: only waiting can help.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }
}

/// Writes the status to the client in a background task.
pub fn respond(mut stream: UnixStream, status: &AgentStatus) {
    let text = serde_json::to_vec(status).unwrap_or_default();
    tokio::spawn(async move {
        // A client that closes its connection early is not an error.
        drop(timeout(PATIENCE, stream.write_all(&text)).await);
    });
}

/// Requests the status of the running agent; without a response, reads the files below `root`.
pub async fn read(root: &Path) -> AgentStatus {
    match ask(root).await {
        Ok(status) => status,
        Err(error) => {
            let phase =
                format!("no response from the agent of this machine ({error}); see `systemctl status kerf-agent`");
            AgentStatus { phase, ..AgentStatus::from_files(root, Journal::peek(root).as_ref()) }
        }
    }
}

/// Requests the status of the agent that runs on the machine below `root`.
///
/// # Errors
/// No agent runs, the agent does not answer within 2 s, or its answer is no status.
pub async fn ask(root: &Path) -> io::Result<AgentStatus> {
    let response = async {
        let mut stream = UnixStream::connect(socket(root)).await?;
        let mut text = Vec::new();
        stream.read_to_end(&mut text).await?;
        machine::document::read_json(&text).map_err(io::Error::other)
    };
    timeout(PATIENCE, response).await.unwrap_or_else(|elapsed| Err(elapsed.into()))
}

/// Binds the socket beside its final path and then renames it, so that the socket never exists with another mode.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let beside = path.with_extension("sock.new");
    fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&beside)?;
    fs::set_permissions(&beside, Permissions::from_mode(0o600))?;
    fs::rename(&beside, path)?;
    Ok(listener)
}

fn socket(root: &Path) -> PathBuf {
    root.join(SOCKET)
}
