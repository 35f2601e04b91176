//! The operating system's own word that it goes down: logind announces a shutdown to everyone who asks, and waits a while for those who
//! hold a delay lock. A stop or an end by the EC2 console or API is announced nowhere else.
//!
//! Nothing here ends: a bus that is not there, refuses or breaks is tried again. Without a lock the announcement is heard all the same.

mod bus;
mod wire;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tokio::sync::mpsc::Sender;
use tokio::time::sleep;

use bus::{Bus, Lock};
pub use wire::{Argument, Message, WireError, decode};

use crate::notices::{NoticeReading, NoticeValue, WatchUpdate};

/// Below the machine's root.
const SOCKET: &str = "run/dbus/system_bus_socket";
const LOGIND: &str = "org.freedesktop.login1";
const MANAGER: &str = "org.freedesktop.login1.Manager";
const MANAGER_PATH: &str = "/org/freedesktop/login1";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const MATCH: &str = "type='signal',sender='org.freedesktop.login1',path='/org/freedesktop/login1',\
                     interface='org.freedesktop.login1.Manager',member='PrepareForShutdown'";
/// logind's default, for one that does not say.
const PATIENCE: Duration = Duration::from_secs(5);
/// The first and the longest wait before the bus is tried again.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Why logind is not heard.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LogindError {
    /// There is no bus, or it broke.
    #[error("cannot use the system bus {}; is dbus running?", path.display())]
    Bus {
        /// Its socket.
        path: PathBuf,
        /// What the socket says.
        #[source]
        source: io::Error,
    },
    /// It says something that is no D-Bus.
    #[error("the system bus does not speak D-Bus")]
    Wire(#[from] WireError),
    /// It refuses.
    #[error("{member} was rejected ({name}): {message}")]
    Refused {
        /// What was asked for.
        member: &'static str,
        /// The error's name.
        name: String,
        /// Its message.
        message: String,
    },
    /// It does not answer.
    #[error("no response to {member} within {} s", timeout.as_secs())]
    Silent {
        /// What was asked for.
        member: &'static str,
        /// How long it had.
        timeout: Duration,
    },
}

/// The lock that makes a shutdown wait. It is held from the start on, because it cannot be taken any more once the shutdown has begun.
#[derive(Clone, Debug, Default)]
pub struct Delay(Arc<Mutex<Option<Lock>>>);

impl Delay {
    /// Lets the shutdown go on.
    pub fn release(&self) {
        if self.swap(None).is_some() {
            log::info!("released the shutdown inhibitor");
        }
    }

    /// Whether the lock is held.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn swap(&self, lock: Option<Lock>) -> Option<Lock> {
        std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), lock)
    }
}

/// Listens until nobody listens to us. `root` is the prefix of the bus's socket.
pub async fn watch(root: PathBuf, delay: Delay, told: Sender<WatchUpdate>) {
    let mut said = None;
    let mut wait = RETRY.0;
    while !told.is_closed() {
        let mut heard = false;
        let Err(error) = listen(&root, &delay, &told, &mut heard).await else {
            return;
        };
        let problem = Some(daemon::error::chain(&error));
        if problem != said {
            log::warn!(reason = problem.as_deref().unwrap_or_default(); "cannot subscribe to PrepareForShutdown");
            said = problem;
        }
        wait = if heard { RETRY.0 } else { (wait * 2).min(RETRY.1) };
        sleep(wait).await;
    }
}

/// One connection's life. Ends well only when nobody listens to us any more.
async fn listen(root: &Path, delay: &Delay, told: &Sender<WatchUpdate>, heard: &mut bool) -> Result<(), LogindError> {
    let mut bus = Bus::connect(root.join(SOCKET)).await?;
    bus.add_match(MATCH).await?;
    *heard = true;
    hold(&mut bus, delay).await?;
    // It may have begun before we listened.
    if matches!(property(&mut bus, "PreparingForShutdown").await?, Some(Argument::Flag(true))) {
        announce(&mut bus, told).await?;
    }
    log::info!(delay = delay.is_held(); "subscribed to PrepareForShutdown");
    loop {
        let signal = tokio::select! {
            signal = bus.signal() => signal?,
            () = told.closed() => return Ok(()),
        };
        let ours = signal.interface == MANAGER && signal.member == "PrepareForShutdown";
        match signal.arguments.first().filter(|_| ours) {
            Some(Argument::Flag(true)) => announce(&mut bus, told).await?,
            Some(Argument::Flag(false)) => {
                tell(told, NoticeValue::Shutdown(None)).await;
                hold(&mut bus, delay).await?;
            }
            _ => {}
        }
    }
}

async fn announce(bus: &mut Bus, told: &Sender<WatchUpdate>) -> Result<(), LogindError> {
    // kubelet may have raised it since we last looked.
    let patience = match property(bus, "InhibitDelayMaxUSec").await? {
        Some(Argument::Number(micros)) => Duration::from_micros(micros),
        _ => PATIENCE,
    };
    log::warn!(patience = patience.as_secs(); "the operating system shuts down");
    tell(told, NoticeValue::Shutdown(Some(patience))).await;
    Ok(())
}

async fn tell(told: &Sender<WatchUpdate>, said: NoticeValue) {
    // Nobody listening is found out by the loop.
    drop(told.send(WatchUpdate::Said(NoticeReading { said, heard: None })).await);
}

/// Takes the lock. That it is refused is no reason not to listen.
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

/// A property of logind's; `None` when it refuses to say.
async fn property(bus: &mut Bus, name: &'static str) -> Result<Option<Argument>, LogindError> {
    match bus.call(LOGIND, MANAGER_PATH, PROPERTIES, "Get", &[MANAGER, name]).await {
        Ok(answer) => Ok(answer.message.arguments.into_iter().next()),
        Err(LogindError::Refused { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
