//! EC2NodeClasses that select nothing, NodePools without an EC2NodeClass, pods that fit nowhere: conditions and events give the
//! reason, and nothing is launched.

use anyhow::{Context, Result, ensure};
use api::status::Conditioned;
use api::{EC2NodeClass, NodeClaim, NodePool, condition, label, reason};
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};
use testbed::eventually;

use super::fixture::{Fixture, LIMIT, run};

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

async fn wait_for_pool_condition(fixture: &Fixture, name: &str, type_: &str, status: &str) -> Result<(String, String)> {
    eventually(&format!("{type_}={status} on pool {name}"), LIMIT, async || {
        let pool = fixture.api::<NodePool>().get(name).await?;
        let found = api::status::find(pool.conditions(), type_).context("no such condition")?;
        ensure!(found.status == status, "it is {} ({})", found.status, found.message);
        Ok(Some((found.reason.clone(), found.message.clone())))
    })
    .await
}

/// Deletes NodePool and EC2NodeClass, because events of other tests would name them.
async fn drop_pair(fixture: &Fixture, name: &str) -> Result<()> {
    fixture.api::<NodePool>().delete(name, &DeleteParams::default()).await?;
    fixture.api::<EC2NodeClass>().delete(name, &DeleteParams::default()).await?;
    eventually("the class to be gone", LIMIT, async || {
        Ok(fixture.api::<EC2NodeClass>().get_opt(name).await?.is_none().then_some(()))
    })
    .await
}

/// Asserts that an EC2NodeClass with this `fault` has `condition` False, and that the message contains `cure`. An event of the
/// pod that needs the NodePool must also contain it.
fn unready(name: &'static str, fault: Value, condition: &'static str, reason: &'static str, hint: &'static str) {
    run(async move |fixture| {
        fixture.environment.apply_value(class(name, &fault)).await?;
        fixture.environment.apply_value(pool(name, name)).await?;
        fixture.pod("waiting", "1", json!({label::NODEPOOL: name})).await?;
        let message = fixture.wait_for_class_condition(name, condition, condition::FALSE).await?;
        ensure!(message.contains(hint), "{condition} says {message:?}");
        let summary = fixture.wait_for_class_condition(name, condition::READY, condition::FALSE).await?;
        ensure!(summary.contains(condition), "Ready does not name {condition}: {summary}");
        let (_, message) =
            wait_for_pool_condition(fixture, name, condition::NODE_CLASS_READY, condition::FALSE).await?;
        ensure!(message.contains(hint), "the pool says {message:?}");
        let reported = fixture.wait_for_event("waiting", reason::FAILED_SCHEDULING, hint).await?;
        ensure!(reported.contains(&format!("NodePool {name}")), "the pod hears {reported:?}");
        let found = fixture.api::<EC2NodeClass>().get(name).await?;
        let found = api::status::find(found.conditions(), condition).context("the condition went")?;
        ensure!(found.reason == reason, "the reason is {}", found.reason);
        ensure!(fixture.claims().await?.is_empty() && fixture.launched().is_empty(), "something was launched");
        drop_pair(fixture, name).await
    });
}

#[test]
fn nodeclass_is_not_ready_when_no_subnet_matches() {
    let fault = json!({"subnetSelectorTerms": [{"tags": {"team": "nobody"}}]});
    let hint = "no subnet matches subnetSelectorTerms";
    unready("no-subnet", fault, condition::SUBNETS_READY, reason::SUBNETS_NOT_FOUND, hint);
}

#[test]
fn nodeclass_is_not_ready_when_no_security_group_matches() {
    let fault = json!({"securityGroupSelectorTerms": [{"tags": {"team": "nobody"}}]});
    let hint = "no security group matches securityGroupSelectorTerms";
    unready("no-group", fault, condition::SECURITY_GROUPS_READY, reason::SECURITY_GROUPS_NOT_FOUND, hint);
}

#[test]
fn nodeclass_is_not_ready_when_no_image_matches() {
    let fault = json!({"amiFamily": "AL2023", "amiSelectorTerms": [{"tags": {"team": "nobody"}}]});
    unready("no-image", fault, condition::AMIS_READY, reason::AMI_NOT_FOUND, "amiSelectorTerms");
}

