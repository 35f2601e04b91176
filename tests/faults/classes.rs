//! EC2NodeClasses that select nothing, NodePools without an EC2NodeClass, pods that fit nowhere: conditions and events give the
//! reason, and nothing is launched.

use anyhow::{Context, Result, ensure};
use api::status::Conditioned;
use api::{EC2NodeClass, NodeClaim, NodePool, condition, label, reason};
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};
use world::eventually;

use super::scene::{LIMIT, Scene, play};

fn class(name: &str, spec: &Value) -> Value {
    let tags = json!([{"tags": {"karpenter.sh/discovery": "kerf-demo"}}]);
    let mut all = json!({
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": tags,
        "securityGroupSelectorTerms": tags,
        "instanceProfile": "nodes",
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        all[key] = value.clone();
    }
    if let Some(fields) = all.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": name}, "spec": all})
}

fn pool(name: &str, class: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": class},
            "requirements": [{"key": label::CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}],
        }}},
    })
}

async fn pool_says(scene: &Scene, name: &str, type_: &str, status: &str) -> Result<(String, String)> {
    eventually(&format!("{type_}={status} on pool {name}"), LIMIT, async || {
        let pool = scene.api::<NodePool>().get(name).await?;
        let found = api::status::find(pool.conditions(), type_).context("no such condition")?;
        ensure!(found.status == status, "it is {} ({})", found.status, found.message);
        Ok(Some((found.reason.clone(), found.message.clone())))
    })
    .await
}

/// Deletes NodePool and EC2NodeClass, because events of other tests would name them.
async fn drop_pair(scene: &Scene, name: &str) -> Result<()> {
    scene.api::<NodePool>().delete(name, &DeleteParams::default()).await?;
    scene.api::<EC2NodeClass>().delete(name, &DeleteParams::default()).await?;
    eventually("the class to be gone", LIMIT, async || {
        Ok(scene.api::<EC2NodeClass>().get_opt(name).await?.is_none().then_some(()))
    })
    .await
}

/// Asserts that an EC2NodeClass with this `fault` has `condition` False, and that the message contains `cure`. An event of the
/// pod that needs the NodePool must also contain it.
fn unready(name: &'static str, fault: Value, condition: &'static str, reason: &'static str, cure: &'static str) {
    play(async move |scene| {
        scene.stage.apply_value(class(name, &fault)).await?;
        scene.stage.apply_value(pool(name, name)).await?;
        scene.pod("waiting", "1", json!({label::NODEPOOL: name})).await?;
        let message = scene.class_says(name, condition, condition::FALSE).await?;
        ensure!(message.contains(cure), "{condition} says {message:?}");
        let summary = scene.class_says(name, condition::READY, condition::FALSE).await?;
        ensure!(summary.contains(condition), "Ready does not name {condition}: {summary}");
        let (_, message) = pool_says(scene, name, condition::NODE_CLASS_READY, condition::FALSE).await?;
        ensure!(message.contains(cure), "the pool says {message:?}");
        let told = scene.told("waiting", reason::FAILED_SCHEDULING, cure).await?;
        ensure!(told.contains(&format!("NodePool {name}")), "the pod hears {told:?}");
        let found = scene.api::<EC2NodeClass>().get(name).await?;
        let found = api::status::find(found.conditions(), condition).context("the condition went")?;
        ensure!(found.reason == reason, "the reason is {}", found.reason);
        ensure!(scene.claims().await?.is_empty() && scene.launched().is_empty(), "something was launched");
        drop_pair(scene, name).await
    });
}

#[test]
fn nodeclass_is_not_ready_when_no_subnet_matches() {
    let fault = json!({"subnetSelectorTerms": [{"tags": {"team": "nobody"}}]});
    let cure = "no subnet matches subnetSelectorTerms";
    unready("no-subnet", fault, condition::SUBNETS_READY, reason::SUBNETS_NOT_FOUND, cure);
}

#[test]
fn nodeclass_is_not_ready_when_no_security_group_matches() {
    let fault = json!({"securityGroupSelectorTerms": [{"tags": {"team": "nobody"}}]});
    let cure = "no security group matches securityGroupSelectorTerms";
    unready("no-group", fault, condition::SECURITY_GROUPS_READY, reason::SECURITY_GROUPS_NOT_FOUND, cure);
}

#[test]
fn nodeclass_is_not_ready_when_no_image_matches() {
    let fault = json!({"amiFamily": "AL2023", "amiSelectorTerms": [{"tags": {"team": "nobody"}}]});
    unready("no-image", fault, condition::AMIS_READY, reason::AMI_NOT_FOUND, "amiSelectorTerms");
}

