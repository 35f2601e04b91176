//! Keeper of the lease, with a thread and a connection of its own.
//!
//! While thousands of nodes start, all workers of the controller may be busy for seconds, and watch events may fill its
//! connection. Without its own thread, the leader would miss its renewals and stop its work for no reason.

use std::io;
use std::thread;

use kube::{Client, Config};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tracing::Instrument as _;

use super::Leadership;
use crate::settings::LeaseName;
use crate::state::span;

/// Handle of the thread that keeps the lease.
pub struct Keeper {
    acquired: oneshot::Receiver<()>,
    lost: oneshot::Receiver<()>,
    release: oneshot::Sender<()>,
    released: oneshot::Receiver<()>,
}

impl Keeper {
    /// Starts the thread; see [`Leadership::new`] for `identity`.
    ///
    /// # Errors
    /// Returns an error if the operating system cannot start a thread.
    pub fn start(config: Config, name: LeaseName, identity: String) -> io::Result<Self> {
        let (tell_acquired, acquired) = oneshot::channel();
        let (tell_lost, lost) = oneshot::channel();
        let (release, asked_for) = oneshot::channel();
        let (tell_released, released) = oneshot::channel();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let keep = async move {
            let client = match Client::try_from(config) {
                Ok(client) => client,
                Err(error) => {
                    return tracing::error!(
                        error = daemon::error::chain(&error).as_str(),
                        "cannot create the client of the lease"
                    );
                }
            };
            let mut leadership = Leadership::new(client, name, identity);
            let lead = async {
                leadership.acquire().await;
                // The receiver is dropped only while the process ends.
                let _ = tell_acquired.send(());
                leadership.hold().await;
                let _ = tell_lost.send(());
            };
            tokio::select! {
                () = lead => {}
                _ = asked_for => {
                    leadership.release().await;
                    let _ = tell_released.send(());
                }
            }
        };
        let keep = keep.instrument(span::task("lease"));
        thread::Builder::new().name("lease".to_owned()).spawn(move || runtime.block_on(keep))?;
        Ok(Self { acquired, lost, release, released })
    }

    /// Waits until this replica leads.
    ///
    /// # Errors
    /// Returns an error if the thread has ended, so that this replica never leads.
    pub async fn acquired(&mut self) -> Result<(), oneshot::error::RecvError> {
        (&mut self.acquired).await
    }

    /// Waits until this replica no longer leads.
    pub async fn lost(&mut self) {
        // A thread that has ended renews nothing.
        let _ = (&mut self.lost).await;
    }

    /// Releases the lease, so that another replica need not wait for its expiration.
    pub async fn release(self) {
        if self.release.send(()).is_ok() {
            let _ = self.released.await;
        }
    }
}
