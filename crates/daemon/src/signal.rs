//! Stop signals: SIGTERM from systemd and Kubernetes, SIGINT from a terminal.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Waits for the first SIGTERM or SIGINT and returns its name.
///
/// # Errors
/// Returns an error if the handlers cannot be installed.
pub async fn stopped() -> io::Result<&'static str> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    })
}
