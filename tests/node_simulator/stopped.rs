//! Spot instance that is stopped instead of terminated, and starts again later: its Node must not keep the marks of the
//! interruption.

use anyhow::{Context, Result, ensure};
use api::{annotation, condition, label};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use testbed::eventually;
use testbed::imds::Interruption;

use super::{Fixture, LIMIT, condition_of};

/// Returns the marks of an interruption besides conditions: cordon, exclusion from load balancers, deadline.
fn marks(node: &Node) -> [bool; 3] {
    let has =
        |map: Option<&std::collections::BTreeMap<String, String>>, key| map.is_some_and(|map| map.contains_key(key));
    [
        node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default(),
        has(node.metadata.labels.as_ref(), label::EXCLUDE_BALANCERS),
        has(node.metadata.annotations.as_ref(), annotation::INTERRUPTION_DEADLINE),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_removes_interruption_marks_when_instance_restarts() -> Result<()> {
    let fixture = Fixture::start("stopped").await?;
    fixture.install_cni().await?;
    let id = fixture.launch("stopped", fixture.user_data()?).await?;
    let machine = fixture.machine(&id).await?;
    fixture.condition(&machine, condition::AGENT_READY, condition::TRUE).await?;
    let imds = machine.imds().context("there is no metadata service")?;
    let time = Timestamp::now() + SignedDuration::from_secs(120);
    imds.update(|facts| facts.interruption = Some(Interruption { action: "stop".to_owned(), time }));
    for interrupted in [true, false] {
        if !interrupted {
            imds.update(|facts| facts.interruption = None);
            machine.reboot().await?;
        }
        eventually(&format!("interrupted: {interrupted}"), LIMIT, async || {
            let node = fixture.node(machine.node_name()).await?;
            let log_length = condition_of(&node, condition::INTERRUPTED);
            let expected = if interrupted { condition::TRUE } else { condition::FALSE };
            ensure!(marks(&node) == [interrupted; 3] && log_length == expected, "{:?} {log_length}", marks(&node));
            Ok(Some(()))
        })
        .await
        .with_context(|| fixture.evidence(&machine))?;
    }
    fixture.condition(&machine, condition::AGENT_READY, condition::TRUE).await?;
    fixture.stop().await
}
