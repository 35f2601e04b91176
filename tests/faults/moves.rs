//! Death of the controller while nodes are being replaced. The next controller reads the progress from the NodeClaims, and then
//! continues or makes the nodes schedulable again. No pod may be evicted before the replacement is initialized.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use api::objects::{Node, Pod};
use api::status::Conditioned;
use api::{NodeClaim, annotation, condition, finalizer, reason, taint};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use testbed::eventually;

use super::fixture::{Fixture, LIMIT, run};

/// Node with a pod that a dead controller was about to replace.
struct Condemned {
    app: &'static str,
    node: String,
    claim: NodeClaim,
    pod_uid: String,
    successor: String,
}

impl Condemned {
    async fn settled(fixture: &Fixture, app: &'static str) -> Result<Self> {
        fixture.pod(app, "1", json!({})).await?;
        let node = fixture.runs(app).await?;
        let (claim, _) = fixture.settled_claim().await?;
        let pod = pods(fixture, app).await?.pop().context("no pod")?;
        Ok(Self { app, node, claim, pod_uid: pod.uid().unwrap_or_default(), successor: format!("default-after-{app}") })
    }

    fn name(&self) -> String {
        self.claim.name_any()
    }

    /// Writes the first step of a replacement: the reason, and the taint against new pods.
    async fn close(&self, fixture: &Fixture) -> Result<()> {
        let mut claim = fixture.api::<NodeClaim>().get(&self.name()).await?;
        let now = jiff::Timestamp::now();
        claim.set(condition::DISRUPTION_REASON, condition::TRUE, "Underutilized", "", now);
        let status = json!({"status": {"conditions": claim.conditions()}});
        let params = PatchParams::default();
        fixture.api::<NodeClaim>().patch_status(&self.name(), &params, &Patch::Merge(status)).await?;
        let node = fixture.api::<Node>().get(&self.node).await?;
        let disrupted = api::Taint::new(taint::DISRUPTED, taint::NO_SCHEDULE);
        // The controller may see the condition first and add the taint itself.
        let others = node.spec.taints.into_iter().filter(|taint| taint.key != disrupted.key);
        let taints: Vec<_> = others.chain([disrupted.clone()]).collect();
        let taints = json!({"spec": {"taints": taints}});
        fixture.api::<Node>().patch(&self.node, &params, &Patch::Merge(taints)).await?;
        Ok(())
    }

    /// Writes the second step: the name of the replacement.
    async fn mark(&self, fixture: &Fixture) -> Result<()> {
        let mark = json!({"metadata": {"annotations": {annotation::REPLACED_BY: self.successor}}});
        fixture.api::<NodeClaim>().patch(&self.name(), &PatchParams::default(), &Patch::Merge(mark)).await?;
        Ok(())
    }

    /// Writes the third step: the NodeClaim of the replacement, not yet launched.
    async fn order(&self, fixture: &Fixture) -> Result<()> {
        let mut annotations = self.claim.metadata.annotations.clone().unwrap_or_default();
        annotations.remove(annotation::LAUNCH_TOKEN);
        annotations.insert(annotation::REPLACES.to_owned(), self.name());
        let pool = (api::label::NODEPOOL.to_owned(), "default".to_owned());
        let mut claim = NodeClaim::new(&self.successor, self.claim.spec.clone());
        claim.metadata = ObjectMeta {
            annotations: Some(annotations),
            labels: Some([pool].into()),
            finalizers: Some(vec![finalizer::TERMINATION.to_owned()]),
            owner_references: self.claim.metadata.owner_references.clone(),
            ..claim.metadata
        };
        fixture.api::<NodeClaim>().create(&PostParams::default(), &claim).await?;
        Ok(())
    }

    /// Reports whether the pod is on its node and is not terminating.
    async fn pod_is_untouched(&self, fixture: &Fixture) -> Result<bool> {
        let pods = pods(fixture, self.app).await?;
        Ok(pods.iter().any(|pod| pod.uid().as_deref() == Some(&self.pod_uid) && !pod.is_terminating()))
    }

    async fn replacement_has_condition(&self, fixture: &Fixture, type_: &str) -> Result<bool> {
        Ok(fixture.api::<NodeClaim>().get(&self.successor).await?.is_true(type_))
    }

    /// Waits until the replacement is initialized. The pod is read first, so that an early eviction is detected.
    async fn stays_until_the_successor_is_up(&self, fixture: &Fixture) -> Result<()> {
        eventually("the replacement to be initialized", LIMIT, async || {
            let untouched = self.pod_is_untouched(fixture).await?;
            let up = self.replacement_has_condition(fixture, condition::INITIALIZED).await?;
            ensure!(untouched || up, "the pod was sent away before {} was up", self.successor);
            Ok(up.then_some(()))
        })
        .await
    }

    async fn has_moved(&self, fixture: &Fixture) -> Result<()> {
        eventually("the old node and its claim to go", LIMIT, async || {
            let claim = fixture.api::<NodeClaim>().get_opt(&self.name()).await?;
            let node = fixture.api::<Node>().get_opt(&self.node).await?;
            ensure!(claim.is_none() && node.is_none(), "claim {}, node {}", claim.is_some(), node.is_some());
            Ok(Some(()))
        })
        .await?;
        let refuge = fixture.runs(self.app).await?;
        let successor = fixture.api::<NodeClaim>().get(&self.successor).await?;
        let named = successor.status.map(|status| status.node_name).unwrap_or_default();
        ensure!(refuge == named, "the pod runs on {refuge}, the replacement is {named}");
        ensure!(fixture.launched().len() == 2, "{} machines for one pod that moved", fixture.launched().len());
        fixture.one_instance_each().await
    }

