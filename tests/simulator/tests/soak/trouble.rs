//! Runs of the controller with random faults: calls are slow, refused or never answered.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cloud::fake::FakeCloud;
use cloud::guard::{Guard, Guarded};
use cloud::{Cloud, CloudError, ErrorKind};
use controller::gc::instances::{self, GarbageCollection};
use controller::gc::periodic::run_for_ever;
use controller::settings::Gates;
use controller::write::writer::Operation;
use http::{Request, Response, StatusCode};
use jiff::Timestamp;
use kube::client::Body;
use simulator::api_server::{ApiServer, refused};
use simulator::chance::Chance;
use simulator::classes;
use simulator::classes::learn;
use simulator::clock::of_tokio;
use simulator::controller_run::{ControllerRun, Place};
use simulator::middleware::{Middleware, client};

/// Faults of EC2 for one run: slow calls, errors and lost replies; no reply after the end of the run.
struct Trouble {
    alive: Arc<AtomicBool>,
    chance: Arc<Chance>,
}

impl Guard for Trouble {
    fn before<'a>(&'a self, call: &'static str) -> Pin<Box<dyn Future<Output = Result<(), CloudError>> + Send + 'a>> {
        Box::pin(async move {
            if !self.alive.load(Ordering::Acquire) {
                std::future::pending::<()>().await;
            }
            if self.chance.strikes(10) {
                tokio::time::sleep(Duration::from_millis(self.chance.below(4000) as u64)).await;
            }
            let error =
                |kind, code: &str| CloudError { call, kind, code: code.to_owned(), message: "bad luck".to_owned() };
            if !self.chance.strikes(6) {
                return Ok(());
            }
            Err(match self.chance.below(4) {
                0 => error(ErrorKind::Throttled, "RequestLimitExceeded"),
                1 => error(ErrorKind::Server, "InternalError"),
                2 => error(ErrorKind::Unauthorized, "UnauthorizedOperation"),
                _ => error(ErrorKind::Transport, ""),
            })
        })
    }

    fn after(&self, call: &'static str, _: Duration, error: Option<&CloudError>) -> Option<CloudError> {
        let lost = || CloudError { call, kind: ErrorKind::Transport, code: String::new(), message: "lost".to_owned() };
        (error.is_none() && self.chance.strikes(6)).then(lost)
    }
}

/// Faults of the API server for one run: lost replies; no reply after the end of the run.
struct Rough {
    alive: Arc<AtomicBool>,
    chance: Arc<Chance>,
}

impl Middleware for Rough {
    async fn pass(&self, server: Arc<ApiServer>, request: Request<Body>) -> Response<Body> {
        if !self.alive.load(Ordering::Acquire) {
            std::future::pending::<()>().await;
        }
        if self.chance.strikes(50) {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        if self.chance.strikes(50) {
            return refused(StatusCode::INTERNAL_SERVER_ERROR);
        }
        let answer = server.answer(request).await;
        if self.chance.strikes(50) { refused(StatusCode::INTERNAL_SERVER_ERROR) } else { answer }
    }
}

/// Starts a run with random faults. The run lists all objects and continues from there.
pub async fn begin(ec2: &FakeCloud, server: &Arc<ApiServer>, chance: &Arc<Chance>) -> ControllerRun {
    let alive = Arc::new(AtomicBool::new(true));
    let trouble = Trouble { alive: Arc::clone(&alive), chance: Arc::clone(chance) };
    let cloud: Arc<dyn Cloud> = Arc::new(Guarded::new(Arc::new(ec2.clone()), Arc::new(trouble)));
    on((cloud, ec2), (server, chance), of_tokio, alive).await
}

/// Starts a run on any cloud, with any clock. The second cloud resolves the EC2NodeClass, so that this makes no calls to the
/// first.
pub async fn on(
    (cloud, informant): (Arc<dyn Cloud>, &dyn Cloud),
    (server, chance): (&Arc<ApiServer>, &Arc<Chance>),
    clock: fn() -> Timestamp,
    alive: Arc<AtomicBool>,
) -> ControllerRun {
    let client = client(server, Arc::new(Rough { alive: Arc::clone(&alive), chance: Arc::clone(chance) }));
    let mut controller_run =
        ControllerRun::awake(Place { cloud, server, client, clock, alive, gates: Gates::default() });
    classes::index(&controller_run.cluster);
    learn(informant, &controller_run.offerings).await;
    controller_run.does(run_for_ever(GarbageCollection::default(), controller_run.task_context()));
    controller_run.works();
    controller_run
}

/// Returns the number of addresses that a run reserves for launches that the subnets do not show yet.
pub async fn addresses_under_way(controller_run: &ControllerRun, ec2: &FakeCloud, now: Timestamp) -> i64 {
    let (_, in_flight) = controller_run.offerings.knowledge(now);
    let subnets = ec2.subnets(&cloud::Filter::default()).await.unwrap();
    subnets.iter().map(|subnet| in_flight.free_in(&subnet.id, now)).sum()
}

/// Runs the gc of launch templates as of `now`.
pub async fn collect_templates(controller_run: &ControllerRun, now: Timestamp) {
    for step in instances::unused_templates(&controller_run.cluster, &controller_run.offerings, now).await {
        assert!(matches!(step, Operation::DeleteLaunchTemplate(_)));
        controller_run.writer.run(step).await.unwrap();
    }
}

/// Returns a summary of the run in one line.
pub fn scenario(ec2: &FakeCloud, chance: &Chance) -> String {
    let count = |call: &str| ec2.count(call);
    format!(
        "{} CreateFleet, {} machines ever, {} TerminateInstances, {} CreateLaunchTemplate, {} faults",
        count("CreateFleet"),
        ec2.machines().len(),
        count("TerminateInstances"),
        count("CreateLaunchTemplate"),
        chance.faults()
    )
}

/// Makes the EC2NodeClass unresolved: nothing is launched for it until it is resolved again.
pub fn unresolve(controller_run: &ControllerRun) {
    controller_run.offerings.forget("default");
}
