//! Launches under every fault of EC2 and of the connection. The pod gets its node as soon as capacity exists. Until then the
//! NodeClaim shows the error, and nothing is ever launched twice.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::status::Conditioned;
use api::{condition, label, reason};
use cloud::fake::CapacityOutage;
use serde_json::json;
use world::ec2wire::Fault;
use world::eventually;

use super::scene::{LIMIT, Scene, play};

/// Number of failures in a row. Each retry uses the same token, after a longer delay.
const OFTEN: usize = 4;

/// Lets CreateFleet fail `times` times with `fault` while a pod is pending. An event of the NodeClaim must contain `said`. In
/// the end the pod runs on the only instance that was launched.
fn launch_under(fault: Fault, times: usize, said: &'static str) {
    play(async move |scene| {
        scene.stage.wire.order_next("CreateFleet", vec![fault; times]);
        scene.pod("patient", "1", json!({})).await?;
        let claim = eventually("a claim", LIMIT, async || Ok(Some(scene.only_claim().await?))).await?;
        let name = claim.metadata.name.context("no name")?;
        scene.told(&name, reason::LAUNCH_FAILED, said).await?;
        scene.runs("patient").await?;
        every_fault_struck(scene).await?;
        once(scene, &name).await
    });
}

/// Waits until every scheduled fault has struck.
async fn every_fault_struck(scene: &Scene) -> Result<()> {
    eventually("every fault to strike", LIMIT, async || Ok((scene.stage.wire.waiting_faults() == 0).then_some(())))
        .await
}

/// Asserts that this NodeClaim is the only one, with the only instance that this test launched.
async fn once(scene: &Scene, name: &str) -> Result<()> {
    let claim = scene.only_claim().await?;
    ensure!(claim.metadata.name.as_deref() == Some(name), "the claim was replaced by {:?}", claim.metadata.name);
    ensure!(claim.is_true(condition::LAUNCHED), "it is not Launched");
    let launched = scene.launched().len();
    ensure!(launched == 1, "{launched} instances were launched");
    scene.one_instance_each().await
}

#[test]
fn launch_retries_when_create_fleet_is_throttled() {
    launch_under(Fault::throttled(), OFTEN, "RequestLimitExceeded");
}

#[test]
fn launch_retries_when_create_fleet_fails_internally() {
    launch_under(Fault::internal_error(), OFTEN, "InternalError");
}

#[test]
fn launch_retries_when_connection_is_dropped() {
    launch_under(Fault::Drop, OFTEN, "CreateFleet failed");
}

/// EC2 launches at the first call; every later call must find that instance by the client token.
#[test]
fn launch_finds_instance_by_token_when_reply_is_lost() {
    launch_under(Fault::LoseReply, OFTEN, "CreateFleet failed");
}

/// The first call launches, but its reply is lost; the second call is unauthorized. The second result does not apply to the
/// first call, so its instance is found.
#[test]
fn launch_finds_instance_when_refused_after_a_lost_reply() {
    play(async |scene| {
        scene.stage.wire.order_next("CreateFleet", [Fault::LoseReply, Fault::unauthorized()]);
        scene.pod("doubtful", "1", json!({})).await?;
        let claim = eventually("a claim", LIMIT, async || Ok(Some(scene.only_claim().await?))).await?;
        scene.runs("doubtful").await?;
        every_fault_struck(scene).await?;
        once(scene, &claim.metadata.name.unwrap_or_default()).await
    });
}

/// Only an operator can fix missing permissions, so the condition of the NodeClaim shows the error, and the launch is retried.
#[test]
fn launch_retries_when_create_fleet_is_unauthorized() {
    launch_under(Fault::unauthorized(), 2, "UnauthorizedOperation");
}

#[test]
fn launched_condition_reports_reason_when_launch_fails() {
    play(async |scene| {
        // The third call follows a pause, in which the condition can be read.
        scene.stage.wire.order_next("CreateFleet", vec![Fault::unauthorized(); 3]);
        scene.pod("forbidden", "1", json!({})).await?;
        eventually("Launched=Unknown with the reason", LIMIT, async || {
            let claim = scene.only_claim().await?;
            let launched = api::status::find(claim.conditions(), condition::LAUNCHED).context("no condition")?;
            ensure!(launched.is_unknown() && launched.reason == "Unauthorized", "{launched:?}");
            ensure!(launched.message.contains("not authorized"), "{}", launched.message);
            Ok(Some(()))
        })
        .await?;
        ensure!(scene.launched().is_empty(), "something was launched");
        scene.runs("forbidden").await.map(drop)
    });
}

/// Tags with the name of the node are added once, after registration, and keep existing tags.
#[test]
fn instance_gets_name_tags_when_node_registers() {
    play(async |scene| {
        scene.pod("named", "1", json!({})).await?;
        let node = scene.runs("named").await?;
        let claim = scene.only_claim().await?;
        let name = claim.metadata.name.context("no name")?;
        eventually("its instance's tags", LIMIT, async || {
            let launched = scene.launched();
            let tags = &launched.first().context("no instance")?.instance.tags;
            let says = |key: &str, value: &str| tags.get(key).is_some_and(|found| found == value);
            ensure!(says("Name", &node) && says("karpenter.sh/nodeclaim", &name), "{tags:?}");
            Ok(Some(()))
        })
        .await?;
        eventually("the claim to say so", LIMIT, async || {
            let claim = scene.only_claim().await?;
            let said = claim.metadata.annotations.as_ref().and_then(|all| all.get(api::annotation::INSTANCE_TAGGED));
            ensure!(said.is_some_and(|value| value == "true"), "{:?}", claim.metadata.annotations);
            Ok(Some(()))
        })
        .await
    });
}