    /// Waits until no trace of the replacement is left; the pod must be untouched.
    async fn is_as_before(&self, fixture: &Fixture) -> Result<()> {
        eventually("the node to open again", LIMIT, async || {
            ensure!(self.pod_is_untouched(fixture).await?, "the pod was sent away");
            let node = fixture.api::<Node>().get(&self.node).await?;
            let claim = fixture.api::<NodeClaim>().get(&self.name()).await?;
            let reported = api::status::find(claim.conditions(), condition::DISRUPTION_REASON).is_some();
            let closed = node.has_taint(taint::DISRUPTED, taint::NO_SCHEDULE);
            let marked = claim.replaced_by().is_some();
            ensure!(!closed && !reported && !marked, "closed: {closed}, says why: {reported}, marked: {marked}");
            ensure!(claim.metadata.deletion_timestamp.is_none(), "its claim is being deleted");
            Ok(Some(()))
        })
        .await
    }
}

async fn pods(fixture: &Fixture, app: &str) -> Result<Vec<Pod>> {
    Ok(fixture.pods().list(&ListParams::default().labels(&format!("app={app}"))).await?.items)
}

#[test]
fn controller_continues_replacement_when_nodeclaim_exists() {
    run(async |fixture| {
        let condemned = Condemned::settled(fixture, "ordered").await?;
        fixture.environment.kill_controller()?;
        condemned.close(fixture).await?;
        condemned.mark(fixture).await?;
        condemned.order(fixture).await?;
        fixture.environment.start_controller()?;
        condemned.stays_until_the_successor_is_up(fixture).await?;
        fixture.wait_for_event(&condemned.node, reason::DISRUPTION_TERMINATING, "Underutilized").await?;
        condemned.has_moved(fixture).await
    });
}

#[test]
fn controller_continues_replacement_when_killed_after_launch() {
    run(async |fixture| {
        let condemned = Condemned::settled(fixture, "started").await?;
        fixture.environment.kill_controller()?;
        condemned.close(fixture).await?;
        condemned.mark(fixture).await?;
        condemned.order(fixture).await?;
        fixture.environment.start_controller()?;
        eventually("the replacement to be launched", LIMIT, async || {
            ensure!(condemned.pod_is_untouched(fixture).await?, "the pod was sent away");
            Ok(condemned.replacement_has_condition(fixture, condition::LAUNCHED).await?.then_some(()))
        })
        .await?;
        fixture.environment.kill_controller()?;
        ensure!(condemned.pod_is_untouched(fixture).await?, "the pod was sent away");
        fixture.environment.start_controller()?;
        condemned.stays_until_the_successor_is_up(fixture).await?;
        // The test kills the controller once more, between the replacement's last gate and the end of the old node.
        fixture.environment.kill_controller()?;
        fixture.environment.start_controller()?;
        condemned.has_moved(fixture).await
    });
}

#[test]
fn controller_rolls_back_when_replacement_was_not_created() {
    run(async |fixture| {
        let condemned = Condemned::settled(fixture, "unbought").await?;
        fixture.environment.kill_controller()?;
        condemned.close(fixture).await?;
        condemned.mark(fixture).await?;
        fixture.environment.start_controller()?;
        fixture.wait_for_event(&condemned.node, reason::DISRUPTION_BLOCKED, &condemned.successor).await?;
        condemned.is_as_before(fixture).await?;
        ensure!(fixture.launched().len() == 1, "something was bought for nothing");
        Ok(())
    });
}

#[test]
fn controller_rolls_back_when_only_the_reason_was_written() {
    run(async |fixture| {
        let condemned = Condemned::settled(fixture, "unmarked").await?;
        fixture.environment.kill_controller()?;
        condemned.close(fixture).await?;
        fixture.environment.start_controller()?;
        condemned.is_as_before(fixture).await?;
        ensure!(fixture.launched().len() == 1, "something was bought for nothing");
        Ok(())
    });
}

#[test]
fn controller_rolls_back_when_replacement_is_deleted() {
    run(async |fixture| {
        let condemned = Condemned::settled(fixture, "bereft").await?;
        fixture.environment.kill_controller()?;
        condemned.close(fixture).await?;
        condemned.mark(fixture).await?;
        condemned.order(fixture).await?;
        fixture.api::<NodeClaim>().delete(&condemned.successor, &DeleteParams::default()).await?;
        fixture.environment.start_controller()?;
        condemned.is_as_before(fixture).await?;
        eventually("the replacement to go", LIMIT, async || {
            Ok(fixture.api::<NodeClaim>().get_opt(&condemned.successor).await?.is_none().then_some(()))
        })
        .await?;
        let names: BTreeSet<String> = fixture.claims().await?.iter().map(ResourceExt::name_any).collect();
        ensure!(names == BTreeSet::from([condemned.name()]), "{names:?}");
        fixture.one_instance_each().await
    });
}
