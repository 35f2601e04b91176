//! Instance tags that can be written only after registration: the name and the owner of the instance. Nothing waits for these
//! tags, so they are written slowly, and only if they are missing. An existing tag `Name` is kept.

use std::sync::Arc;
use std::time::Duration;

use api::status::Conditioned;
use api::{NodeClaim, annotation, condition};
use cloud::launch::{ClaimId, ownership_tags};
use cloud::tags::CLUSTER_TAG;
use cloud::{CloudError, Instance, Tags};
use serde_json::json;

use crate::gc::periodic::{PeriodicTask, TaskContext};
use crate::state::index::Index;
use crate::write::writer::{Operation, Target, WriteError, Writer};

/// Interval between checks for nodes without their tags.
const EVERY: Duration = Duration::from_secs(10);
/// Pause after each CreateTags call, which shares its rate limit with urgent calls.
const PAUSE: Duration = Duration::from_secs(1);
/// Tag that consoles show as the name of an instance.
const NAME: &str = "Name";

/// Periodic tagging of instances with the names of their nodes.
pub struct Tagging;

impl PeriodicTask for Tagging {
    const NAME: &'static str = "tagging";
    const FIRST_PAUSE: Duration = EVERY;

    async fn run(&mut self, context: &TaskContext) -> Result<Duration, CloudError> {
        let TaskContext { cluster, offerings, writer } = context;
        let shifted = offerings.shifted_zones(cluster.now());
        let mut due = cluster.read(untagged);
        due.retain(|claim| {
            !claim.provider_id().and_then(cloud::zone_of_provider_id).is_some_and(|zone| shifted.contains(zone))
        });
        if due.is_empty() {
            return Ok(EVERY);
        }
        let known = offerings.own_instances_by_provider_id().await?;
        for claim in due {
            let Some(instance) = claim.provider_id().and_then(|id| known.get(id)) else { continue };
            if let Err(error) = tag(writer, decide(&claim, instance, &offerings.settings().cluster_name)).await {
                let (name, error) = (claim.metadata.name.as_deref().unwrap_or_default(), daemon::error::chain(&error));
                tracing::warn!(nodeclaim = name, error = error.as_str(), "failed to tag instance, retrying");
            }
        }
        Ok(EVERY)
    }
}