/// Spot capacity is missing everywhere. The NodeClaim reports the error, and the same NodeClaim is then launched as on-demand.
#[test]
fn launch_uses_on_demand_when_spot_is_unavailable() {
    play(async |scene| {
        scene
            .stage
            .ec2
            .start_outage(CapacityOutage { capacity_type: Some("spot".to_owned()), ..CapacityOutage::default() });
        let zone = json!({label::ZONE: "us-west-2c"});
        scene.pod("thirsty", "1", zone).await?;
        let claim = eventually("a claim", LIMIT, async || Ok(Some(scene.only_claim().await?))).await?;
        let name = claim.metadata.name.context("no name")?;
        scene.told(&name, reason::INSUFFICIENT_CAPACITY, "spot").await?;
        scene.runs("thirsty").await?;
        once(scene, &name).await?;
        let launched = scene.launched();
        ensure!(!launched[0].instance.spot, "launched {launched:?}");
        let claim = scene.only_claim().await?;
        ensure!(claim.labels_say(label::CAPACITY_TYPE, label::CAPACITY_ON_DEMAND), "{:?}", claim.metadata.labels);
        Ok(())
    });
}

/// A launch whose launch template was deleted creates the template again, without an event.
#[test]
fn launch_recreates_template_when_it_was_deleted() {
    play(async |scene| {
        scene.pod("before", "1", json!({label::ZONE: "us-west-2a"})).await?;
        scene.runs("before").await?;
        let made = scene.stage.ec2.template_names();
        ensure!(!made.is_empty(), "nothing was launched from a template");
        made.iter().for_each(|name| scene.stage.ec2.remove_template(name));
        scene.pod("after", "1", json!({label::ZONE: "us-west-2b"})).await?;
        scene.runs("after").await?;
        let told = scene.events_on("default-").await?;
        ensure!(!told.iter().any(|message| message.contains("LaunchTemplate")), "{told:?}");
        ensure!(scene.launched().len() == 2, "{} instances were launched", scene.launched().len());
        eventually("one claim, one instance", LIMIT, async || Ok(Some(scene.one_instance_each().await?))).await
    });
}

/// No offering that the pod accepts is available: an event of the pod reports the numbers, while another pod gets its node.
#[test]
fn pod_event_reports_unavailable_offerings() {
    play(async |scene| {
        let wanted = "m5.2xlarge".to_owned();
        scene
            .stage
            .ec2
            .start_outage(CapacityOutage { instance_type: Some(wanted.clone()), ..CapacityOutage::default() });
        scene.pod("picky", "1", json!({label::INSTANCE_TYPE: wanted})).await?;
        scene.pod("modest", "1", json!({})).await?;
        let message = scene.told("picky", reason::FAILED_SCHEDULING, "are unavailable").await?;
        ensure!(message.contains("NodePool default"), "{message}");
        scene.runs("modest").await?;
        eventually("one claim, one instance", LIMIT, async || Ok(Some(scene.one_instance_each().await?))).await?;
        ensure!(scene.launched().len() == 1, "{} instances were launched", scene.launched().len());
        Ok(())
    });
}

/// The controller dies when EC2 has launched and the reply is lost: the next controller finds the instance by its token.
#[test]
fn launch_finds_instance_when_controller_crashed() {
    play(async |scene| {
        scene.stage.wire.order_next("CreateFleet", [Fault::LoseReply, Fault::Slow(Duration::from_secs(60))]);
        scene.pod("orphan", "1", json!({})).await?;
        eventually("the second attempt to hang", LIMIT, async || {
            let launched = scene.launched().len();
            ensure!(scene.stage.wire.waiting_faults() == 0 && launched == 1, "{launched} instances");
            Ok(Some(()))
        })
        .await?;
        scene.stage.kill_controller()?;
        let claim = scene.only_claim().await?;
        ensure!(!claim.is_true(condition::LAUNCHED), "the status was written already");
        let calls = scene.stage.wire.exchanges("CreateFleet").len();
        scene.stage.start_controller()?;
        scene.runs("orphan").await?;
        ensure!(scene.stage.wire.exchanges("CreateFleet").len() == calls, "it called CreateFleet again");
        once(scene, &claim.metadata.name.unwrap_or_default()).await
    });
}

/// Label check of a NodeClaim.
trait Labelled {
    fn labels_say(&self, key: &str, value: &str) -> bool;
}

impl Labelled for api::NodeClaim {
    fn labels_say(&self, key: &str, value: &str) -> bool {
        self.metadata.labels.as_ref().and_then(|labels| labels.get(key)).is_some_and(|found| found == value)
    }
}
