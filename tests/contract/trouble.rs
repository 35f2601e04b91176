//! Every fault of the wire. No fault may launch twice, launch without a record, or return the wrong kind of error.

use std::time::Duration;

use aws::{AwsCloud, Settings};
use cloud::{Cloud, CloudError, ErrorKind, Instance};
use http::StatusCode;
use testbed::ec2wire::Fault;

use super::{Line, launchable, settings};

const LAUNCH: &str = "CreateFleet";

/// Returns the error of a single launch attempt under `fault`, and the number of instances afterwards.
async fn launch_under(fault: Fault) -> (CloudError, usize) {
    let line = Line::new().await;
    let request = launchable(&line.fake, "trouble").await;
    line.wire.order(LAUNCH, 1, fault.clone());
    let error = line.aws.create_fleet(&request).await.unwrap_err();
    assert_eq!(line.wire.waiting_faults(), 0, "{fault:?} struck");
    assert_eq!(error.call, LAUNCH);
    (error, line.fake.machines().len())
}

#[tokio::test]
async fn create_fleet_maps_each_fault_to_its_error_kind() {
    let rows = [
        (Fault::throttled(), ErrorKind::Throttled, "RequestLimitExceeded", 0),
        (Fault::unauthorized(), ErrorKind::Unauthorized, "UnauthorizedOperation", 0),
        (Fault::internal_error(), ErrorKind::Server, "InternalError", 0),
        (Fault::Garble(StatusCode::BAD_GATEWAY), ErrorKind::Server, "", 0),
        (Fault::Drop, ErrorKind::Transport, "", 0),
        (Fault::LoseReply, ErrorKind::Transport, "", 1),
    ];
    for (fault, kind, code, launched) in rows {
        let (error, machines) = launch_under(fault.clone()).await;
        assert_eq!((error.kind, error.code.as_str(), machines), (kind, code, launched), "{fault:?}: {error}");
        assert!(!error.message.is_empty(), "{fault:?}");
        assert_eq!(error.outcome_unknown(), matches!(kind, ErrorKind::Server | ErrorKind::Transport));
    }
}

#[tokio::test]
async fn create_fleet_returns_transport_error_on_timeout() {
    let line = Line::new().await;
    let request = launchable(&line.fake, "slow").await;
    line.wire.order(LAUNCH, 1, Fault::Slow(Duration::from_secs(600)));
    let short = Settings { attempt_timeout: Duration::from_millis(200), ..settings(&line.wire.url()) };
    let error = AwsCloud::connect(&short).await.create_fleet(&request).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Transport, "{error}");
}

#[tokio::test]
async fn call_returns_transport_error_when_connection_is_refused() {
    let line = Line::new().await;
    let url = line.wire.url();
    drop(line);
    let error = AwsCloud::connect(&settings(&url)).await.type_offerings().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Transport, "{error}");
    assert!(error.to_string().contains("onnect"), "the message names the cause: {error}");
}

#[tokio::test]
async fn create_fleet_launches_once_when_reply_is_lost() {
    let line = Line::new().await;
    let request = launchable(&line.fake, "lost").await;
    line.wire.order(LAUNCH, 1, Fault::LoseReply);
    let error = line.aws.create_fleet(&request).await.unwrap_err();
    assert!(error.outcome_unknown(), "{error}");
    let found: Vec<Instance> = line.aws.instances(&request.tags).await.unwrap();
    assert_eq!(found.len(), 1, "it can be found by its tags");
    let answer = line.aws.create_fleet(&request).await.unwrap();
    let ids: Vec<_> = answer.instances.iter().map(|instance| instance.id.as_str()).collect();
    assert_eq!(ids, [found[0].id.as_str()], "the same token gives the same instance");
    assert_eq!(line.fake.machines().len(), 1);
}

/// The caller retries with the same token and must see each outcome: a later refusal must not hide a lost reply.
#[tokio::test]
async fn create_fleet_makes_one_attempt_per_call() {
    let line = Line::with_attempts(3).await;
    let request = launchable(&line.fake, "again").await;
    line.wire.order(LAUNCH, 1, Fault::LoseReply);
    line.wire.order(LAUNCH, 2, Fault::unauthorized());
    let lost = line.aws.create_fleet(&request).await.unwrap_err();
    assert!(lost.outcome_unknown(), "{lost}");
    assert_eq!(line.wire.exchanges(LAUNCH).len(), 1);
    let refused = line.aws.create_fleet(&request).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unauthorized);
    let answer = line.aws.create_fleet(&request).await.unwrap();
    assert_eq!((answer.instances.len(), line.fake.machines().len()), (1, 1));
}

#[tokio::test]
async fn describe_call_is_retried_by_the_sdk() {
    let line = Line::with_attempts(3).await;
    line.wire.order("DescribeSubnets", 1, Fault::LoseReply);
    line.wire.order("DescribeSubnets", 2, Fault::throttled());
    line.aws.subnets(&cloud::Filter::default()).await.unwrap();
    assert_eq!(line.wire.exchanges("DescribeSubnets").len(), 3);
}

#[tokio::test]
async fn describe_call_fails_after_the_last_attempt() {
    let line = Line::with_attempts(2).await;
    for nth in 1..=3 {
        line.wire.order("DescribeSubnets", nth, Fault::throttled());
    }
    let error = line.aws.subnets(&cloud::Filter::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Throttled);
    assert_eq!(line.wire.exchanges("DescribeSubnets").len(), 2, "two attempts, not more");
}

#[tokio::test]
async fn describe_call_is_not_retried_when_unauthorized() {
    let line = Line::with_attempts(3).await;
    line.wire.order("DescribeSubnets", 1, Fault::unauthorized());
    let error = line.aws.subnets(&cloud::Filter::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unauthorized);
    assert_eq!(line.wire.exchanges("DescribeSubnets").len(), 1);
}

/// The client token that the SDK generates for CreateLaunchTemplate is the same in all attempts.
#[tokio::test]
async fn create_launch_template_creates_once_when_reply_is_lost() {
    let line = Line::with_attempts(2).await;
    let request = cloud::LaunchTemplateRequest { name: "karpenter.k8s.aws/2".to_owned(), ..Default::default() };
    line.wire.order("CreateLaunchTemplate", 1, Fault::LoseReply);
    let made = line.aws.create_launch_template(&request).await.unwrap();
    assert_eq!(made.name, request.name);
    assert_eq!(line.fake.template_names(), [request.name]);
}

/// An error on any page fails the whole call: with half a result, existing instances would seem to be terminated.
#[tokio::test]
async fn instance_types_fails_when_one_page_fails() {
    let line = Line::new().await;
    line.wire.order("DescribeInstanceTypes", 3, Fault::internal_error());
    let error = line.aws.instance_types().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Server);
}

/// A transport error of the fake is also a transport error for the client of the wire.
#[tokio::test]
async fn fake_fault_returns_transport_error_over_the_wire() {
    let line = Line::new().await;
    let request = launchable(&line.fake, "inner").await;
    line.fake.fail(LAUNCH, 1, cloud::fake::Fault::Lost);
    let error = line.aws.create_fleet(&request).await.unwrap_err();
    assert_eq!((error.kind, line.fake.machines().len()), (ErrorKind::Transport, 1));
}
