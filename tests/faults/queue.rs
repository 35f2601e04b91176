//! The interruption queue of the account. A message of EventBridge replaces an instance once, regardless of duplicates and
//! senders. Irrelevant messages are deleted, and a missing queue has no effect on the controller.

use std::time::Duration;

use anyhow::{Result, ensure};
use api::{label, reason};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};
use world::ec2wire::Fault;
use world::eventually;

use super::scene::{LIMIT, QUEUE, Scene, instance_of, play};

/// Involved object of events about the controller.
const LEASE: &str = "karpenter-leader-election";

/// Spot instance with a pod that requires spot.
struct Doomed {
    node: String,
    claim: String,
    instance: String,
}

impl Doomed {
    async fn settled(scene: &Scene, app: &str) -> Result<Self> {
        scene.pod(app, "1", json!({label::CAPACITY_TYPE: label::CAPACITY_SPOT})).await?;
        let node = scene.runs(app).await?;
        let (claim, instance) = scene.settled_claim().await?;
        Ok(Self { node, claim: claim.name_any(), instance })
    }

    fn warning(&self) -> String {
        let detail = json!({"instance-id": self.instance, "instance-action": "terminate"});
        envelope("aws.ec2", "EC2 Spot Instance Interruption Warning", &detail)
    }

    /// Asserts that the instance is terminated, the pod runs on another one, and exactly one replacement was launched.
    async fn is_replaced_once(&self, scene: &Scene, app: &str) -> Result<()> {
        eventually("the pod to run on another machine", LIMIT, async || {
            let node = scene.runs(app).await?;
            ensure!(node != self.node, "it is still on {node}");
            let claim = scene.only_claim().await?;
            ensure!(claim.name_any() != self.claim, "claim {} is still there", self.claim);
            let lives = scene.living().iter().any(|machine| machine.instance.id == self.instance);
            ensure!(!lives, "instance {} lives", self.instance);
            Ok(Some(()))
        })
        .await?;
        let launched: Vec<String> = scene.launched().into_iter().map(|machine| machine.instance.id).collect();
        ensure!(launched.len() == 2, "one machine and its replacement: {launched:?}");
        scene.one_instance_each().await
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

async fn is_empty(scene: &Scene) -> Result<()> {
    eventually("every message to be deleted", LIMIT, async || {
        let left = scene.stage.ec2.queue_length(QUEUE);
        ensure!(left == 0, "{left} messages are left");
        Ok(Some(()))
    })
    .await
}

fn send(scene: &Scene, body: &str) -> Result<()> {
    ensure!(scene.stage.ec2.send(QUEUE, body), "there is no queue {QUEUE}");
    Ok(())
}

#[test]
fn queue_message_replaces_instance_once() {
    play(async |scene| {
        scene.stage.ec2.create_queue(QUEUE);
        let doomed = Doomed::settled(scene, "queued").await?;
        send(scene, &doomed.warning())?;
        scene.told(&doomed.claim, reason::SPOT_INTERRUPTED, "spot interruption warning").await?;
        doomed.is_replaced_once(scene, "queued").await?;
        is_empty(scene).await
    });
}

/// The agent receives the notice from the metadata service, the controller twice from the queue.
#[test]
fn duplicate_notices_replace_instance_once() {
    play(async |scene| {
        scene.stage.ec2.create_queue(QUEUE);
        let doomed = Doomed::settled(scene, "echoed").await?;
        let deadline = Timestamp::now() + Duration::from_secs(120);
        ensure!(scene.stage.ec2.interrupt(&doomed.instance, deadline), "EC2 does not know {}", doomed.instance);
        send(scene, &doomed.warning())?;
        send(scene, &doomed.warning())?;
        doomed.is_replaced_once(scene, "echoed").await?;
        is_empty(scene).await
    });
}

/// Garbage, an instance of another account, another service, and an instance that starts: no message has an effect.
#[test]
fn queue_deletes_irrelevant_messages() {
    play(async |scene| {
        scene.stage.ec2.create_queue(QUEUE);
        scene.pod("calm", "1", json!({})).await?;
        let node = scene.runs("calm").await?;
        let claim = scene.only_claim().await?;
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
            send(scene, &body)?;
        }
        is_empty(scene).await?;
        ensure!(scene.runs("calm").await? == node && scene.only_claim().await?.name_any() == claim.name_any());
        scene.one_instance_each().await
    });
}

/// Every receiver lacks a permission: one event names the permission, and the receivers retry until they have it.
#[test]
fn queue_receiver_retries_when_access_is_denied() {
    play(async |scene| {
        scene.stage.ec2.create_queue(QUEUE);
        scene.stage.wire.order_next("ReceiveMessage", vec![Fault::access_denied(); 4]);
        eventually("an event with the cure", LIMIT, async || {
            let told = scene.events_on(LEASE).await?;
            ensure!(told.iter().any(|message| message.contains("allow sqs:GetQueueUrl")), "only {told:?}");
            Ok(Some(()))
        })
        .await?;
        eventually("every receiver to be refused", LIMIT, async || {
            Ok((scene.stage.wire.waiting_faults() == 0).then_some(()))
        })
        .await?;
        send(scene, "whatever comes after")?;
        is_empty(scene).await?;
        scene.stage.controller_lives()
    });
}

/// The queue is deleted while the controller receives messages, and created again.
#[test]
fn queue_receiver_recovers_when_queue_was_deleted() {
    play(async |scene| {
        scene.stage.ec2.remove_queue(QUEUE);
        scene.pod("unheard", "1", json!({})).await?;
        scene.runs("unheard").await?;
        scene.stage.controller_lives()?;
        // An earlier test may have emitted the event: equal events are suppressed for a while.
        eventually("an event with the cure", LIMIT, async || {
            let told = scene.events_on(LEASE).await?;
            ensure!(told.iter().any(|message| message.contains("unset INTERRUPTION_QUEUE")), "only {told:?}");
            Ok(Some(()))
        })
        .await?;
        scene.stage.ec2.create_queue(QUEUE);
        send(scene, "whatever came first")?;
        is_empty(scene).await
    });
}
