//! No instance is terminated while a volume is attached to it, unless its termination grace period is over.

use api::status::Conditioned;
use api::{condition, reason};
use jiff::SignedDuration;
use lives::api_server::CLAIMS;
use lives::clock::of_tokio;
use lives::surroundings::Workload;
use lives::town::{Town, pool};
use serde_json::{Value, json};

const ATTACHMENTS: &str = "volumeattachments";

async fn settled(grace: Option<&str>) -> (Town, lives::life::Life) {
    let mut pool = pool(&["m5.large"], json!({"consolidateAfter": "Never"}));
    pool["spec"]["template"]["spec"]["terminationGracePeriod"] = grace.map_or(Value::Null, Value::from);
    let town = Town::new(pool, Default::default());
    let life = town.life();
    town.want("database", Workload::of(1, 1500));
    town.until("a node", |town| town.is_settled(1, 1)).await;
    let node = town.claims()[0].status.clone().unwrap().node_name;
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "csi-1"},
        "spec": {"attacher": "ebs.csi.aws.com", "nodeName": node, "source": {"persistentVolumeName": "pv-1"}},
    });
    town.server.create(ATTACHMENTS, attachment);
    (town, life)
}

async fn delete_the_claim(town: &Town) -> String {
    let name = town.claims()[0].metadata.name.clone().unwrap();
    town.server.delete(CLAIMS, &name);
    name
}

fn says(town: &Town, name: &str, type_: &str, wanted: &str) -> Result<(), String> {
    let claim = town.claims().into_iter().find(|claim| claim.metadata.name.as_deref() == Some(name));
    let claim = claim.ok_or("it is gone")?;
    let said = api::status::find(claim.conditions(), type_).map(|said| (said.status.clone(), said.reason.clone()));
    let found = said.as_ref().is_some_and(|(status, reason)| status == wanted || reason == wanted);
    if found { Ok(()) } else { Err(format!("{type_} is {said:?}")) }
}

#[tokio::test(start_paused = true)]
async fn termination_waits_until_volume_is_detached() {
    let (town, life) = settled(None).await;
    let name = delete_the_claim(&town).await;
    let waits = condition::VOLUMES_DETACHED;
    town.until("to wait", |town| says(town, &name, waits, reason::AWAITING_VOLUME_DETACHMENT)).await;
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    assert_eq!(town.ec2.count("TerminateInstances"), 0, "its volume is attached");
    assert!(
        life.told().iter().any(|said| said.starts_with(reason::AWAITING_VOLUME_DETACHMENT) && said.contains("pv-1"))
    );
    town.server.delete(ATTACHMENTS, "csi-1");
    let detached = of_tokio();
    town.until(
        "the end",
        |town| {
            if town.ec2.count("TerminateInstances") > 0 { Ok(()) } else { Err("it lives".to_owned()) }
        },
    )
    .await;
    assert!(of_tokio().duration_since(detached) <= SignedDuration::from_secs(6), "nobody looked again");
    town.until("its successor alone", |town| town.is_settled(1, 1)).await;
}

#[tokio::test(start_paused = true)]
async fn termination_ignores_volumes_when_grace_period_is_over() {
    let (town, _life) = settled(Some("5m")).await;
    let begin = of_tokio();
    let name = delete_the_claim(&town).await;
    let ended = || town.ec2.count("TerminateInstances") > 0;
    town.until("the end", |_| if ended() { Ok(()) } else { Err("it lives".to_owned()) }).await;
    let took = of_tokio().duration_since(begin);
    assert!((299..=306).contains(&took.as_secs()), "it took {took}");
    town.until("a word", |town| {
        says(town, &name, condition::VOLUMES_DETACHED, reason::TERMINATION_GRACE_PERIOD_ELAPSED)
    })
    .await;
}
