//! Launches under every fault of EC2 and of the connection. The pod gets its node as soon as capacity exists. Until then the
//! NodeClaim shows the error, and nothing is ever launched twice.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::status::Conditioned;
use api::{condition, label, reason};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cloud::fake::CapacityOutage;
use serde_json::json;
use testbed::ec2wire::Fault;
use testbed::eventually;

use super::fixture::{CLUSTER_DNS, Fixture, LIMIT, run};

/// Number of failures in a row. Each retry uses the same token, after a longer delay.
const OFTEN: usize = 4;

/// Lets CreateFleet fail `times` times with `fault` while a pod is pending. An event of the NodeClaim must contain `reported`. In
/// the end the pod runs on the only instance that was launched.
fn launch_under(fault: Fault, times: usize, reported: &'static str) {
    run(async move |fixture| {
        fixture.environment.wire.order_next("CreateFleet", vec![fault; times]);
        fixture.pod("patient", "1", json!({})).await?;
        let claim = eventually("a claim", LIMIT, async || Ok(Some(fixture.only_claim().await?))).await?;
        let name = claim.metadata.name.context("no name")?;
        fixture.wait_for_event(&name, reason::LAUNCH_FAILED, reported).await?;
        fixture.runs("patient").await?;
        every_fault_struck(fixture).await?;
        once(fixture, &name).await
    });
}

/// Waits until every scheduled fault has struck.
async fn every_fault_struck(fixture: &Fixture) -> Result<()> {
    eventually("every fault to strike", LIMIT, async || {
        Ok((fixture.environment.wire.waiting_faults() == 0).then_some(()))
    })
    .await
}

/// Asserts that this NodeClaim is the only one, with the only instance that this test launched. The instance boots from the call
/// to EC2 on, so its pod can run before the condition is written.
async fn once(fixture: &Fixture, name: &str) -> Result<()> {
    eventually("Launched", LIMIT, async || {
        let claim = fixture.only_claim().await?;
        ensure!(claim.metadata.name.as_deref() == Some(name), "the claim was replaced by {:?}", claim.metadata.name);
        Ok(claim.is_true(condition::LAUNCHED).then_some(()))
    })
    .await?;
    let launched = fixture.launched().len();
    ensure!(launched == 1, "{launched} instances were launched");
    fixture.one_instance_each().await
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
    run(async |fixture| {
        fixture.environment.wire.order_next("CreateFleet", [Fault::LoseReply, Fault::unauthorized()]);
        fixture.pod("doubtful", "1", json!({})).await?;
        let claim = eventually("a claim", LIMIT, async || Ok(Some(fixture.only_claim().await?))).await?;
        fixture.runs("doubtful").await?;
        every_fault_struck(fixture).await?;
        once(fixture, &claim.metadata.name.unwrap_or_default()).await
    });
}

/// Only an operator can fix missing permissions, so the condition of the NodeClaim shows the error, and the launch is retried.
#[test]
fn launch_retries_when_create_fleet_is_unauthorized() {
    launch_under(Fault::unauthorized(), 2, "UnauthorizedOperation");
}

#[test]
fn launched_condition_reports_reason_when_launch_fails() {
    run(async |fixture| {
        // The third call follows a pause, in which the condition can be read.
        fixture.environment.wire.order_next("CreateFleet", vec![Fault::unauthorized(); 3]);
        fixture.pod("forbidden", "1", json!({})).await?;
        eventually("Launched=Unknown with the reason", LIMIT, async || {
            let claim = fixture.only_claim().await?;
            let launched = api::status::find(claim.conditions(), condition::LAUNCHED).context("no condition")?;
            ensure!(launched.is_unknown() && launched.reason == "Unauthorized", "{launched:?}");
            ensure!(launched.message.contains("not authorized"), "{}", launched.message);
            Ok(Some(()))
        })
        .await?;
        ensure!(fixture.launched().is_empty(), "something was launched");
        fixture.runs("forbidden").await.map(drop)
    });
}

/// Tags with the name of the node are added once, after registration, and keep existing tags.
#[test]
fn instance_gets_name_tags_when_node_registers() {
    run(async |fixture| {
        fixture.pod("named", "1", json!({})).await?;
        let node = fixture.runs("named").await?;
        let claim = fixture.only_claim().await?;
        let name = claim.metadata.name.context("no name")?;
        eventually("its instance's tags", LIMIT, async || {
            let launched = fixture.launched();
            let tags = &launched.first().context("no instance")?.instance.tags;
            let has_tag = |key: &str, value: &str| tags.get(key).is_some_and(|found| found == value);
            ensure!(has_tag("Name", &node) && has_tag("karpenter.sh/nodeclaim", &name), "{tags:?}");
            Ok(Some(()))
        })
        .await?;
        eventually("the claim to say so", LIMIT, async || {
            let claim = fixture.only_claim().await?;
            let reported =
                claim.metadata.annotations.as_ref().and_then(|all| all.get(api::annotation::INSTANCE_TAGGED));
            ensure!(reported.is_some_and(|value| value == "true"), "{:?}", claim.metadata.annotations);
            Ok(Some(()))
        })
        .await
    });
}

