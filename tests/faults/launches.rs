//! A launch meets everything that EC2 and the way to it can do. The pod gets its node as soon as there is one to be had,
//! until then the claim says what is wrong, and never is anything launched twice.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::status::Conditioned;
use api::{condition, label, reason};
use cloud::fake::CapacityOutage;
use serde_json::json;
use world::ec2wire::Fault;
use world::eventually;

use super::scene::{LIMIT, Scene, play};

/// More than once: what fails is tried again under the same token, later each time.
const OFTEN: u64 = 4;

/// A pod waits while CreateFleet fails `times` times with `fault`; an event on the claim must contain `said`. In the end the
/// pod runs on the only instance that was ever launched.
fn launch_under(fault: Fault, times: u64, said: &'static str) {
    play(async move |scene| {
        for nth in 1..=times {
            scene.stage.wire.order("CreateFleet", nth, fault.clone());
        }
        scene.pod("patient", "1", json!({})).await?;
        let claim = eventually("a claim", LIMIT, async || Ok(Some(scene.only_claim().await?))).await?;
        let name = claim.metadata.name.context("no name")?;
        scene.told(&name, reason::LAUNCH_FAILED, said).await?;
        scene.runs("patient").await?;
        ensure!(scene.stage.wire.waiting_faults() == 0, "not all faults struck");
        once(scene, &name).await
    });
}

/// The claim of that name is the only one, with the only instance that this scenario launched.
async fn once(scene: &Scene, name: &str) -> Result<()> {
    let claim = scene.only_claim().await?;
    ensure!(claim.metadata.name.as_deref() == Some(name), "the claim was replaced by {:?}", claim.metadata.name);
    ensure!(claim.is_true(condition::LAUNCHED), "it is not Launched");
    let launched = scene.launched().len();
    ensure!(launched == 1, "{launched} instances were launched");
    scene.one_instance_each().await
}

#[test]
fn throttled() {
    launch_under(Fault::throttled(), OFTEN, "RequestLimitExceeded");
}

#[test]
fn an_internal_error() {
    launch_under(Fault::internal_error(), OFTEN, "InternalError");
}

#[test]
fn a_dropped_connection() {
    launch_under(Fault::Drop, OFTEN, "CreateFleet failed");
}

/// EC2 launches at the first call; every later one must find that instance again by the client token.
#[test]
fn a_lost_reply() {
    launch_under(Fault::LoseReply, OFTEN, "CreateFleet failed");
}

/// The first call launches and nobody is told; the next is not allowed. That says nothing of the first: its instance is found.
#[test]
fn a_refusal_after_a_lost_reply() {
    play(async |scene| {
        scene.stage.wire.order("CreateFleet", 1, Fault::LoseReply);
        scene.stage.wire.order("CreateFleet", 2, Fault::unauthorized());
        scene.pod("doubtful", "1", json!({})).await?;
        let claim = eventually("a claim", LIMIT, async || Ok(Some(scene.only_claim().await?))).await?;
        scene.runs("doubtful").await?;
        ensure!(scene.stage.wire.waiting_faults() == 0, "not all faults struck");
        once(scene, &claim.metadata.name.unwrap_or_default()).await
    });
}

/// Waiting does not help until a person acts, so the claim says so in its condition, and is tried again.
#[test]
fn not_allowed() {
    launch_under(Fault::unauthorized(), 2, "UnauthorizedOperation");
}

#[test]
fn the_condition_says_why_while_it_fails() {
    play(async |scene| {
        // Of these the last is met only after a pause, in which the condition can be read.
        for nth in 1..=3 {
            scene.stage.wire.order("CreateFleet", nth, Fault::unauthorized());
        }
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

/// The nodes' tags come later, once, and leave alone what is there.
#[test]
fn a_node_gives_its_instance_a_name() {
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

/// Spot is sold out everywhere: the claim says so and is on-demand a moment later. It is still the same claim.
#[test]
fn out_of_stock() {
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

/// Somebody cleaned up our launch templates: the launch that misses them makes them again, and nobody hears of it.
#[test]
fn templates_deleted_behind_our_back() {
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

/// Nothing that the pod accepts is in stock: it is told so with numbers, while another pod gets its node.
#[test]
fn sold_out_for_one_pod() {
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

/// The controller dies when EC2 has launched and nobody was told: its next life finds the instance by its token.
#[test]
fn a_crash_between_launch_and_status() {
    play(async |scene| {
        scene.stage.wire.order("CreateFleet", 1, Fault::LoseReply);
        scene.stage.wire.order("CreateFleet", 2, Fault::Slow(Duration::from_secs(60)));
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

/// Words of a claim's labels.
trait Labelled {
    fn labels_say(&self, key: &str, value: &str) -> bool;
}

impl Labelled for api::NodeClaim {
    fn labels_say(&self, key: &str, value: &str) -> bool {
        self.metadata.labels.as_ref().and_then(|labels| labels.get(key)).is_some_and(|found| found == value)
    }
}
