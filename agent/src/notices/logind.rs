//! Shutdown notices of the operating system. logind announces a shutdown to its subscribers, and delays it for a while for
//! those with a delay lock. A stop or termination by the EC2 console or API is announced nowhere else.
//!
//! No failure here is final: after a missing bus, a refusal or a closed connection, the agent retries. The announcement arrives
//! without a lock too.
//!
//! `zbus` is not used: it brings an executor and macros into every image, for a few calls and one signal of logind.

mod bus;
mod wire;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use daemon::backoff::RetryDelays;
use jiff::Timestamp;
use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::mpsc::Sender;
use tokio::time::sleep;

use bus::{Bus, Lock};
pub use wire::{Argument, Message, WireError, decode};

use crate::notices::{NoticeReading, NoticeValue, WatchUpdate};

/// Path of the socket, below the machine's root.
const SOCKET: &str = "run/dbus/system_bus_socket";
const LOGIND: &str = "org.freedesktop.login1";
const MANAGER: &str = "org.freedesktop.login1.Manager";
const MANAGER_PATH: &str = "/org/freedesktop/login1";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const MATCH: &str = "type='signal',sender='org.freedesktop.login1',path='/org/freedesktop/login1',\
                     interface='org.freedesktop.login1.Manager',member='PrepareForShutdown'";
/// logind's default delay, for a logind that does not return its delay.
const PATIENCE: Duration = Duration::from_secs(5);
/// Actions of logind after which the instance is in service again.
const REBOOTS: [&str; 3] = ["reboot", "kexec", "soft-reboot"];
/// First and longest delay between attempts to connect to the bus.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Reasons why logind cannot be reached.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LogindError {
    /// The bus does not exist, or its connection was closed.
    #[error("cannot use the system bus {}; is dbus running?", path.display())]
    Bus {
        /// Path of the socket.
        path: PathBuf,
        /// Cause, from the socket.
        #[source]
        source: io::Error,
    },
    /// The bus sent bytes that are no D-Bus message.
    #[error("the system bus does not speak D-Bus")]
    Wire(#[from] WireError),
    /// The bus or logind refused a call.
    #[error("{member} was rejected ({name}): {message}")]
    Refused {
        /// Name of the method.
        member: &'static str,
        /// Name of the error.
        name: String,
        /// Message of the error.
        message: String,
    },
    /// The bus or logind does not respond.
    #[error("no response to {member} within {} s", timeout.as_secs())]
    Silent {
        /// Name of the method.
        member: &'static str,
        /// Time limit.
        timeout: Duration,
    },
}

/// Lock that delays a shutdown. The agent takes it at its start, because logind refuses it once the shutdown has begun.
#[derive(Clone, Debug, Default)]
pub struct Delay(Arc<Mutex<Option<Lock>>>);

impl Delay {
    /// Releases the lock, so that the shutdown proceeds.
    pub fn release(&self) {
        if self.swap(None).is_some() {
            log::info!("released the shutdown inhibitor");
        }
    }

    /// Reports whether the lock is held.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.0.lock().is_some()
    }

    fn swap(&self, lock: Option<Lock>) -> Option<Lock> {
        std::mem::replace(&mut *self.0.lock(), lock)
    }
}

/// Watches for shutdowns until the receiver is closed. `root` is the prefix of the bus's socket.
pub async fn watch(root: PathBuf, delay: Delay, updates: Sender<WatchUpdate>) {
    let mut logged = None;
    let mut delays = RetryDelays::new(RETRY.0, RETRY.1);
    while !updates.is_closed() {
        let mut subscribed = false;
        let Err(error) = listen(&root, &delay, &updates, &mut subscribed).await else {
            return;
        };
        let problem = Some(daemon::error::chain(&error));
        if problem != logged {
            log::warn!(reason = problem.as_deref().unwrap_or_default(); "cannot subscribe to PrepareForShutdown");
            logged = problem;
        }
        if subscribed {
            delays.reset();
        }
        sleep(delays.next_delay()).await;
    }
}

