//! The interruption queue of the account. A message of EventBridge replaces an instance once, regardless of duplicates and
//! senders. Irrelevant messages are deleted, and a missing queue has no effect on the controller.

use std::time::Duration;

use anyhow::{Result, ensure};
use api::{label, reason};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};
use testbed::ec2wire::Fault;
use testbed::eventually;

use super::fixture::{Fixture, LIMIT, QUEUE, instance_of, run};

/// Involved object of events about the controller.
const LEASE: &str = "karpenter-leader-election";

/// Spot instance with a pod that requires spot.
struct Interrupted {
    node: String,
    claim: String,
    instance: String,
}

impl Interrupted {
    async fn settled(fixture: &Fixture, app: &str) -> Result<Self> {
        fixture.pod(app, "1", json!({label::CAPACITY_TYPE: label::CAPACITY_SPOT})).await?;
        let node = fixture.runs(app).await?;
        let (claim, instance) = fixture.settled_claim().await?;
        Ok(Self { node, claim: claim.name_any(), instance })
    }

    fn warning(&self) -> String {
        let detail = json!({"instance-id": self.instance, "instance-action": "terminate"});
        envelope("aws.ec2", "EC2 Spot Instance Interruption Warning", &detail)
    }

    /// Asserts that the instance is terminated, the pod runs on another one, and exactly one replacement was launched.
    async fn is_replaced_once(&self, fixture: &Fixture, app: &str) -> Result<()> {
        eventually("the pod to run on another machine", LIMIT, async || {
            let node = fixture.runs(app).await?;
            ensure!(node != self.node, "it is still on {node}");
            let claim = fixture.only_claim().await?;
            ensure!(claim.name_any() != self.claim, "claim {} is still there", self.claim);
            let is_running = fixture.running_instances().iter().any(|machine| machine.instance.id == self.instance);
            ensure!(!is_running, "instance {} lives", self.instance);
            Ok(Some(()))
        })
        .await?;
        let launched: Vec<String> = fixture.launched().into_iter().map(|machine| machine.instance.id).collect();
        ensure!(launched.len() == 2, "one machine and its replacement: {launched:?}");
        fixture.one_instance_each().await
    }
}

fn envelope(source: &str, kind: &str, detail: &Value) -> String {
    json!({
        "version": "0", "id": "00000000-0000-0000-0000-000000000001", "source": source, "detail-type": kind,
        "account": "123456789012", "region": "us-west-2", "time": Timestamp::now().to_string(), "resources": [],
        "detail": detail,
    })
    .to_string()
}

async fn is_empty(fixture: &Fixture) -> Result<()> {
    eventually("every message to be deleted", LIMIT, async || {
        let left = fixture.environment.ec2.queue_length(QUEUE);
        ensure!(left == 0, "{left} messages are left");
        Ok(Some(()))
    })
    .await
}

fn send(fixture: &Fixture, body: &str) -> Result<()> {
    ensure!(fixture.environment.ec2.send(QUEUE, body), "there is no queue {QUEUE}");
    Ok(())
}

#[test]
fn queue_message_replaces_instance_once() {
    run(async |fixture| {
        fixture.environment.ec2.create_queue(QUEUE);
        let interrupted = Interrupted::settled(fixture, "queued").await?;
        send(fixture, &interrupted.warning())?;
        fixture.wait_for_event(&interrupted.claim, reason::SPOT_INTERRUPTED, "spot interruption warning").await?;
        interrupted.is_replaced_once(fixture, "queued").await?;
        is_empty(fixture).await
    });
}

/// The agent receives the notice from the metadata service, the controller twice from the queue.
#[test]
fn duplicate_notices_replace_instance_once() {
    run(async |fixture| {
        fixture.environment.ec2.create_queue(QUEUE);
        let interrupted = Interrupted::settled(fixture, "echoed").await?;
        let deadline = Timestamp::now() + Duration::from_secs(120);
        ensure!(
            fixture.environment.ec2.interrupt(&interrupted.instance, deadline),
            "EC2 does not know {}",
            interrupted.instance
        );
        send(fixture, &interrupted.warning())?;
        send(fixture, &interrupted.warning())?;
        interrupted.is_replaced_once(fixture, "echoed").await?;
        is_empty(fixture).await
    });
}

/// Garbage, an instance of another account, another service, and an instance that starts: no message has an effect.
#[test]
fn queue_deletes_irrelevant_messages() {
    run(async |fixture| {
        fixture.environment.ec2.create_queue(QUEUE);
        fixture.pod("calm", "1", json!({})).await?;
        let node = fixture.runs("calm").await?;
        let claim = fixture.only_claim().await?;
        let own = instance_of(&claim)?;
        let starts = json!({"instance-id": own, "state": "running"});
        let foreign = json!({"instance-id": "i-0123456789abcdef0", "instance-action": "terminate"});
        for body in [
            "no JSON at all".to_owned(),
            String::new(),
            envelope("aws.ec2", "EC2 Spot Instance Interruption Warning", &json!({"instance-id": 7})),
            envelope("aws.ec2", "EC2 Spot Instance Interruption Warning", &foreign),
            envelope("aws.ec2", "EC2 Instance State-change Notification", &starts),
            envelope("aws.s3", "Object Created", &json!({"bucket": {"name": "any"}})),
        ] {
            send(fixture, &body)?;
        }
        is_empty(fixture).await?;
        ensure!(fixture.runs("calm").await? == node && fixture.only_claim().await?.name_any() == claim.name_any());
        fixture.one_instance_each().await
    });
}

/// Every receiver lacks a permission: one event names the permission, and the receivers retry until they have it.
#[test]
fn queue_receiver_retries_when_access_is_denied() {
    run(async |fixture| {
        fixture.environment.ec2.create_queue(QUEUE);
        fixture.environment.wire.order_next("ReceiveMessage", vec![Fault::access_denied(); 4]);
        eventually("an event with the cure", LIMIT, async || {
            let reported = fixture.events_on(LEASE).await?;
            ensure!(reported.iter().any(|message| message.contains("allow sqs:GetQueueUrl")), "only {reported:?}");
            Ok(Some(()))
        })
        .await?;
        eventually("every receiver to be refused", LIMIT, async || {
            Ok((fixture.environment.wire.waiting_faults() == 0).then_some(()))
        })
        .await?;
        send(fixture, "whatever comes after")?;
        is_empty(fixture).await?;
        fixture.environment.ensure_controller_runs()
    });
}

/// The queue is deleted while the controller receives messages, and created again.
#[test]
fn queue_receiver_recovers_when_queue_was_deleted() {
    run(async |fixture| {
        fixture.environment.ec2.remove_queue(QUEUE);
        fixture.pod("unheard", "1", json!({})).await?;
        fixture.runs("unheard").await?;
        fixture.environment.ensure_controller_runs()?;
        // An earlier test may have emitted the event: equal events are suppressed for a while.
        eventually("an event with the cure", LIMIT, async || {
            let reported = fixture.events_on(LEASE).await?;
            ensure!(reported.iter().any(|message| message.contains("unset INTERRUPTION_QUEUE")), "only {reported:?}");
            Ok(Some(()))
        })
        .await?;
        fixture.environment.ec2.create_queue(QUEUE);
        send(fixture, "whatever came first")?;
        is_empty(fixture).await
    });
}
