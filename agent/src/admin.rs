//! The running agent's own door: a socket that only root may open, on which it says where everything stands, once per connection.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use crate::status::AgentStatus;

/// The socket, on the machine.
const SOCKET: &str = "run/kerf/admin.sock";
/// A reader that takes longer is left alone.
const PATIENCE: Duration = Duration::from_secs(2);

/// The socket, or nothing where it cannot be had: an agent without it guards its node all the same.
#[derive(Debug)]
pub struct Admin {
    listener: Option<UnixListener>,
}

impl Admin {
    /// Opens the socket below `root`, in the place of one that an earlier start left.
    #[must_use]
    pub fn open(root: &Path) -> Self {
        let path = socket(root);
        let listener = listen(&path);
        if let Err(error) = &listener {
            log::warn!(path:% = path.display(), error:% = error; "cannot open the status socket");
        }
        Self { listener: listener.ok() }
    }

    /// The next who asks.
    pub async fn asked(&self) -> UnixStream {
        loop {
            let Some(listener) = &self.listener else {
                return std::future::pending().await;
            };
            match listener.accept().await {
                Ok((stream, _)) => return stream,
                // Out of file descriptors: waiting is all that can help.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }
}

/// Answers in the background.
pub fn answer(mut stream: UnixStream, status: &AgentStatus) {
    let text = serde_json::to_vec(status).unwrap_or_default();
    tokio::spawn(async move {
        // Who hangs up does not want to know.
        drop(timeout(PATIENCE, stream.write_all(&text)).await);
    });
}

/// Asks the agent that runs on the machine below `root`.
///
/// # Errors
/// When none runs, or it does not answer.
pub async fn ask(root: &Path) -> io::Result<AgentStatus> {
    let asked = async {
        let mut stream = UnixStream::connect(socket(root)).await?;
        let mut text = Vec::new();
        stream.read_to_end(&mut text).await?;
        machine::document::read_json(&text).map_err(io::Error::other)
    };
    timeout(PATIENCE, asked).await.unwrap_or_else(|late| Err(late.into()))
}

/// The socket appears with its mode set: it is made beside its place, then moved.
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
