//! Each way in which the wire can break, and what it must not do: launch twice, launch unseen, or lie about the kind.

use std::time::Duration;

use aws::{AwsCloud, Settings};
use cloud::{Cloud, CloudError, ErrorKind, Instance};
use http::StatusCode;
use world::ec2wire::Fault;

use super::{Line, launchable, settings};

const LAUNCH: &str = "CreateFleet";

/// How a single attempt at a launch fails under `fault`, and how many instances there are then.
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
async fn faults_become_kinds() {
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
async fn a_slow_answer_is_no_answer() {
    let line = Line::new().await;
    let request = launchable(&line.fake, "slow").await;
    line.wire.order(LAUNCH, 1, Fault::Slow(Duration::from_secs(600)));
    let short = Settings { attempt_timeout: Duration::from_millis(200), ..settings(&line.wire.url()) };
    let error = AwsCloud::connect(&short).await.create_fleet(&request).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Transport, "{error}");
}

#[tokio::test]
async fn nobody_listens() {
    let line = Line::new().await;
    let url = line.wire.url();
    drop(line);
    let error = AwsCloud::connect(&settings(&url)).await.type_offerings().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Transport, "{error}");
    assert!(error.to_string().contains("onnect"), "the message names the cause: {error}");
}

#[tokio::test]
async fn a_lost_reply_launches_once() {
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

/// Its caller tries again under the same token, and knows of each outcome: a refusal afterwards hides no lost reply.
#[tokio::test]
async fn a_launch_is_tried_once_a_call() {
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
async fn the_sdk_tries_questions_again() {
    let line = Line::with_attempts(3).await;
    line.wire.order("DescribeSubnets", 1, Fault::LoseReply);
    line.wire.order("DescribeSubnets", 2, Fault::throttled());
    line.aws.subnets(&cloud::Filter::default()).await.unwrap();
    assert_eq!(line.wire.exchanges("DescribeSubnets").len(), 3);
}

#[tokio::test]
async fn the_sdk_gives_up() {
    let line = Line::with_attempts(2).await;
    for nth in 1..=3 {
        line.wire.order("DescribeSubnets", nth, Fault::throttled());
    }
    let error = line.aws.subnets(&cloud::Filter::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Throttled);
    assert_eq!(line.wire.exchanges("DescribeSubnets").len(), 2, "two attempts, not more");
}

#[tokio::test]
async fn what_no_retry_helps_is_not_retried() {
    let line = Line::with_attempts(3).await;
    line.wire.order("DescribeSubnets", 1, Fault::unauthorized());
    let error = line.aws.subnets(&cloud::Filter::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unauthorized);
    assert_eq!(line.wire.exchanges("DescribeSubnets").len(), 1);
}

/// The client token that the SDK makes up for CreateLaunchTemplate stays the same over its attempts.
#[tokio::test]
async fn a_template_whose_reply_is_lost_is_made_once() {
    let line = Line::with_attempts(2).await;
    let request = cloud::LaunchTemplateRequest { name: "karpenter.k8s.aws/2".to_owned(), ..Default::default() };
    line.wire.order("CreateLaunchTemplate", 1, Fault::LoseReply);
    let made = line.aws.create_launch_template(&request).await.unwrap();
    assert_eq!(made.name, request.name);
    assert_eq!(line.fake.template_names(), [request.name]);
}

/// A page that fails in the middle fails the call: half an answer would look like instances that are gone.
#[tokio::test]
async fn a_broken_page_breaks_the_whole_answer() {
    let line = Line::new().await;
    line.wire.order("DescribeInstanceTypes", 3, Fault::internal_error());
    let error = line.aws.instance_types().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Server);
}

/// What the fake itself calls a transport failure is one at the other end, too.
#[tokio::test]
async fn faults_of_the_fake_cross_the_wire() {
    let line = Line::new().await;
    let request = launchable(&line.fake, "inner").await;
    line.fake.fail(LAUNCH, 1, cloud::fake::Fault::Lost);
    let error = line.aws.create_fleet(&request).await.unwrap_err();
    assert_eq!((error.kind, line.fake.machines().len()), (ErrorKind::Transport, 1));
}