/// Waits until the status of the EC2NodeClass names a profile other than `before` that contains the role.
async fn profile_of(scene: &Scene, class: &str, role: &str, before: &str) -> Result<String> {
    eventually(&format!("class {class} to name a profile of role {role}"), LIMIT, async || {
        let name = scene.api::<EC2NodeClass>().get(class).await?.status.unwrap_or_default().instance_profile;
        ensure!(!name.is_empty() && name != before, "it names {name:?}");
        let profiles = scene.stage.ec2.profiles();
        let found = profiles.iter().find(|profile| profile.name == name).context("IAM has no such profile")?;
        ensure!(found.roles == [role], "the profile holds {:?}", found.roles);
        ensure!(found.path.starts_with("/karpenter/us-west-2/kerf-demo/"), "its path is {}", found.path);
        Ok(Some(name))
    })
    .await
}

/// Each role gets an instance profile of its own, and the deletion of the EC2NodeClass deletes all of them.
#[test]
fn nodeclass_creates_profile_when_role_changes() {
    play(async |scene| {
        let of_role = |role: &str| class("roles", &json!({"instanceProfile": null, "role": role}));
        scene.stage.apply_value(of_role("team/blue")).await?;
        let message = scene.class_says("roles", condition::INSTANCE_PROFILE_READY, condition::FALSE).await?;
        ensure!(message.contains("team/blue") && message.contains("create the role in IAM"), "{message}");
        scene.stage.ec2.add_role("blue");
        scene.stage.ec2.add_role("green");
        scene.class_says("roles", condition::READY, condition::TRUE).await?;
        let blue = profile_of(scene, "roles", "blue", "").await?;
        scene.stage.apply_value(of_role("green")).await?;
        let green = profile_of(scene, "roles", "green", &blue).await?;
        let left = |name: &str| scene.stage.ec2.profiles().iter().any(|profile| profile.name == name);
        ensure!(left(&blue), "machines may still run with the old profile");
        let templates = scene.stage.ec2.template_names().len();
        ensure!(templates > 0, "no launch was tried out");
        scene.api::<EC2NodeClass>().delete("roles", &DeleteParams::default()).await?;
        eventually("the class to be gone", LIMIT, async || {
            Ok(scene.api::<EC2NodeClass>().get_opt("roles").await?.is_none().then_some(()))
        })
        .await?;
        ensure!(!left(&blue) && !left(&green), "profiles are left: {:?}", scene.stage.ec2.profiles());
        let after = scene.stage.ec2.template_names().len();
        ensure!(after < templates, "of {templates} launch templates {after} are left");
        Ok(())
    });
}

#[test]
fn nodepool_is_not_ready_when_nodeclass_is_missing() {
    play(async |scene| {
        scene.stage.apply_value(pool("classless", "missing")).await?;
        scene.pod("waiting", "1", json!({label::NODEPOOL: "classless"})).await?;
        let (reason, message) = pool_says(scene, "classless", condition::NODE_CLASS_READY, condition::FALSE).await?;
        ensure!(reason == reason::NODE_CLASS_NOT_FOUND && message.contains("create it"), "{reason}: {message}");
        scene.told("waiting", reason::FAILED_SCHEDULING, "EC2NodeClass \"missing\" does not exist").await?;
        ensure!(scene.launched().is_empty(), "something was launched");
        scene.api::<NodePool>().delete("classless", &DeleteParams::default()).await?;
        Ok(())
    });
}

/// After the fix of an EC2NodeClass, its NodePool and pods work without a change.
#[test]
fn nodepool_launches_when_nodeclass_is_fixed() {
    play(async |scene| {
        let fault = json!({"subnetSelectorTerms": [{"tags": {"team": "nobody"}}]});
        scene.stage.apply_value(class("mended", &fault)).await?;
        scene.stage.apply_value(pool("mended", "mended")).await?;
        scene.pod("waiting", "1", json!({label::NODEPOOL: "mended"})).await?;
        scene.told("waiting", reason::FAILED_SCHEDULING, "no subnet matches").await?;
        scene.stage.apply_value(class("mended", &json!({}))).await?;
        eventually("a launch", LIMIT, async || {
            let launched = scene.launched().len();
            ensure!(launched == 1, "{launched} instances were launched");
            Ok(Some(()))
        })
        .await?;
        let set: Api<ReplicaSet> = Api::namespaced(scene.client.clone(), "default");
        set.delete("waiting", &DeleteParams::background()).await?;
        let claim = scene.only_claim().await?;
        let name = claim.metadata.name.context("no name")?;
        scene.api::<NodeClaim>().delete(&name, &DeleteParams::default()).await?;
        drop_pair(scene, "mended").await
    });
}

#[test]
fn pod_event_reports_unschedulable_when_no_type_fits() {
    play(async |scene| {
        scene.pod("giant", "5000", json!({})).await?;
        scene.pod("small", "1", json!({})).await?;
        let message = scene.told("giant", reason::FAILED_SCHEDULING, "too little cpu").await?;
        let numbers = message.chars().filter(char::is_ascii_digit).count();
        ensure!(message.contains("NodePool default") && message.contains(" types ") && numbers > 0, "{message}");
        scene.runs("small").await?;
        scene.one_instance_each().await?;
        ensure!(scene.launched().len() == 1, "{} instances were launched", scene.launched().len());
        Ok(())
    });
}
