//! Calls to EC2 go out at its pace; what that costs is measured here.

use std::sync::Arc;
use std::time::Duration;

use cloud::guard::Guarded;
use cloud::limit::{Limits, Line, Observer, RealPace};
use cloud::{Cloud, Kind};
use daemon::metric::Metrics;

use crate::metrics;

/// A cloud whose calls wait their turn.
#[must_use]
pub fn limited(cloud: Arc<dyn Cloud>, metrics: Arc<Metrics>) -> Arc<dyn Cloud> {
    let limits = Limits::new(Line::default(), Arc::new(RealPace::default()), Arc::new(Watcher(metrics)));
    Arc::new(Guarded::new(cloud, Arc::new(limits)))
}

struct Watcher(Arc<Metrics>);

impl Observer for Watcher {
    fn waited(&self, call: &'static str, time: Duration) {
        self.0.add(&metrics::CLOUD_WAITING, &[call], time.as_secs_f64());
    }

    fn ended(&self, call: &'static str, error: Option<Kind>) {
        let outcome = outcome(error);
        self.0.add(&metrics::CLOUD_CALLS, &[call, outcome], 1.0);
        if error.is_some() {
            self.0.add(&metrics::CLOUD_ERRORS, &["", call, "aws", outcome], 1.0);
        }
    }
}

fn outcome(error: Option<Kind>) -> &'static str {
    match error {
        None => "ok",
        Some(Kind::Throttled) => "throttled",
        Some(Kind::Unauthorized) => "unauthorized",
        Some(Kind::NotFound | Kind::AlreadyExists) => "known",
        Some(Kind::Server | Kind::Transport) => "no_answer",
        Some(Kind::InsufficientCapacity | Kind::IdempotencyMismatch | Kind::Invalid) => "refused",
    }
}
