//! Keeps the lease on a thread and a connection of its own.
//!
//! While thousands of machines come up, every worker of the controller may be busy for seconds, and its connection full of what watches
//! tell. The leader would not be heard of meanwhile, and end its work in the middle of it for nothing.

use std::io;
use std::thread;

use kube::{Client, Config};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use super::Leadership;
use crate::settings::LeaseName;

/// The thread that keeps the lease, as others see it.
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
    /// When the machine grants no thread.
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
                    return log::error!(
                        error = daemon::error::chain(&error).as_str();
                        "cannot create the client of the lease"
                    );
                }
            };
            let mut leadership = Leadership::new(client, name, identity);
            let lead = async {
                leadership.acquire().await;
                // Whoever asked is gone only while the process ends.
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
        thread::Builder::new().name("lease".to_owned()).spawn(move || runtime.block_on(keep))?;
        Ok(Self { acquired, lost, release, released })
    }

    /// Waits until this replica leads.
    ///
    /// # Errors
    /// When it never will, because the thread has ended.
    pub async fn acquired(&mut self) -> Result<(), oneshot::error::RecvError> {
        (&mut self.acquired).await
    }

    /// Waits until it leads no more.
    pub async fn lost(&mut self) {
        // A thread that has ended renews nothing.
        let _ = (&mut self.lost).await;
    }

    /// Gives the lease up, so that another replica need not wait for it to expire.
    pub async fn release(self) {
        if self.release.send(()).is_ok() {
            let _ = self.released.await;
        }
    }
}
