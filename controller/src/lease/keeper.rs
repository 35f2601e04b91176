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

use super::{Candidate, Leading};
use crate::settings::LeaseName;
use crate::state::span;

/// Handle of the thread that keeps the lease.
pub struct Keeper {
    acquired: oneshot::Receiver<()>,
    release: oneshot::Sender<()>,
    released: oneshot::Receiver<()>,
}

/// Ends leadership when the work of the thread ends, also by a panic: the process does not wait until the lease expires.
struct EndOnDrop(Leading);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Keeper {
    /// Starts the thread, which extends and ends `leading`; see [`Candidate::new`] for `identity`.
    ///
    /// # Errors
    /// Returns an error if the operating system cannot start a thread.
    pub fn start(config: Config, name: LeaseName, identity: String, leading: Leading) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let connect = Box::new(move || Client::try_from(config.clone()));
        let (keeper, keep) = Self::new(Candidate::new(connect, name, identity), leading);
        let keep = keep.instrument(span::task("lease"));
        thread::Builder::new().name("lease".to_owned()).spawn(move || runtime.block_on(keep))?;
        Ok(keeper)
    }

    /// Creates the handle, and the work of its thread: the candidate extends and ends `leading` until it loses the lease or is
    /// asked to release it.
    pub fn new(mut candidate: Candidate, leading: Leading) -> (Self, impl Future<Output = ()> + Send) {
        let (report_acquired, acquired) = oneshot::channel();
        let (release, requested) = oneshot::channel();
        let (report_released, released) = oneshot::channel();
        let keep = async move {
            let _ends = EndOnDrop(leading.clone());
            // The receivers are dropped only while the process ends.
            let acquired = || {
                let _ = report_acquired.send(());
            };
            tokio::select! {
                biased;
                () = candidate.lead(&leading, acquired) => {}
                _ = requested => {
                    leading.end();
                    candidate.release().await;
                    let _ = report_released.send(());
                }
            }
        };
        (Self { acquired, release, released }, keep)
    }

    /// Waits until this replica leads.
    ///
    /// # Errors
    /// Returns an error if the thread has ended, so that this replica never leads.
    pub async fn acquired(&mut self) -> Result<(), oneshot::error::RecvError> {
        (&mut self.acquired).await
    }

    /// Ends leadership and releases the lease, so that another replica need not wait for its expiration.
    pub async fn release(self) {
        if self.release.send(()).is_ok() {
            let _ = self.released.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{Candidate, Keeper, Leading, LeaseName};
    use crate::lease::Connect;

    #[tokio::test]
    async fn keep_ends_leadership_when_it_panics() {
        let leading = Leading::not_yet();
        leading.extend(Instant::now() + Duration::from_secs(3_600));
        let connect: Connect = Box::new(|| panic!("broken"));
        let name = LeaseName { namespace: "kerf".to_owned(), name: "lease".to_owned() };
        let (_keeper, keep) = Keeper::new(Candidate::new(connect, name, "a".to_owned()), leading.clone());
        assert!(tokio::spawn(keep).await.is_err_and(|error| error.is_panic()));
        assert!(!leading.is_held());
    }
}