/// Runs the operations, with a pause after each write to EC2.
async fn tag(writer: &Writer, steps: Vec<Operation>) -> Result<(), WriteError> {
    for step in steps {
        let writes_tags = matches!(step, Operation::Tag(..));
        match writer.run(step).await {
            Err(error) if is_gone(&error) => return Ok(()),
            other => other?,
        }
        if writes_tags {
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}

/// Reports whether the instance or the NodeClaim is deleted, so that no tags are needed.
fn is_gone(error: &WriteError) -> bool {
    error.status() == Some(404) || matches!(error, WriteError::Cloud(error) if error.kind == cloud::ErrorKind::NotFound)
}

/// Returns registered NodeClaims without the annotation of written tags.
fn untagged(index: &Index) -> Vec<Arc<NodeClaim>> {
    let is_due = |claim: &&Arc<NodeClaim>| {
        let annotations = claim.metadata.annotations.as_ref();
        let tagged = annotations.and_then(|all| all.get(annotation::INSTANCE_TAGGED));
        let named = claim.status.as_ref().is_some_and(|status| !status.node_name.is_empty());
        claim.metadata.deletion_timestamp.is_none()
            && claim.is_true(condition::REGISTERED)
            && named
            && tagged.is_none_or(|value| value != annotation::TRUE)
    };
    index.claims.values().filter(is_due).cloned().collect()
}

/// Returns operations that write the missing tags, then annotate the NodeClaim.
#[must_use]
pub fn decide(claim: &NodeClaim, instance: &Instance, cluster: &str) -> Vec<Operation> {
    let id = ClaimId {
        name: claim.metadata.name.clone().unwrap_or_default(),
        uid: claim.metadata.uid.clone().unwrap_or_default(),
    };
    let node = claim.status.as_ref().map(|status| status.node_name.clone()).unwrap_or_default();
    let mut wanted: Tags = ownership_tags(&id);
    wanted.insert(NAME.to_owned(), node);
    wanted.insert(CLUSTER_TAG.to_owned(), cluster.to_owned());
    wanted.retain(|key, value| match instance.tags.get(key) {
        Some(_) if key == NAME => false,
        Some(found) => found != value,
        None => true,
    });
    let annotated = json!({"metadata": {"annotations": {
        annotation::INSTANCE_TAGGED: annotation::TRUE,
        annotation::CLUSTER_NAME_TAGGED: annotation::TRUE,
    }}});
    let write = (!wanted.is_empty()).then(|| Operation::Tag(instance.id.clone(), wanted));
    write.into_iter().chain([Operation::Patch(Target::Claim(id.name), annotated)]).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use api::{annotation, condition};
    use cloud::Instance;
    use cloud::fake::FakeCloud;
    use daemon::metric::Metrics;
    use jiff::Timestamp;
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;
    use tokio::sync::mpsc::unbounded_channel;

    use super::{decide, tag, untagged};
    use crate::state::cluster::Cluster;
    use crate::state::index::Index;
    use crate::write::events::EventRecorder;
    use crate::write::writer::{Clients, Operation, Writer};
    use crate::{fixture, metrics};

    /// Returns a writer whose API server answers 404 to each request, and the number of requests.
    fn writer(cloud: &FakeCloud) -> (Writer, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&asked);
        let unknown = move |_: http::Request<Body>| {
            counts.fetch_add(1, Ordering::Relaxed);
            let status =
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404});
            let answer = http::Response::builder().status(404).body(Body::from(status.to_string().into_bytes()));
            std::future::ready(answer)
        };
        let client = Client::new(tower::service_fn(unknown), "default");
        let (plan, _triggers) = unbounded_channel();
        let cluster = Cluster::new(plan, EventRecorder::new().0);
        let (metrics, leading) = (Arc::new(Metrics::new(&metrics::table())), Arc::new(AtomicBool::new(true)));
        (
            Writer::new(
                Clients { general: client.clone(), eviction: client },
                Arc::new(cloud.clone()),
                cluster,
                metrics,
                leading,
            ),
            asked,
        )
    }

    /// A deleted instance or NodeClaim is not a failure. The NodeClaim of a deleted instance is not annotated.
    #[tokio::test]
    async fn tag_succeeds_when_instance_or_nodeclaim_is_deleted() {
        let cloud = FakeCloud::builder("us-west-2").only_types(&["m5.large"]).build().unwrap();
        let claim = fixture::claim(&json!({"status": {"nodeName": "node-1"}}));
        let steps = decide(&claim, &Instance { id: "i-0123456789abcdef0".to_owned(), ..Instance::default() }, "kerf");
        let [Operation::Tag(..), Operation::Patch(..)] = &steps[..] else { panic!("{steps:?}") };
        let word = steps[1].clone();
        let (writer, asked) = writer(&cloud);
        tag(&writer, steps).await.unwrap();
        assert_eq!((cloud.count("CreateTags"), asked.load(Ordering::Relaxed)), (1, 0));
        tag(&writer, vec![word]).await.unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }

    /// Rows: a change of a registered NodeClaim with a node, and whether the NodeClaim is returned. A tagged NodeClaim costs no
    /// call.
    #[test]
    fn untagged_skips_tagged_and_unregistered_nodeclaims() {
        let registered =
            |status: &str| json!({"status": {"conditions": [fixture::condition(condition::REGISTERED, status, 1)]}});
        let tagged = |value: &str| json!({"metadata": {"annotations": {annotation::INSTANCE_TAGGED: value}}});
        let rows = [
            ("registered", json!({}), 1),
            ("said to have them", tagged("true"), 0),
            ("said to have none", tagged("false"), 1),
            ("not registered", registered("Unknown"), 0),
            ("without a node", json!({"status": {"nodeName": ""}}), 0),
            (
                "on its way out",
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["f"]}}),
                0,
            ),
        ];
        for (what, change, expected) in rows {
            let mut whole = registered("True");
            fixture::merge(&mut whole, &json!({"status": {"nodeName": "node-1"}}));
            fixture::merge(&mut whole, &change);
            let mut index = Index::default();
            drop(index.apply(fixture::claim(&whole).as_ref().clone(), Timestamp::UNIX_EPOCH, true));
            assert_eq!(untagged(&index).len(), expected, "{what}");
        }
    }

    type Row<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);

    /// Rows: tags of the instance, and the tags that are written.
    #[test]
    fn decide_writes_only_missing_tags() {
        let claim = fixture::claim(&json!({"status": {"nodeName": "node-1"}}));
        let whole = [
            ("Name", "mine"),
            ("karpenter.sh/nodeclaim", "default-1"),
            ("kerf.sh/nodeclaim-uid", "claim-uid"),
            ("eks:eks-cluster-name", "kerf"),
        ];
        let rows: [Row<'_>; 4] = [
            (&[], &["Name", "eks:eks-cluster-name", "karpenter.sh/nodeclaim", "kerf.sh/nodeclaim-uid"]),
            (&whole[..1], &["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "kerf.sh/nodeclaim-uid"]),
            (&whole[1..], &["Name"]),
            (&whole, &[]),
        ];
        assert_eq!(rows[0].1, cloud::policy::LATER_TAGS, "IAM allows these and no others");
        for (has, written) in rows {
            let tags = has.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let instance = Instance { id: "i-1".to_owned(), tags, ..Instance::default() };
            let steps = decide(&claim, &instance, "kerf");
            let keys: Vec<String> = steps
                .iter()
                .filter_map(|step| match step {
                    Operation::Tag(_, tags) => Some(tags.keys().cloned().collect::<Vec<_>>()),
                    _ => None,
                })
                .flatten()
                .collect();
            assert_eq!(keys, written, "{has:?}");
            assert!(matches!(steps.last(), Some(Operation::Patch(..))), "the claim says that it is done");
        }
    }
}
