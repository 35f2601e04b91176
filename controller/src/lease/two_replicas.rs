//! Two replicas compete for one lease on a paused clock, with slow, failing and lost requests. They never lead at the same time.

use std::convert::Infallible;
use std::sync::Arc;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep};
use tower::service_fn;

use super::{Candidate, Leading, LeaseName};

const SEEDS: u64 = 100;
/// Time with trouble, and then without.
const TROUBLE: Duration = Duration::from_secs(600);
const CALM: Duration = Duration::from_secs(60);
const SAMPLE: Duration = Duration::from_millis(50);
/// Least time between the leadership of one replica and of the other.
const GAP: Duration = Duration::from_secs(1);

/// Numbers from a seed (xorshift).
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// API server with one lease.
struct Server {
    lease: Value,
    version: u64,
    trouble: bool,
    draw: Draw,
}

/// Delays and loss of one request.
struct Path {
    there: Duration,
    back: Duration,
    answer: Answer,
}

enum Answer {
    Arrives,
    Fails,
    Lost,
}

impl Server {
    fn path(&mut self) -> Path {
        let draw = &mut self.draw;
        let mut delay = |trouble| Duration::from_millis(if trouble { draw.below(12_000) } else { draw.below(50) });
        let slow = self.trouble;
        let (there, back) = (delay(slow), delay(slow));
        let answer = match draw.below(4) {
            0 if slow => Answer::Lost,
            1 if slow => Answer::Fails,
            _ => Answer::Arrives,
        };
        // Most requests are quick also in trouble, so that leadership changes hands often.
        let quick = draw.below(3) > 0;
        if quick { Path { there: there / 100, back: back / 100, answer } } else { Path { there, back, answer } }
    }

    fn handle(&mut self, method: &Method, body: &[u8]) -> (u16, Value) {
        if *method == Method::GET {
            return if self.lease.is_null() { refusal(404, "NotFound") } else { (200, self.lease.clone()) };
        }
        let mut sent: Value = serde_json::from_slice(body).unwrap();
        let known = &self.lease["metadata"]["resourceVersion"];
        if (*method == Method::POST) != self.lease.is_null() || sent["metadata"]["resourceVersion"] != *known {
            return refusal(409, "Conflict");
        }
        self.version += 1;
        sent["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.lease = sent;
        (200, self.lease.clone())
    }
}

fn refusal(code: u16, reason: &str) -> (u16, Value) {
    (
        code,
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": reason, "code": code}),
    )
}

async fn respond(server: Arc<Mutex<Server>>, request: Request<Body>) -> Response<Body> {
    let path = server.lock().path();
    let method = request.method().clone();
    let body = request.into_body().collect_bytes().await.unwrap();
    // A request that is under way arrives also if the client has given up.
    let handled = tokio::spawn(async move {
        sleep(path.there).await;
        server.lock().handle(&method, &body)
    });
    let (code, body) = handled.await.unwrap();
    sleep(path.back).await;
    let (code, body) = match path.answer {
        Answer::Arrives => (code, body),
        Answer::Fails => refusal(500, "InternalError"),
        Answer::Lost => std::future::pending().await,
    };
    Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap()
}

fn replica(server: &Arc<Mutex<Server>>, name: &str, tasks: &mut JoinSet<()>) -> Leading {
    let leading = Leading::not_yet();
    let (server, name, held) = (Arc::clone(server), name.to_owned(), leading.clone());
    tasks.spawn(async move {
        for life in 0.. {
            let server = Arc::clone(&server);
            let connect = move || {
                let server = Arc::clone(&server);
                let service = service_fn(move |request| {
                    let answer = respond(Arc::clone(&server), request);
                    async move { Ok::<_, Infallible>(answer.await) }
                });
                Ok(Client::new(service, "default"))
            };
            let lease = LeaseName { namespace: "kube-system".to_owned(), name: "leader".to_owned() };
            Candidate::new(Box::new(connect), lease, format!("{name}-{life}")).lead(&held, || {}).await;
        }
    });
    leading
}

/// Observes both replicas for a time, and returns the number of changes of the leader.
async fn observe(seed: u64, replicas: &[Leading; 2], time: Duration, last: &mut Option<(usize, Instant)>) -> usize {
    let (end, mut changes) = (Instant::now() + time, 0);
    while Instant::now() < end {
        sleep(SAMPLE).await;
        let now = Instant::now();
        for leader in (0..2).filter(|replica| replicas[*replica].is_held()) {
            if let Some((former, held)) = *last
                && former != leader
            {
                assert!(now - held >= GAP, "seed {seed}: both replicas lead within {:?}", now - held);
                changes += 1;
            }
            *last = Some((leader, now));
        }
    }
    changes
}

#[tokio::test(start_paused = true)]
async fn lead_is_never_held_by_two_replicas_within_a_second() {
    let mut changes = 0;
    for seed in 1..=SEEDS {
        let draw = Draw(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let server = Arc::new(Mutex::new(Server { lease: Value::Null, version: 0, trouble: true, draw }));
        let mut tasks = JoinSet::new();
        let replicas = ["a", "b"].map(|name| replica(&server, name, &mut tasks));
        let mut last = None;
        changes += observe(seed, &replicas, TROUBLE, &mut last).await;
        server.lock().trouble = false;
        observe(seed, &replicas, CALM, &mut last).await;
        assert!(replicas.iter().any(Leading::is_held), "seed {seed}: no replica leads without trouble");
    }
    assert!(changes > SEEDS as usize, "the leader changed only {changes} times");
}