/// Waits until the status of the EC2NodeClass names a profile other than `before` that contains the role.
async fn profile_of(fixture: &Fixture, class: &str, role: &str, before: &str) -> Result<String> {
    eventually(&format!("class {class} to name a profile of role {role}"), LIMIT, async || {
        let name = fixture.api::<EC2NodeClass>().get(class).await?.status.unwrap_or_default().instance_profile;
        ensure!(!name.is_empty() && name != before, "it names {name:?}");
        let profiles = fixture.environment.ec2.profiles();
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
    run(async |fixture| {
        let of_role = |role: &str| class("roles", &json!({"instanceProfile": null, "role": role}));
        fixture.environment.apply_value(of_role("team/blue")).await?;
        let message =
            fixture.wait_for_class_condition("roles", condition::INSTANCE_PROFILE_READY, condition::FALSE).await?;
        ensure!(message.contains("team/blue") && message.contains("create the role in IAM"), "{message}");
        fixture.environment.ec2.add_role("blue");
        fixture.environment.ec2.add_role("green");
        fixture.wait_for_class_condition("roles", condition::READY, condition::TRUE).await?;
        let blue = profile_of(fixture, "roles", "blue", "").await?;
        fixture.environment.apply_value(of_role("green")).await?;
        let green = profile_of(fixture, "roles", "green", &blue).await?;
        let left = |name: &str| fixture.environment.ec2.profiles().iter().any(|profile| profile.name == name);
        ensure!(left(&blue), "machines may still run with the old profile");
        let templates = fixture.environment.ec2.template_names().len();
        ensure!(templates > 0, "no launch was tried out");
        fixture.api::<EC2NodeClass>().delete("roles", &DeleteParams::default()).await?;
        eventually("the class to be gone", LIMIT, async || {
            Ok(fixture.api::<EC2NodeClass>().get_opt("roles").await?.is_none().then_some(()))
        })
        .await?;
        ensure!(!left(&blue) && !left(&green), "profiles are left: {:?}", fixture.environment.ec2.profiles());
        let after = fixture.environment.ec2.template_names().len();
        ensure!(after < templates, "of {templates} launch templates {after} are left");
        Ok(())
    });
}

#[test]
fn nodepool_is_not_ready_when_nodeclass_is_missing() {
    run(async |fixture| {
        fixture.environment.apply_value(pool("classless", "missing")).await?;
        fixture.pod("waiting", "1", json!({label::NODEPOOL: "classless"})).await?;
        let (reason, message) =
            wait_for_pool_condition(fixture, "classless", condition::NODE_CLASS_READY, condition::FALSE).await?;
        ensure!(reason == reason::NODE_CLASS_NOT_FOUND && message.contains("create it"), "{reason}: {message}");
        fixture.wait_for_event("waiting", reason::FAILED_SCHEDULING, "EC2NodeClass \"missing\" does not exist").await?;
        ensure!(fixture.launched().is_empty(), "something was launched");
        fixture.api::<NodePool>().delete("classless", &DeleteParams::default()).await?;
        Ok(())
    });
}

/// After the fix of an EC2NodeClass, its NodePool and pods work without a change.
#[test]
fn nodepool_launches_when_nodeclass_is_fixed() {
    run(async |fixture| {
        let fault = json!({"subnetSelectorTerms": [{"tags": {"team": "nobody"}}]});
        fixture.environment.apply_value(class("mended", &fault)).await?;
        fixture.environment.apply_value(pool("mended", "mended")).await?;
        fixture.pod("waiting", "1", json!({label::NODEPOOL: "mended"})).await?;
        fixture.wait_for_event("waiting", reason::FAILED_SCHEDULING, "no subnet matches").await?;
        fixture.environment.apply_value(class("mended", &json!({}))).await?;
        eventually("a launch", LIMIT, async || {
            let launched = fixture.launched().len();
            ensure!(launched == 1, "{launched} instances were launched");
            Ok(Some(()))
        })
        .await?;
        let set: Api<ReplicaSet> = Api::namespaced(fixture.client.clone(), "default");
        set.delete("waiting", &DeleteParams::background()).await?;
        let claim = fixture.only_claim().await?;
        let name = claim.metadata.name.context("no name")?;
        fixture.api::<NodeClaim>().delete(&name, &DeleteParams::default()).await?;
        drop_pair(fixture, "mended").await
    });
}

#[test]
fn pod_event_reports_unschedulable_when_no_type_fits() {
    run(async |fixture| {
        fixture.pod("giant", "5000", json!({})).await?;
        fixture.pod("small", "1", json!({})).await?;
        let message = fixture.wait_for_event("giant", reason::FAILED_SCHEDULING, "too little cpu").await?;
        let numbers = message.chars().filter(char::is_ascii_digit).count();
        ensure!(message.contains("NodePool default") && message.contains(" types ") && numbers > 0, "{message}");
        fixture.runs("small").await?;
        fixture.one_instance_each().await?;
        ensure!(fixture.launched().len() == 1, "{} instances were launched", fixture.launched().len());
        Ok(())
    });
}
