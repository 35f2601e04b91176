//! A cluster whose controller has the IAM policies of Karpenter, evaluated by the fake of EC2 for every call.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use api::{EC2NodeClass, NodeClaim, NodePool, annotation, condition, label, reason};
use cloud::fake::{FakeInstance, Fault, Input, Logged, karpenter_policies};
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;
use testbed::environment::{CLUSTER, REGION};
use testbed::eventually;

use super::fixture::{Fixture, LIMIT, QUEUE, run};

const UID: &str = "kerf.sh/nodeclaim-uid";

/// Launch of two nodes in one fleet, tags, drain, termination, and an instance profile. The policies refuse one tag, which is
/// left out with one event.
#[test]
fn controller_works_with_the_iam_policies_of_karpenter() {
    run(async |fixture| {
        let begin = fixture.environment.ec2.log().len();
        fixture.environment.ec2.set_policies(Some(karpenter_policies(CLUSTER, REGION, QUEUE)));
        class(fixture, "with-role", ("role", format!("KarpenterNodeRole-{CLUSTER}"))).await?;
        launched_together(fixture).await?;
        tagged_without_uid(fixture).await?;
        drained(fixture).await?;
        delete_class(fixture, "with-role").await?;
        for call in ["CreateFleet(DryRun)", "CreateInstanceProfile", "TerminateInstances", "CreateTags"] {
            ensure!(fixture.environment.ec2.log()[begin..].iter().any(|logged| logged.call == call), "no {call}");
        }
        let refused: Vec<Logged> =
            fixture.environment.ec2.log()[begin..].iter().filter(|logged| is_unexpected(logged)).cloned().collect();
        ensure!(refused.is_empty(), "the policies refused {refused:?}");
        Ok(())
    });
}

/// Policies with rules for tags deny launches with tags of Kerf: launches omit them, with one event.
#[test]
fn controller_omits_own_tags_when_policies_deny_them_at_launch() {
    run(async |fixture| {
        let mut policies = karpenter_policies(CLUSTER, REGION, QUEUE);
        policies.add(&json!({"Statement": {
            "Effect": "Deny", "Action": ["ec2:CreateFleet", "ec2:RunInstances", "ec2:CreateTags"], "Resource": "*",
            "Condition": {"ForAnyValue:StringLike": {"aws:TagKeys": "kerf.sh/*"}},
        }}))?;
        fixture.environment.ec2.set_policies(Some(policies));
        let name = "bare";
        class(fixture, name, ("instanceProfile", format!("KerfNodeInstanceProfile-{CLUSTER}"))).await?;
        fixture.wait_for_event(name, reason::TAGS_DENIED, cloud::tags::LAUNCH_TOKEN_TAG).await?;
        let pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
            "spec": {
                "disruption": {"consolidateAfter": "Never"},
                "template": {"spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name},
                    "requirements": [{"key": label::ARCH, "operator": "In", "values": ["amd64"]}],
                }},
            },
        });
        fixture.environment.apply_value(pool).await?;
        fixture.pod(name, "1", json!({label::NODEPOOL: name})).await?;
        fixture.runs(name).await?;
        eventually("the tags of the node", LIMIT, async || {
            let launched = fixture.launched();
            let [machine] = launched.as_slice() else { anyhow::bail!("{} instances", launched.len()) };
            let tags = &machine.instance.tags;
            ensure!(!tags.keys().any(|key| key.starts_with("kerf.sh/")), "the policies allow the tags: {tags:?}");
            Ok((tags.contains_key("Name") && tags.contains_key(cloud::tags::NODE_CLAIM_TAG)).then_some(()))
        })
        .await?;
        fixture.api::<NodePool>().delete(name, &DeleteParams::default()).await?;
        delete_class(fixture, name).await
    });
}

/// Reports whether the policies refused a call for another reason than the tag with the UID.
fn is_unexpected(logged: &Logged) -> bool {
    let is_refused = matches!(&logged.fault, Some(Fault::Error { kind: cloud::ErrorKind::Unauthorized, .. }));
    is_refused && !matches!(&logged.input, Input::CreateTags(_, tags) if tags.contains_key(UID))
}

