//! Tests of zonal shifts: from ARC's answer to offerings, events, metrics and a plan.

use cloud::fake::{FakeCloud, Fault};
use http::{Request, Response};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use planner::Catalogue;
use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, unbounded_channel};

use super::{
    Arc, CloudError, EVERY, ErrorKind, Event, Metrics, PeriodicTask, TaskContext, ZonalShift, ZonalShifts, hint,
    metrics, reason,
};
use crate::fixture;
use crate::lease::Leading;
use crate::provision::batcher::PlanTrigger;
use crate::state::cluster::Cluster;
use crate::write::events::EventRecorder;
use crate::write::writer::{Clients, Writer};

fn now() -> Timestamp {
    fixture::at(60)
}

/// Cluster `kerf` with the NodePools `default` and `pinned` (zone us-west-2b), and the task that follows its zonal shifts.
struct Run {
    fake: FakeCloud,
    context: TaskContext,
    task: ZonalShifts,
    metrics: Arc<Metrics>,
    plans: UnboundedReceiver<PlanTrigger>,
    events: Receiver<Event>,
}

fn pinned() -> Value {
    let only = json!([{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-west-2b"]}]);
    json!({"metadata": {"name": "pinned", "uid": "pinned"}, "spec": {"template": {"spec": {"requirements": only}}}})
}

impl Run {
    async fn new() -> Self {
        let fake = FakeCloud::builder("us-west-2").only_types(&["m5.large"]).build().unwrap();
        let offerings = Arc::new(fixture::offerings(&fake).await.with_zonal_shift(true));
        let class = fixture::class(&fixture::discovered());
        let resolution = fixture::resolution(&class, &offerings).await;
        let subnets = resolution.class.subnets.iter();
        let status: Vec<Value> =
            subnets.map(|one| json!({"id": one.id, "zone": one.zone, "zoneID": one.zone_id})).collect();
        let shown = fixture::class(&json!({"status": {"subnets": status}}));
        offerings.learn(&class, resolution.class).unwrap();
        let (plan, plans) = unbounded_channel();
        let (notes, events) = EventRecorder::new();
        let cluster = Cluster::with_clock(plan, notes, now);
        cluster.change(|index| index.apply(shown.as_ref().clone(), now(), false));
        for change in [json!({}), pinned()] {
            cluster.change(|index| index.apply(fixture::pool(&change).as_ref().clone(), now(), false));
        }
        let silent =
            tower::service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, http::Error>>());
        let client = Client::new(silent, "default");
        let clients = Clients { general: client.clone(), eviction: client };
        let metrics = Arc::new(Metrics::new(&metrics::table()));
        let leading = Leading::without_election();
        let writer = Writer::new(clients, Arc::new(fake.clone()), Arc::clone(&cluster), Arc::clone(&metrics), leading);
        let task = ZonalShifts::new("kerf", Arc::clone(&metrics));
        Self {
            fake,
            context: TaskContext { cluster, offerings, writer, metrics: Arc::clone(&metrics) },
            task,
            metrics,
            plans,
            events,
        }
    }

    async fn step(&mut self) {
        assert_eq!(self.task.run(&self.context).await.unwrap(), EVERY);
    }

    fn catalogue(&self) -> Option<Arc<Catalogue>> {
        self.context.offerings.catalogue("default", now())
    }

    /// Returns the zones of the available offerings.
    fn zones(&self) -> Vec<String> {
        let catalogue = self.catalogue().unwrap();
        let offerings = catalogue.types.iter().flat_map(|kind| &kind.offerings).filter(|offering| offering.available);
        let mut zones: Vec<String> = offerings.map(|offering| offering.zone.clone()).collect();
        zones.sort();
        zones.dedup();
        zones
    }

    /// Returns reason, object and message of the events since the last call, and whether a plan was requested.
    fn reports(&mut self) -> (Vec<(&'static str, String, String)>, bool) {
        let mut events = Vec::new();
        while let Ok(event) = self.events.try_recv() {
            events.push((event.reason(), format!("{:?}", event.object()), event.message().to_owned()));
        }
        let mut planned = false;
        while let Ok(trigger) = self.plans.try_recv() {
            planned |= matches!(trigger, PlanTrigger::New(id) if id == "zonal shift");
        }
        (events, planned)
    }
}

fn shift(zone_id: &str) -> ZonalShift {
    ZonalShift { zone_id: zone_id.to_owned(), expires: None, applied: true }
}

#[tokio::test]
async fn run_excludes_offerings_while_a_shift_is_applied() {
    let mut run = Run::new().await;
    run.step().await;
    let all = run.zones();
    assert!(all.len() > 1 && all[0] == "us-west-2a", "{all:?}");
    assert_eq!(run.reports(), (vec![], false));

    run.fake
        .set_zonal_shifts("kerf", Some(vec![shift("usw2-az1"), ZonalShift { applied: false, ..shift("usw2-az2") }]));
    run.step().await;
    assert_eq!(run.zones(), all[1..]);
    assert_eq!(Vec::from_iter(&run.catalogue().unwrap().shifted_zones), ["us-west-2a"]);
    let (events, planned) = run.reports();
    let [(reason, object, message)] = &events[..] else { panic!("the other pool cannot use the zone: {events:?}") };
    assert!(*reason == reason::ZONAL_SHIFT_ACTIVE && object.contains("default") && planned, "{object}");
    assert!(message.starts_with("a zonal shift excludes zone us-west-2a (usw2-az1)"), "{message}");
    assert!(run.metrics.render().contains("kerf_zonal_shift_active{zone_id=\"usw2-az1\"} 1.0"));

    run.fake.fail("GetManagedResource", 1, Fault::server());
    run.step().await;
    assert_eq!((run.zones(), run.reports()), (all[1..].to_vec(), (vec![], false)), "a failed call changes nothing");

    run.fake.set_zonal_shifts("kerf", Some(vec![]));
    run.step().await;
    assert_eq!(run.zones(), all);
    let (events, planned) = run.reports();
    assert!(events.len() == 1 && events[0].0 == reason::ZONAL_SHIFT_CLEARED && planned, "{events:?}");
    assert!(!run.metrics.render().contains("kerf_zonal_shift_active{"));
    assert_eq!(run.fake.count("DescribeCluster"), 1);
}

/// A cluster that is not registered with ARC does not stop the controller.
#[tokio::test]
async fn run_lets_plans_begin_after_the_first_answer() {
    let mut run = Run::new().await;
    assert!(run.catalogue().is_none(), "zonal shifts are unknown");
    run.fake.set_zonal_shifts("kerf", None);
    run.step().await;
    assert!(run.catalogue().is_some());
}

#[test]
fn hint_names_the_setting_or_permission() {
    let error = |call, kind| CloudError { call, kind, code: String::new(), message: String::new() };
    let rows = [
        ("GetManagedResource", ErrorKind::NotFound, "enable zonal shift"),
        ("GetManagedResource", ErrorKind::Unauthorized, "allow arc-zonal-shift:GetManagedResource"),
        ("DescribeCluster", ErrorKind::Unauthorized, "allow eks:DescribeCluster"),
    ];
    for (call, kind, expected) in rows {
        assert!(hint(&error(call, kind)).starts_with(expected), "{call} {kind:?}");
    }
    assert_eq!(hint(&error("GetManagedResource", ErrorKind::Throttled)), "");
}
