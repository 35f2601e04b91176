//! The end of a controller run at one of its writes, counted over the API server and EC2. The write is either not performed, or
//! performed without a response.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use cloud::guard::Guard;
use cloud::{CloudError, ErrorKind};
use http::{Method, Request, Response};
use kube::client::Body;
use tokio::sync::Notify;

use crate::api_server::ApiServer;
use crate::middleware::Middleware;

/// Prefixes of read-only calls to EC2.
const QUESTIONS: [&str; 3] = ["Describe", "Get", "List"];

/// Moment at which a run ends.
pub struct Crash {
    /// Number of the write at which the run ends; the first write is 1.
    at: AtomicUsize,
    /// Performance of that last write.
    taken: bool,
    writes: AtomicUsize,
    alive: Arc<AtomicBool>,
    came: Notify,
    /// A call to EC2 is in progress whose response must not arrive.
    last_call: AtomicBool,
}

/// Result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteResult {
    Passes,
    IsTheLast,
    IsNotTaken,
}

impl Crash {
    /// Ends the run at this write.
    #[must_use]
    pub fn at(at: usize, taken: bool) -> Self {
        let (writes, alive) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(true)));
        let at = AtomicUsize::new(at);
        Self { at, taken, writes, alive, came: Notify::new(), last_call: AtomicBool::new(false) }
    }

    /// Never ends the run.
    #[must_use]
    pub fn never() -> Self {
        Self::at(usize::MAX, true)
    }

    /// Ends the run after this many more writes, at the next one.
    pub fn after(&self, writes: usize) {
        self.at.store(self.writes() + writes + 1, Ordering::Release);
    }

    /// Returns a flag that is true until the end of the run.
    #[must_use]
    pub fn alive(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.alive)
    }

    /// Returns the number of writes so far.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::Acquire)
    }

    /// Waits for the end of the run.
    pub async fn comes(&self) {
        self.came.notified().await;
    }

    fn result_of_a_write(&self) -> WriteResult {
        match self.writes.fetch_add(1, Ordering::AcqRel) + 1 {
            number if number != self.at.load(Ordering::Acquire) => WriteResult::Passes,
            _ if self.taken => WriteResult::IsTheLast,
            _ => WriteResult::IsNotTaken,
        }
    }

    /// Ends the run now.
    pub fn strike(&self) {
        self.alive.store(false, Ordering::Release);
        self.came.notify_one();
    }

    /// Waits forever if the run has ended: a dead controller receives no response.
    async fn unless_dead(&self) {
        if !self.alive.load(Ordering::Acquire) {
            std::future::pending::<()>().await;
        }
    }
}

impl Middleware for Crash {
    async fn pass(&self, server: Arc<ApiServer>, request: Request<Body>) -> Response<Body> {
        self.unless_dead().await;
        let is_write = *request.method() != Method::GET;
        let result = if is_write { self.result_of_a_write() } else { WriteResult::Passes };
        if result == WriteResult::IsNotTaken {
            self.strike();
            self.unless_dead().await;
        }
        let answer = server.answer(request).await;
        if result == WriteResult::IsTheLast {
            self.strike();
        }
        self.unless_dead().await;
        answer
    }
}

impl Guard for Crash {
    fn before<'a>(&'a self, call: &'static str) -> Pin<Box<dyn Future<Output = Result<(), CloudError>> + Send + 'a>> {
        Box::pin(async move {
            self.unless_dead().await;
            let is_question = QUESTIONS.iter().any(|question| call.starts_with(question));
            let result = if is_question { WriteResult::Passes } else { self.result_of_a_write() };
            if result == WriteResult::IsNotTaken {
                self.strike();
                self.unless_dead().await;
            }
            self.last_call.fetch_or(result == WriteResult::IsTheLast, Ordering::AcqRel);
            Ok(())
        })
    }

    fn after(&self, call: &'static str, _: Duration, _: Option<&CloudError>) -> Option<CloudError> {
        let was_the_last = self.last_call.swap(false, Ordering::AcqRel);
        was_the_last.then(|| {
            self.strike();
            CloudError {
                call,
                kind: ErrorKind::Transport,
                code: String::new(),
                message: "the run has ended".to_owned(),
            }
        })
    }
}
