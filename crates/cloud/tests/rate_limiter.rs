//! Tests of rate limits: a thousand launches take as long as EC2's limits require, and cleanup does not delay urgent calls. The
//! clock is the fake's, so minutes pass instantly.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use cloud::fake::{Clock, FakeCloud, ManualClock};
use cloud::guard::{Guard, Guarded};
use cloud::rate_limiter::{Observer, Rate, RateClock, RateLimiter, RequestQueue};
use cloud::{Cloud, CloudError, ErrorKind, FleetConfig, FleetOverride, FleetRequest, LaunchTemplateRequest, Tags};
use jiff::{SignedDuration, Timestamp};

/// EC2's own token buckets, with a counter of throttled calls.
struct Quota {
    clock: ManualClock,
    buckets: Mutex<BTreeMap<bool, (f64, Timestamp)>>,
    refused: Mutex<u32>,
    /// Action that is throttled regardless of the buckets, and the number of times.
    grudge: Mutex<(&'static str, u32)>,
}

impl Quota {
    fn new(clock: &ManualClock) -> Self {
        let buckets = [(true, (50.0, clock.now())), (false, (100.0, clock.now()))];
        Self {
            clock: clock.clone(),
            buckets: Mutex::new(buckets.into()),
            refused: Mutex::default(),
            grudge: Mutex::default(),
        }
    }

    fn refuses(&self, call: &str) -> bool {
        let mut grudge = self.grudge.lock().unwrap();
        if grudge.0 == call && grudge.1 > 0 {
            grudge.1 -= 1;
            return true;
        }
        let changes = !call.starts_with("Describe");
        let (burst, rate) = if changes { (50.0, 5.0) } else { (100.0, 20.0) };
        let mut buckets = self.buckets.lock().unwrap();
        let (level, at) = buckets.get_mut(&changes).unwrap();
        let now = self.clock.now();
        *level = (*level + now.duration_since(*at).as_secs_f64() * rate).min(burst);
        *at = now;
        // The tolerance covers rounding errors of the test.
        let refused = *level < 0.999_999;
        if !refused {
            *level -= 1.0;
        }
        refused
    }
}

impl Guard for Quota {
    fn before<'a>(&'a self, call: &'static str) -> Pin<Box<dyn Future<Output = Result<(), CloudError>> + Send + 'a>> {
        Box::pin(async move {
            if !self.refuses(call) {
                return Ok(());
            }
            *self.refused.lock().unwrap() += 1;
            let (code, message) = ("RequestLimitExceeded".to_owned(), "Request limit exceeded.".to_owned());
            Err(CloudError { call, kind: ErrorKind::Throttled, code, message })
        })
    }

    fn after(&self, _: &'static str, _: Duration, _: Option<&CloudError>) -> Option<CloudError> {
        None
    }
}

/// The fake's time. When all tasks sleep, time advances to the first wake-up.
struct ManualPace {
    clock: ManualClock,
    start: Timestamp,
    sleepers: Mutex<BTreeMap<(Duration, u64), ()>>,
    came: Mutex<u64>,
}

impl ManualPace {
    fn new(clock: &ManualClock) -> Self {
        Self { clock: clock.clone(), start: clock.now(), sleepers: Mutex::default(), came: Mutex::default() }
    }
}

impl RateClock for ManualPace {
    fn now(&self) -> Duration {
        Duration::try_from(self.clock.now().duration_since(self.start)).unwrap()
    }

    fn sleep<'a>(&'a self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        let id = {
            let mut came = self.came.lock().unwrap();
            *came += 1;
            *came
        };
        let key = (self.now() + time, id);
        let mut yielded = false;
        self.sleepers.lock().unwrap().insert(key, ());
        let bed = Bed { pace: self, key };
        Box::pin(poll_fn(move |context| {
            let first = bed.pace.sleepers.lock().unwrap().keys().next().is_some_and(|first| *first == key);
            let late = self.now() >= key.0;
            if late || (first && yielded) {
                bed.leave();
                let left = key.0.saturating_sub(self.now());
                self.clock.advance(SignedDuration::try_from(left).unwrap());
                return Poll::Ready(());
            }
            yielded = true;
            context.waker().wake_by_ref();
            Poll::Pending
        }))
    }
}

/// A sleeper's entry, which is also removed when another event wakes the sleeper.
struct Bed<'a> {
    pace: &'a ManualPace,
    key: (Duration, u64),
}

impl Bed<'_> {
    fn leave(&self) {
        self.pace.sleepers.lock().unwrap().remove(&self.key);
    }
}