/// Watches on one connection. Returns `Ok` only when the receiver is closed.
async fn listen(
    root: &Path,
    delay: &Delay,
    updates: &Sender<WatchUpdate>,
    subscribed: &mut bool,
) -> Result<(), LogindError> {
    let mut bus = Bus::connect(root.join(SOCKET)).await?;
    bus.add_match(MATCH).await?;
    *subscribed = true;
    hold(&mut bus, delay).await?;
    // The shutdown may have begun, or may have been cancelled, before the subscription.
    match property(&mut bus, "PreparingForShutdown").await? {
        Some(Argument::Flag(true)) => announce(&mut bus, updates).await?,
        Some(Argument::Flag(false)) => send(updates, NoticeValue::Shutdown(None)).await,
        _ => {}
    }
    log::info!(delay = delay.is_held(); "subscribed to PrepareForShutdown");
    loop {
        let signal = tokio::select! {
            signal = bus.signal() => signal?,
            () = updates.closed() => return Ok(()),
        };
        let ours = signal.interface == MANAGER && signal.member == "PrepareForShutdown";
        match signal.arguments.first().filter(|_| ours) {
            Some(Argument::Flag(true)) => announce(&mut bus, updates).await?,
            Some(Argument::Flag(false)) => {
                send(updates, NoticeValue::Shutdown(None)).await;
                hold(&mut bus, delay).await?;
            }
            _ => {}
        }
    }
}

async fn announce(bus: &mut Bus, updates: &Sender<WatchUpdate>) -> Result<(), LogindError> {
    // kubelet may have raised the delay since the last query.
    let patience = match property(bus, "InhibitDelayMaxUSec").await? {
        Some(Argument::Number(micros)) => Duration::from_micros(micros),
        _ => PATIENCE,
    };
    let scheduled = property(bus, "ScheduledShutdown").await?;
    let is_reboot = is_reboot(scheduled.as_ref(), patience, Timestamp::now());
    log::warn!(patience = patience.as_secs(), reboot = is_reboot; "the operating system shuts down");
    let value = if is_reboot { NoticeValue::Reboot(patience) } else { NoticeValue::Shutdown(Some(patience)) };
    send(updates, value).await;
    Ok(())
}

/// Reports whether the shutdown that has begun is a reboot, by logind's property `ScheduledShutdown`: action and time in
/// microseconds. The time is 0 or past for the present shutdown, from systemd 258 on the end of its delay. A later time belongs to
/// another shutdown, while a power button ends the present one.
#[must_use]
pub fn is_reboot(scheduled: Option<&Argument>, patience: Duration, now: Timestamp) -> bool {
    let Some(Argument::Structure(parts)) = scheduled else {
        return false;
    };
    let [Argument::Text(action), Argument::Number(micros)] = parts.as_slice() else {
        return false;
    };
    let end = u128::try_from(now.as_microsecond()).unwrap_or(0) + patience.as_micros();
    REBOOTS.contains(&action.as_str()) && u128::from(*micros) <= end
}

async fn send(updates: &Sender<WatchUpdate>, value: NoticeValue) {
    // The loop detects a closed receiver.
    drop(updates.send(WatchUpdate::Reading(NoticeReading { value, date: None })).await);
}

/// Takes the lock. A refused lock does not end the subscription.
async fn hold(bus: &mut Bus, delay: &Delay) -> Result<(), LogindError> {
    let why = ["shutdown", "kerf-agent", "this Kubernetes node is being drained", "delay"];
    match bus.call(LOGIND, MANAGER_PATH, MANAGER, "Inhibit", &why).await {
        Ok(answer) => {
            drop(delay.swap(answer.descriptor));
            Ok(())
        }
        Err(error @ LogindError::Refused { .. }) => {
            log::warn!(error = daemon::error::chain(&error).as_str(); "cannot inhibit a shutdown, it will not wait for the drain");
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Returns a property of logind; `None` when logind refuses the query.
async fn property(bus: &mut Bus, name: &'static str) -> Result<Option<Argument>, LogindError> {
    match bus.call(LOGIND, MANAGER_PATH, PROPERTIES, "Get", &[MANAGER, name]).await {
        Ok(answer) => Ok(answer.message.arguments.into_iter().next()),
        Err(LogindError::Refused { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
