//! Signs of life to systemd; without it (no `NOTIFY_SOCKET`) they go nowhere.

use sd_notify::NotifyState;

/// What systemd has been reported.
#[derive(Debug)]
pub(super) struct Systemd {
    watchdog: bool,
    status: String,
}

impl Systemd {
    /// The agent knows its machine and watches over it. Not later: the unit must not wait for an API server.
    pub(super) fn ready() -> Self {
        send(&[NotifyState::Ready]);
        Self { watchdog: sd_notify::watchdog_enabled().is_some(), status: String::new() }
    }

    /// One turn of the main loop is done; `status` is told when it changes.
    pub(super) fn alive(&mut self, status: &str) {
        if self.watchdog {
            send(&[NotifyState::Watchdog]);
        }
        if self.status != status {
            log::info!("{status}");
            send(&[NotifyState::Status(status)]);
            status.clone_into(&mut self.status);
        }
    }

    pub(super) fn stopping(&self) {
        send(&[NotifyState::Stopping]);
    }
}

fn send(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        log::debug!(error:% = error; "cannot notify systemd");
    }
}