impl Drop for Bed<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

struct NoObserver;

impl Observer for NoObserver {
    fn waited(&self, _: &'static str, _: Duration) {}

    fn ended(&self, _: &'static str, _: Duration, _: Option<ErrorKind>) {}

    fn denied_as_expected(&self, _: &'static str, _: Duration) {}
}

struct Fixture {
    ec2: FakeCloud,
    cloud: Arc<dyn Cloud>,
    quota: Arc<Quota>,
    pace: Arc<ManualPace>,
}

async fn fixture(line: RequestQueue) -> Fixture {
    let clock = ManualClock::default();
    let ec2 = FakeCloud::builder("us-west-2").only_types(&["m5.large"]).clock(clock.clone()).build().unwrap();
    let (quota, pace) = (Arc::new(Quota::new(&clock)), Arc::new(ManualPace::new(&clock)));
    let limited = Guarded::new(Arc::new(ec2.clone()), Arc::clone(&quota));
    let limits = RateLimiter::new(line, Arc::clone(&pace) as Arc<dyn RateClock>, Arc::new(NoObserver));
    let cloud: Arc<dyn Cloud> = Arc::new(Guarded::new(Arc::new(limited), Arc::new(limits)));
    let image = ec2.images(&cloud::Filter::default()).await.unwrap().remove(0);
    let template =
        LaunchTemplateRequest { name: "template".to_owned(), image_id: image.id, ..LaunchTemplateRequest::default() };
    ec2.create_launch_template(&template).await.unwrap();
    Fixture { ec2, cloud, quota, pace }
}

fn fleet(fixture: &Fixture, number: u64) -> FleetRequest {
    let subnet = fixture.ec2.subnet("subnet-00000000000000001").unwrap();
    let choice = FleetOverride {
        instance_type: "m5.large".to_owned(),
        zone: subnet.zone,
        subnet_id: subnet.id,
        ..FleetOverride::default()
    };
    FleetRequest {
        client_token: format!("launch-{number}"),
        target: 1,
        capacity_type: "on-demand".to_owned(),
        configs: vec![FleetConfig { launch_template: "template".to_owned(), overrides: vec![choice] }],
        ..FleetRequest::default()
    }
}

/// Returns the minimum duration of so many calls under EC2's limit on write calls.
fn best(calls: u64) -> Duration {
    Duration::from_millis(calls.saturating_sub(50) * 200)
}

/// A thousand NodeClaims with different choices, so that no call is shared.
#[tokio::test]
async fn rate_limiter_launches_1000_nodes_at_the_ec2_limit() {
    let fixture = fixture(RequestQueue::default()).await;
    for number in 0..1000 {
        fixture.cloud.create_fleet(&fleet(&fixture, number)).await.unwrap();
    }
    let took = fixture.pace.now();
    println!("1,000 launches in {took:?} of EC2's time; its limits allow {:?}", best(1000));
    assert!(took <= best(1000) * 12 / 10, "{took:?}");
    assert_eq!(*fixture.quota.refused.lock().unwrap(), 0, "EC2 had no reason to complain");
    assert_eq!(fixture.ec2.machines().len(), 1000);
}

/// Hundreds of tags and reads enter the queue first; launches and terminations overtake them.
#[tokio::test]
async fn rate_limiter_prefers_launches_when_tags_are_pending() {
    let fixture = fixture(RequestQueue::default()).await;
    let first = fixture.cloud.create_fleet(&fleet(&fixture, 0)).await.unwrap().instances.remove(0).id;
    let ids = [first];
    let tags = Tags::from([("a".to_owned(), "b".to_owned())]);
    let tag = async || {
        fixture.cloud.create_tags(&ids, &tags).await.unwrap();
        Duration::ZERO
    };
    let ask = async || {
        fixture.cloud.launch_templates(&tags).await.unwrap();
        Duration::ZERO
    };
    let launch = async |number| {
        fixture.cloud.create_fleet(&fleet(&fixture, number)).await.unwrap();
        fixture.pace.now()
    };
    let mut calls: Vec<Pin<Box<dyn Future<Output = Duration> + '_>>> = Vec::new();
    for number in 1..=100 {
        calls.push(Box::pin(tag()));
        calls.push(Box::pin(ask()));
        calls.push(Box::pin(launch(number)));
    }
    let launched = futures::future::join_all(calls).await.into_iter().max().unwrap();
    let whole = fixture.pace.now();
    println!("100 launches among 100 tags and 100 questions: launched after {launched:?}, all done after {whole:?}");
    // Calls before the bucket was empty kept their order.
    assert!(launched <= best(100 + 50) * 12 / 10, "{launched:?}");
    assert!(whole <= best(201) * 12 / 10, "{whole:?}");
    assert_eq!(*fixture.quota.refused.lock().unwrap(), 0);
}

/// Another program uses the account's limits too: EC2 throttles, Kerf slows down and recovers.
#[tokio::test]
async fn rate_limiter_slows_down_when_ec2_throttles() {
    let generous = Rate { burst: 200, per_second: 20 };
    let fixture = fixture(RequestQueue::new(generous, generous)).await;
    let mut failed = 0;
    for number in 0..300 {
        while fixture.cloud.create_fleet(&fleet(&fixture, number)).await.is_err() {
            failed += 1;
        }
    }
    println!("300 launches with limits four times too high: {failed} refusals, {:?}", fixture.pace.now());
    assert!(failed < 100, "{failed} refusals");
    assert!(fixture.pace.now() <= best(300) * 3 / 2, "{:?}", fixture.pace.now());
    *fixture.quota.grudge.lock().unwrap() = ("DescribeInstances", 3);
    let unknown = ["i-1".to_owned()];
    for _ in 0..3 {
        assert!(fixture.cloud.instances_by_id(&unknown).await.is_err());
    }
    assert!(fixture.cloud.instances_by_id(&unknown).await.unwrap().is_empty());
}

/// Concurrent terminations share one call, and an unknown id does not affect the others.
#[tokio::test]
async fn terminate_batcher_shares_calls_when_ids_are_concurrent() {
    let fixture = fixture(RequestQueue::default()).await;
    let mut request = fleet(&fixture, 0);
    request.target = 30;
    let ids: Vec<String> =
        fixture.cloud.create_fleet(&request).await.unwrap().instances.into_iter().map(|one| one.id).collect();
    let ends = cloud::batcher::TerminateBatcher::new(Arc::clone(&fixture.cloud));
    let answers = futures::future::join_all(ids[..20].iter().map(|id| ends.end(id))).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert!(fixture.ec2.count("TerminateInstances") <= 2, "{} calls", fixture.ec2.count("TerminateInstances"));
    let some: Vec<&str> = ids[20..].iter().map(String::as_str).chain(["i-unknown"]).collect();
    let answers = futures::future::join_all(some.iter().map(|id| ends.end(id))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 10, "{answers:?}");
    assert_eq!(answers[10].as_ref().unwrap_err().kind, ErrorKind::NotFound);
    assert!(fixture.ec2.machines().iter().all(|machine| machine.instance.is_ending()));
    fixture.ec2.fail("TerminateInstances", 1, cloud::fake::Fault::Lost);
    let answers = futures::future::join_all(ids[..3].iter().map(|id| ends.end(id))).await;
    assert!(answers.iter().any(Result::is_err), "an unknown outcome is reported");
}

/// A thousand concurrent requests need only as many calls as their ids require, at the rate of reads. An unknown instance does
/// not affect the others.
#[tokio::test]
async fn describe_batcher_shares_calls_when_ids_are_concurrent() {
    let fixture = fixture(RequestQueue::default()).await;
    let mut request = fleet(&fixture, 0);
    request.target = 999;
    let launched = fixture.cloud.create_fleet(&request).await.unwrap().instances;
    let ids: Vec<&str> = launched.iter().map(|one| one.id.as_str()).chain(["i-unknown"]).collect();
    let lookups = cloud::batcher::DescribeBatcher::new(Arc::clone(&fixture.cloud));
    for round in 1..=30 {
        let answers = futures::future::join_all(ids.iter().map(|id| lookups.instance(id))).await;
        for (id, answer) in ids.iter().zip(answers) {
            let found = answer.unwrap().map(|instance| instance.id);
            assert_eq!(found.as_deref(), Some(*id).filter(|id| *id != "i-unknown"));
        }
        assert_eq!(fixture.ec2.count("DescribeInstances"), round * 5, "200 ids a call");
    }
    assert_eq!(*fixture.quota.refused.lock().unwrap(), 0);
    // 150 calls: 100 at once, the rest at 20 per second.
    assert!(fixture.pace.now() <= Duration::from_millis(50 * 50 * 12 / 10), "{:?}", fixture.pace.now());
    fixture.ec2.fail("DescribeInstances", 1, cloud::fake::Fault::Lost);
    let answers = futures::future::join_all(ids[..3].iter().map(|id| lookups.instance(id))).await;
    assert!(answers.iter().all(Result::is_err), "the outcome is unknown without an answer: {answers:?}");
}
