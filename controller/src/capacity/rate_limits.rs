//! Rate limits of calls to EC2, and metrics of their waits and results.

use std::sync::Arc;
use std::time::Duration;

use cloud::guard::Guarded;
use cloud::rate_limiter::{Observer, RateLimiter, RequestQueue, SystemRateClock};
use cloud::{Cloud, ErrorKind};
use daemon::metric::Metrics;

use crate::metrics;

/// Returns a cloud client whose calls respect the rate limits.
#[must_use]
pub fn limited(cloud: Arc<dyn Cloud>, metrics: Arc<Metrics>) -> Arc<dyn Cloud> {
    let limits =
        RateLimiter::new(RequestQueue::default(), Arc::new(SystemRateClock::default()), Arc::new(Watcher(metrics)));
    Arc::new(Guarded::new(cloud, Arc::new(limits)))
}

struct Watcher(Arc<Metrics>);

impl Observer for Watcher {
    fn waited(&self, call: &'static str, time: Duration) {
        self.0.add(&metrics::CLOUD_WAITING, metrics::ByCall { call }, time.as_secs_f64());
    }

    fn ended(&self, call: &'static str, took: Duration, error: Option<ErrorKind>) {
        let outcome = outcome(error);
        self.count(call, took, outcome);
        if error.is_some() {
            self.0.add(
                &metrics::CLOUD_ERRORS,
                metrics::ByControllerMethodProviderError {
                    controller: "",
                    method: call,
                    provider: "aws",
                    error: outcome,
                },
                1.0,
            );
        }
    }

    /// The outcome differs from `unauthorized`, which raises an alert, and the denial is no error.
    fn denied_as_expected(&self, call: &'static str, took: Duration) {
        self.count(call, took, "tags_denied");
    }
}

impl Watcher {
    fn count(&self, call: &'static str, took: Duration, outcome: &'static str) {
        self.0.observe(
            &metrics::CLOUD_DURATION,
            metrics::ByControllerMethodProvider { controller: "", method: call, provider: "aws" },
            took.as_secs_f64(),
        );
        self.0.add(&metrics::CLOUD_CALLS, metrics::ByCallOutcome { call, outcome }, 1.0);
    }
}

fn outcome(error: Option<ErrorKind>) -> &'static str {
    match error {
        None => "ok",
        Some(ErrorKind::Throttled) => "throttled",
        Some(ErrorKind::Unauthorized) => "unauthorized",
        Some(ErrorKind::NotFound | ErrorKind::AlreadyExists) => "known",
        Some(ErrorKind::Server | ErrorKind::Transport) => "no_answer",
        Some(ErrorKind::InsufficientCapacity | ErrorKind::IdempotencyMismatch | ErrorKind::Invalid) => "refused",
    }
}

#[cfg(test)]
mod tests {
    use cloud::fake::{FakeCloud, Fault};
    use cloud::{FleetRequest, RunInstancesProbe, Tags};

    use super::{Arc, Duration, ErrorKind, Metrics, Observer as _, Watcher, limited};
    use crate::metrics;

    /// Rows: tags of the dry run, and the expected outcome of its denial. Karpenter's policies deny our own tags.
    #[tokio::test]
    async fn limited_counts_denied_dry_runs_with_own_tags_apart() {
        let own = Tags::from([(api::annotation::LAUNCH_TOKEN.to_owned(), "t".to_owned())]);
        for (tags, expected, errors) in [(own, "tags_denied", 0), (Tags::new(), "unauthorized", 2)] {
            let (fake, metrics) =
                (FakeCloud::builder("us-west-2").build().unwrap(), Arc::new(Metrics::new(&metrics::table())));
            let cloud = limited(Arc::new(fake.clone()), Arc::clone(&metrics));
            fake.fail("CreateFleet(DryRun)", 1, Fault::unauthorized());
            fake.fail("RunInstances(DryRun)", 1, Fault::unauthorized());
            let fleet = FleetRequest { tags: tags.clone(), ..FleetRequest::default() };
            let run = RunInstancesProbe { tags, ..RunInstancesProbe::default() };
            let denied = [
                cloud.dry_run_create_fleet(&fleet).await.unwrap_err().kind,
                cloud.dry_run_run_instances(&run).await.unwrap_err().kind,
            ];
            assert_eq!(denied, [ErrorKind::Unauthorized; 2], "the caller receives the denial");
            let text = metrics.render();
            for call in ["CreateFleet", "RunInstances"] {
                let line = format!("kerf_cloud_calls_total{{call=\"{call}\",outcome=\"{expected}\"}} 1.0");
                assert!(text.contains(&line), "{line}\n{text}");
            }
            let counted = text.lines().filter(|line| line.starts_with("karpenter_cloudprovider_errors_total{"));
            assert_eq!(counted.count(), errors, "{text}");
        }
    }

    #[test]
    fn watcher_records_waits_calls_and_errors() {
        let metrics = Arc::new(Metrics::new(&metrics::table()));
        let watcher = Watcher(Arc::clone(&metrics));
        watcher.waited("CreateFleet", Duration::from_secs(2));
        watcher.ended("CreateFleet", Duration::from_millis(500), None);
        watcher.ended("CreateFleet", Duration::from_millis(1500), Some(ErrorKind::Throttled));
        let text = metrics.render();
        for line in [
            "kerf_cloud_waiting_seconds_total{call=\"CreateFleet\"} 2.0",
            "kerf_cloud_calls_total{call=\"CreateFleet\",outcome=\"ok\"} 1.0",
            "kerf_cloud_calls_total{call=\"CreateFleet\",outcome=\"throttled\"} 1.0",
            "karpenter_cloudprovider_duration_seconds_sum{controller=\"\",method=\"CreateFleet\",provider=\"aws\"} 2.0",
            "karpenter_cloudprovider_duration_seconds_count{controller=\"\",method=\"CreateFleet\",provider=\"aws\"} 2",
            "karpenter_cloudprovider_errors_total{controller=\"\",method=\"CreateFleet\",provider=\"aws\",error=\"throttled\"} 1.0",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
