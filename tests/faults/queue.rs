//! The interruption queue of the account: what EventBridge puts there takes a machine away once, however often and by whomever
//! it is said; what is no message of ours is thrown away; a queue that is not there hurts nobody.

use std::time::Duration;

use anyhow::{Result, ensure};
use api::{label, reason};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};
use world::ec2wire::Fault;
use world::eventually;

use super::scene::{LIMIT, QUEUE, Scene, instance_of, play};

/// What stands for the controller in events.
const LEASE: &str = "karpenter-leader-election";

/// A spot machine with a pod that must have one.
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

    /// The machine is gone, the pod runs elsewhere, and one machine was launched for it.
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
fn a_notice_in_the_queue_is_one_replacement() {
    play(async |scene| {
        scene.stage.ec2.create_queue(QUEUE);
        let doomed = Doomed::settled(scene, "queued").await?;
        send(scene, &doomed.warning())?;
        scene.told(&doomed.claim, reason::SPOT_INTERRUPTED, "spot interruption warning").await?;
        doomed.is_replaced_once(scene, "queued").await?;
        is_empty(scene).await
    });
}

/// The agent hears it from its machine's metadata, the controller twice from the queue.
#[test]
fn who_says_the_same_does_not_make_it_two() {
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

/// Rubbish, another account's machine, a service that is none of ours, a machine that starts: nothing happens to anybody.
#[test]
fn what_is_nobodys_is_thrown_away() {
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

/// A right is missing at each receiver: it is said once with what to allow, and they ask on until they may.
#[test]
fn a_queue_that_may_not_be_read_is_asked_on() {
    play(async |scene| {
        scene.stage.ec2.create_queue(QUEUE);
        for nth in 1..=4 {
            scene.stage.wire.order("ReceiveMessage", nth, Fault::access_denied());
        }
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

/// The queue goes away while the controller listens, and comes back.
#[test]
fn a_queue_that_is_gone_hurts_nobody() {
    play(async |scene| {
        scene.stage.ec2.remove_queue(QUEUE);
        scene.pod("unheard", "1", json!({})).await?;
        scene.runs("unheard").await?;
        scene.stage.controller_lives()?;
        // It may have been told before this scenario began: equal events are silent for a while.
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
