//! Connections of one process of the controller to the API server, to its Lease and to EC2, with their faults.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use cloud::guard::Guard;
use cloud::{CloudError, ErrorKind};
use controller::lease::Leading;
use controller::provision::plan_source::PlanSource;
use http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use planner::{Plan, Snapshot, ValidatedCommands, ValidatedPlan, Validation};
use simulator::api_server::{ApiServer, refused};
use simulator::crash::Crash;
use simulator::middleware::Middleware;
use snapshot::SnapshotResult;

use super::Shared;
use super::panics::Panics;
use crate::clock::{Moment, moment, span};
use crate::source::Witness;

/// Prefixes of EC2 calls that change nothing which another replica also changes.
const QUESTIONS: [&str; 5] = ["Describe", "Get", "List", "Receive", "DeleteMessage"];

/// Connections of one process.
pub struct Weather {
    /// End of the process at a write.
    pub crash: Crash,
    /// Panics of the process.
    pub panics: Panics,
    /// Leadership of the process.
    pub leading: Leading,
    number: usize,
    paused_until: AtomicI64,
    cut_until: AtomicI64,
    lost: AtomicUsize,
    shared: Arc<Shared>,
}

impl Weather {
    /// Creates the connections of the process with this number, without faults.
    pub fn new(number: usize, leading: Leading, shared: Arc<Shared>) -> Self {
        Self {
            crash: Crash::never(),
            panics: Panics::default(),
            leading,
            number,
            paused_until: AtomicI64::new(0),
            cut_until: AtomicI64::new(0),
            lost: AtomicUsize::new(0),
            shared,
        }
    }

    /// Pauses the whole process.
    pub fn pause(&self, until: Moment) {
        self.paused_until.fetch_max(until, Ordering::AcqRel);
    }

    /// Cuts the process off from the API server.
    pub fn cut_off(&self, until: Moment) {
        self.cut_until.fetch_max(until, Ordering::AcqRel);
    }

    /// Waits for the end of a pause. Returns true if there was one.
    pub async fn unpaused(&self) -> bool {
        passed(&self.paused_until).await
    }

    /// Records the end of the process.
    pub fn end(&self) {
        self.shared.acts().end(self.number);
    }

    fn is_alive(&self) -> bool {
        self.crash.alive().load(Ordering::Acquire)
    }

    /// Passes a request through the faults of the connection. `send` performs it.
    async fn send(&self, is_write: bool, send: impl Future<Output = Response<Body>>) -> Response<Body> {
        self.unpaused().await;
        if self.cut_until.load(Ordering::Acquire) > moment() {
            // Every second write arrives, and only its response is lost.
            if is_write && self.lost.fetch_add(1, Ordering::AcqRel).is_multiple_of(2) {
                send.await;
            }
            passed(&self.cut_until).await;
            return refused(StatusCode::SERVICE_UNAVAILABLE);
        }
        if self.shared.stalled_until.load(Ordering::Acquire) > moment() {
            return refused(StatusCode::SERVICE_UNAVAILABLE);
        }
        let response = send.await;
        self.unpaused().await;
        response
    }

    /// Records a change by this process.
    fn act(&self) {
        if self.is_alive() {
            self.shared.acts().act(self.number, moment());
        }
    }
}

/// Waits until this moment. Returns true if it had not passed.
async fn passed(until: &AtomicI64) -> bool {
    let mut waited = false;
    loop {
        let rest = until.load(Ordering::Acquire) - moment();
        if rest <= 0 {
            return waited;
        }
        waited = true;
        tokio::time::sleep(span(rest)).await;
    }
}

impl Middleware for Weather {
    async fn pass(&self, server: Arc<ApiServer>, request: Request<Body>) -> Response<Body> {
        let is_write = *request.method() != Method::GET;
        if is_write && self.is_alive() {
            self.panics.strike_write(moment());
        }
        self.send(is_write, async {
            if is_write {
                self.act();
            }
            self.crash.pass(server, request).await
        })
        .await
    }
}

/// Connection of the lease's thread. Renewals are no writes at which a process ends.
pub struct LeaseConnection(pub Arc<Weather>);

impl Middleware for LeaseConnection {
    async fn pass(&self, server: Arc<ApiServer>, request: Request<Body>) -> Response<Body> {
        let is_write = *request.method() != Method::GET;
        if self.0.is_alive() {
            self.0.panics.strike_lease(moment());
        }
        self.0.send(is_write, server.answer(request)).await
    }
}

impl Guard for Weather {
    fn before<'a>(&'a self, call: &'static str) -> Pin<Box<dyn Future<Output = Result<(), CloudError>> + Send + 'a>> {
        Box::pin(async move {
            let changes = !QUESTIONS.iter().any(|question| call.starts_with(question));
            // A pause stops the whole process, so that its check of leadership follows the pause.
            if self.unpaused().await && changes && !self.leading.is_held() {
                let message = "not sent, because this replica does not lead".to_owned();
                return Err(CloudError { call, kind: ErrorKind::Throttled, code: "NotLeader".to_owned(), message });
            }
            if self.is_alive() {
                self.panics.strike_call(call, false, moment());
            }
            self.crash.before(call).await?;
            if changes {
                self.act();
            }
            Ok(())
        })
    }

    fn after(&self, call: &'static str, took: Duration, error: Option<&CloudError>) -> Option<CloudError> {
        if call == "TerminateInstances" {
            self.shared.check_terminations();
        }
        if self.is_alive() {
            self.panics.strike_call(call, true, moment());
        }
        Guard::after(&self.crash, call, took, error)
    }
}

/// Source of plans of one process.
pub struct Planner {
    /// Common source, which records the plans.
    pub witness: Arc<Witness>,
    /// Faults of the process.
    pub weather: Arc<Weather>,
}

impl PlanSource for Planner {
    fn plan(&self, built: &SnapshotResult) -> ValidatedPlan {
        self.weather.shared.idle.wait();
        self.weather.panics.strike_plan();
        self.witness.plan(built)
    }

    fn commands(&self, validation: &mut Validation, snapshot: &Snapshot, plan: &Plan) -> ValidatedCommands {
        self.witness.commands(validation, snapshot, plan)
    }

    fn is_cacheable(&self) -> bool {
        self.witness.is_cacheable()
    }
}
