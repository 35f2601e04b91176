//! Launches at the rate limits of EC2, over the wire: NodeClaims with different requirements, which can share no call, and
//! NodeClaims with equal ones. The controller's launcher uses the real SDK against a fake of EC2. The fake counts calls in
//! token buckets like EC2's own, and refuses calls beyond them.
//!
//! The limits apply to mutating calls: fifty at once, then five per second. A thousand different NodeClaims need one
//! CreateFleet each, and a launch template for each kind of instance. `make pace` runs them (`KERF_PACE_CLAIMS`) and compares
//! the time with the bound. The daily test only counts calls, which does not need an idle machine.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use api::label;
use api::status::Conditioned;
use aws::{AwsCloud, Credentials, Settings};
use cloud::fake::FakeCloud;
use controller::settings::Gates;
use daemon::metric::Metrics;
use jiff::Timestamp;
use serde_json::{Value, json};
use simulator::api_server::{ApiServer, CLAIMS};
use simulator::classes;
use simulator::controller_run::{ControllerRun, Place};
use simulator::middleware::{PassThrough, client};
use testbed::ec2wire::Ec2Wire;

/// Instance types of one size, so that few launch templates are needed. Choices of three of them give 1,330 different
/// requirements.
const TYPES: [&str; 21] = [
    "m5.large",
    "m5a.large",
    "m5d.large",
    "m5ad.large",
    "m5n.large",
    "m5dn.large",
    "m6a.large",
    "m6i.large",
    "m6id.large",
    "m7i.large",
    "c5.large",
    "c5a.large",
    "c5d.large",
    "c5ad.large",
    "c6a.large",
    "c6i.large",
    "c6id.large",
    "c7i.large",
    "r5.large",
    "r5a.large",
    "r6i.large",
];

/// Returns every choice of three types.
fn requested_types() -> Vec<[&'static str; 3]> {
    let mut all = Vec::new();
    for (a, first) in TYPES.iter().enumerate() {
        for (b, second) in TYPES.iter().enumerate().skip(a + 1) {
            all.extend(TYPES.iter().skip(b + 1).map(|third| [*first, *second, *third]));
        }
    }
    all
}

fn claim(number: usize, types: &[&str]) -> Value {
    let requirements = [
        json!({"key": label::INSTANCE_TYPE, "operator": "In", "values": types}),
        json!({"key": label::CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}),
    ];
    classes::claim(number as u64, &requirements)
}

fn settled(claim: &api::NodeClaim) -> bool {
    claim.is_true(api::condition::LAUNCHED)
}

/// Measurements of a run.
struct Run {
    time: Duration,
    /// Number of mutating calls, without refused ones.
    changes: usize,
    fleets: usize,
    refused: usize,
}

impl Run {
    /// Returns the shortest time that the limit on mutating calls permits.
    fn bound(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.changes.saturating_sub(50)).unwrap() * 200)
    }
}

/// Launches a NodeClaim for each set of types, all created at once.
async fn launch(requested_types: &[Vec<&str>]) -> Run {
    let ec2 = FakeCloud::builder("us-west-2").only_types(&TYPES).build().unwrap();
    let wire = Ec2Wire::start(ec2.clone(), None).await.unwrap();
    wire.limit();
    let keys = Credentials { access_key_id: "test".to_owned(), secret_access_key: "test".to_owned() };
    let settings = Settings {
        region: Some("us-west-2".to_owned()),
        endpoint_url: Some(wire.url()),
        credentials: Some(keys),
        ..Settings::default()
    };
    let aws = Arc::new(AwsCloud::connect(&settings).await);
    let cloud = controller::capacity::rate_limits::limited(aws, Arc::new(Metrics::new(&controller::metrics::table())));
    let server = Arc::new(ApiServer::new(Timestamp::now));
    requested_types.iter().enumerate().for_each(|(number, types)| server.create(CLAIMS, claim(number, types)));
    let begin = Instant::now();
    let (client, alive) = (client(&server, Arc::new(PassThrough)), Arc::new(AtomicBool::new(true)));
    let gates = Gates::default();
    let mut controller_run =
        ControllerRun::awake(Place { cloud, server: &server, client, clock: Timestamp::now, alive, gates });
    classes::index(&controller_run.cluster);
    classes::learn(&ec2, &controller_run.offerings).await;
    controller_run.works();
    while server.claims().iter().filter(|claim| settled(claim)).count() < requested_types.len() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let time = begin.elapsed();
    controller_run.kill();
    let owned: BTreeSet<String> = server.owned();
    assert_eq!(
        (owned.len(), ec2.machines().len()),
        (requested_types.len(), requested_types.len()),
        "a machine for each claim"
    );
    let all = wire.exchanges("");
    let changes = all.iter().filter(|one| ["CreateFleet", "CreateLaunchTemplate"].contains(&one.action.as_str()));
    Run {
        time,
        changes: changes.filter(|one| one.good).count(),
        fleets: wire.exchanges("CreateFleet").iter().filter(|one| one.good).count(),
        refused: all.iter().filter(|one| one.answered.contains("RequestLimitExceeded")).count(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_are_launched_within_ec2_rate_limits() {
    let full = std::env::var("KERF_PACE_CLAIMS").ok().map(|text| text.parse().unwrap());
    let claims: usize = full.unwrap_or(80);
    let unlike: Vec<Vec<&str>> = requested_types().into_iter().take(claims).map(|types| types.to_vec()).collect();
    assert_eq!(unlike.len(), claims, "there are not so many wishes");
    // A NodeClaim that changes while its token is written joins a later fleet, so equal ones may need a few.
    let like = vec![TYPES.to_vec(); claims];
    for (what, requested_types, fleets) in
        [("unlike", &unlike, claims..=claims), ("like", &like, 1..=claims.div_ceil(20))]
    {
        let run = launch(requested_types).await;
        println!(
            "{claims} {what} claims: {:.1} s, the limits allow {:.1} s for {} changes, {} of them CreateFleet; {} refused",
            run.time.as_secs_f64(),
            run.bound().as_secs_f64(),
            run.changes,
            run.fleets,
            run.refused
        );
        assert!(fleets.contains(&run.fleets), "{} fleets for {what} claims, not {fleets:?}", run.fleets);
        assert!(run.changes - run.fleets <= 10, "{} launch templates", run.changes - run.fleets);
        assert!(run.refused * 20 <= run.changes + 20, "EC2 refused {} calls", run.refused);
        // With a short bound, the work of the machine itself would dominate the measurement.
        if full.is_some() && run.bound() > Duration::from_secs(60) {
            assert!(run.time <= run.bound() * 12 / 10, "{:?} is more than 1.2 times {:?}", run.time, run.bound());
        }
    }
}
