//! Notifications to systemd. Without `NOTIFY_SOCKET` they are dropped.

use sd_notify::NotifyState;

/// State of the notifications.
#[derive(Debug)]
pub(super) struct Systemd {
    watchdog: bool,
    status: String,
}

impl Systemd {
    /// Reports readiness once the agent has read the identity of its instance. Readiness does not depend on the API server,
    /// because the unit must not wait for it.
    pub(super) fn ready() -> Self {
        send(&[NotifyState::Ready]);
        Self { watchdog: sd_notify::watchdog_enabled().is_some(), status: String::new() }
    }

    /// Notifies the watchdog, once per iteration of the main loop. Reports `status` when it changes.
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