/// Spot capacity is missing everywhere. The NodeClaim reports the error, and the same NodeClaim is then launched as on-demand.
#[test]
fn launch_uses_on_demand_when_spot_is_unavailable() {
    run(async |fixture| {
        fixture
            .environment
            .ec2
            .start_outage(CapacityOutage { capacity_type: Some("spot".to_owned()), ..CapacityOutage::default() });
        let zone = json!({label::ZONE: "us-west-2c"});
        fixture.pod("thirsty", "1", zone).await?;
        let claim = eventually("a claim", LIMIT, async || Ok(Some(fixture.only_claim().await?))).await?;
        let name = claim.metadata.name.context("no name")?;
        fixture.wait_for_event(&name, reason::INSUFFICIENT_CAPACITY, "spot").await?;
        fixture.runs("thirsty").await?;
        once(fixture, &name).await?;
        let launched = fixture.launched();
        ensure!(!launched[0].instance.spot, "launched {launched:?}");
        let claim = fixture.only_claim().await?;
        ensure!(claim.has_label(label::CAPACITY_TYPE, label::CAPACITY_ON_DEMAND), "{:?}", claim.metadata.labels);
        Ok(())
    });
}

/// A launch whose launch template was deleted creates the template again, without an event.
#[test]
fn launch_recreates_template_when_it_was_deleted() {
    run(async |fixture| {
        fixture.pod("before", "1", json!({label::ZONE: "us-west-2a"})).await?;
        fixture.runs("before").await?;
        let made = fixture.environment.ec2.template_names();
        ensure!(!made.is_empty(), "nothing was launched from a template");
        made.iter().for_each(|name| fixture.environment.ec2.remove_template(name));
        fixture.pod("after", "1", json!({label::ZONE: "us-west-2b"})).await?;
        fixture.runs("after").await?;
        let reported = fixture.events_on("default-").await?;
        ensure!(!reported.iter().any(|message| message.contains("LaunchTemplate")), "{reported:?}");
        ensure!(fixture.launched().len() == 2, "{} instances were launched", fixture.launched().len());
        eventually("one claim, one instance", LIMIT, async || Ok(Some(fixture.one_instance_each().await?))).await
    });
}

/// No offering that the pod accepts is available: an event of the pod reports the numbers, while another pod gets its node.
#[test]
fn pod_event_reports_unavailable_offerings() {
    run(async |fixture| {
        let wanted = "m5.2xlarge".to_owned();
        fixture
            .environment
            .ec2
            .start_outage(CapacityOutage { instance_type: Some(wanted.clone()), ..CapacityOutage::default() });
        fixture.pod("picky", "1", json!({label::INSTANCE_TYPE: wanted})).await?;
        fixture.pod("modest", "1", json!({})).await?;
        let message = fixture.wait_for_event("picky", reason::FAILED_SCHEDULING, "are unavailable").await?;
        ensure!(message.contains("NodePool default"), "{message}");
        fixture.runs("modest").await?;
        eventually("one claim, one instance", LIMIT, async || Ok(Some(fixture.one_instance_each().await?))).await?;
        ensure!(fixture.launched().len() == 1, "{} instances were launched", fixture.launched().len());
        Ok(())
    });
}

/// The controller dies when EC2 has launched and the reply is lost: the next controller finds the instance by its token.
#[test]
fn launch_finds_instance_when_controller_crashed() {
    run(async |fixture| {
        fixture.environment.wire.order_next("CreateFleet", [Fault::LoseReply, Fault::Slow(Duration::from_secs(60))]);
        fixture.pod("orphan", "1", json!({})).await?;
        eventually("the second attempt to hang", LIMIT, async || {
            let launched = fixture.launched().len();
            ensure!(fixture.environment.wire.waiting_faults() == 0 && launched == 1, "{launched} instances");
            Ok(Some(()))
        })
        .await?;
        fixture.environment.kill_controller()?;
        let claim = fixture.only_claim().await?;
        ensure!(!claim.is_true(condition::LAUNCHED), "the status was written already");
        let calls = fixture.environment.wire.exchanges("CreateFleet").len();
        fixture.environment.start_controller()?;
        fixture.runs("orphan").await?;
        ensure!(fixture.environment.wire.exchanges("CreateFleet").len() == calls, "it called CreateFleet again");
        once(fixture, &claim.metadata.name.unwrap_or_default()).await
    });
}

/// Label check of a NodeClaim.
trait Labelled {
    fn has_label(&self, key: &str, value: &str) -> bool;
}

impl Labelled for api::NodeClaim {
    fn has_label(&self, key: &str, value: &str) -> bool {
        self.metadata.labels.as_ref().and_then(|labels| labels.get(key)).is_some_and(|found| found == value)
    }
}

/// The address is not the one that a node would compute from the service CIDR.
#[test]
fn launched_node_gets_the_address_of_cluster_dns() {
    run(async |fixture| {
        fixture.pod("resolving", "1", json!({})).await?;
        fixture.runs("resolving").await?;
        let machine = fixture.launched().pop().context("nothing was launched")?;
        let text = String::from_utf8(STANDARD.decode(&machine.template.user_data)?)?;
        ensure!(text.contains(&format!("clusterDNS:\n      - \"{CLUSTER_DNS}\"\n")), "{text}");
        Ok(())
    });
}