/// Creates an EC2NodeClass like `default` with another node identity, and waits until its dry runs succeed.
async fn class(fixture: &Fixture, name: &str, identity: (&str, String)) -> Result<()> {
    let mut class = serde_json::to_value(fixture.api::<EC2NodeClass>().get("default").await?)?;
    let mut spec = class["spec"].take();
    spec.as_object_mut().context("no spec")?.remove("instanceProfile");
    let (field, value) = identity;
    spec[field] = json!(value);
    let class = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": name}, "spec": spec,
    });
    fixture.environment.apply_value(class).await?;
    fixture.wait_for_class_condition(name, condition::VALIDATION_SUCCEEDED, "True").await?;
    fixture.wait_for_class_condition(name, condition::READY, "True").await?;
    Ok(())
}

/// Deletes an EC2NodeClass, and waits until it is gone.
async fn delete_class(fixture: &Fixture, name: &str) -> Result<()> {
    fixture.api::<EC2NodeClass>().delete(name, &DeleteParams::default()).await?;
    eventually("the class to go", LIMIT, async || {
        Ok(fixture.api::<EC2NodeClass>().get_opt(name).await?.is_none().then_some(()))
    })
    .await
}

/// Creates two pods that need a node each, and waits until they run on two instances of one fleet.
async fn launched_together(fixture: &Fixture) -> Result<()> {
    let app = json!({"app": "pair"});
    let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": app}},
    ]}});
    let pods = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "pair", "namespace": "default"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": app},
            "template": {"metadata": {"labels": app}, "spec": {
                "affinity": apart,
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": "1"}}}],
            }},
        },
    });
    fixture.environment.apply_value(pods).await?;
    eventually("two nodes", LIMIT, async || {
        let claims = fixture.claims().await?;
        let registered = claims.iter().filter(|claim| is_tagged(claim)).count();
        ensure!(registered == 2, "{registered} of {} claims are tagged", claims.len());
        Ok(Some(()))
    })
    .await?;
    let tokens: BTreeSet<String> = fixture.launched().into_iter().map(|machine| machine.client_token).collect();
    ensure!(fixture.launched().len() == 2 && tokens.len() == 1, "launched by {tokens:?}");
    Ok(())
}

fn is_tagged(claim: &NodeClaim) -> bool {
    claim.annotations().get(annotation::INSTANCE_TAGGED).is_some_and(|value| value == annotation::TRUE)
}

/// Asserts that instances of one fleet have the tags of Karpenter, and that an event names the tag that is left out.
async fn tagged_without_uid(fixture: &Fixture) -> Result<()> {
    for machine in fixture.launched() {
        let tags = &machine.instance.tags;
        ensure!(tags.contains_key("Name") && tags.contains_key("karpenter.sh/nodeclaim"), "{tags:?}");
        ensure!(!tags.contains_key(UID), "the policies allow the tag: {tags:?}");
    }
    fixture.wait_for_event("default", reason::TAGS_DENIED, UID).await?;
    Ok(())
}

/// Deletes one NodeClaim: its node is drained, its instance is terminated, and its pod runs on a new node.
async fn drained(fixture: &Fixture) -> Result<()> {
    let claim = fixture.claims().await?.pop().context("no claim")?;
    fixture.api::<NodeClaim>().delete(&claim.name_any(), &DeleteParams::default()).await?;
    eventually("the claim to go, and another one", LIMIT, async || {
        let gone = fixture.api::<NodeClaim>().get_opt(&claim.name_any()).await?.is_none();
        let running: Vec<FakeInstance> =
            fixture.launched().into_iter().filter(|machine| !machine.instance.is_ending()).collect();
        let claims = fixture.claims().await?;
        ensure!(gone && claims.len() == 2 && running.len() == 2, "{gone}, {} claims, {running:?}", claims.len());
        Ok(claims.iter().all(is_tagged).then_some(()))
    })
    .await
}
