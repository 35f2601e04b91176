//! Tests of the tagging of instances, with the IAM policies of Karpenter.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use api::{NodeClaim, annotation, condition};
use cloud::fake::{FakeCloud, Input, karpenter_policies};
use cloud::policy::evaluation::PolicySet;
use cloud::{Cloud, Filter, FleetConfig, FleetOverride, FleetRequest, Instance, LaunchTemplateRequest, Tags};
use daemon::metric::Metrics;
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tokio::sync::mpsc::unbounded_channel;

use super::{DeniedTags, TagResult, Tagged, is_done, missing_tags, tag, untagged};
use crate::lease::Leading;
use crate::state::cluster::Cluster;
use crate::state::index::Index;
use crate::write::events::EventRecorder;
use crate::write::writer::{Clients, Writer};
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
    let (metrics, leading) = (Arc::new(Metrics::new(&metrics::table())), Leading::without_election());
    let clients = Clients { general: client.clone(), eviction: client };
    (Writer::new(clients, Arc::new(cloud.clone()), cluster, metrics, leading), asked)
}

fn cloud() -> FakeCloud {
    FakeCloud::builder("us-west-2").only_types(&["m5.large"]).build().unwrap()
}

fn claim() -> Arc<NodeClaim> {
    fixture::claim(&json!({"status": {"nodeName": "node-1"}}))
}

fn tags(pairs: &[(&str, &str)]) -> Tags {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Returns all tags of a new node.
fn wanted() -> Tagged {
    Tagged { allowed: missing_tags(&claim(), &Instance::default(), "kerf"), left_out: Tags::new() }
}

/// Launches an instance with Karpenter's tags, and returns its id.
async fn launched(cloud: &FakeCloud) -> String {
    let template = LaunchTemplateRequest {
        name: "karpenter.k8s.aws/1".to_owned(),
        image_id: cloud.images(&Filter::default()).await.unwrap()[0].id.clone(),
        ..LaunchTemplateRequest::default()
    };
    cloud.create_launch_template(&template).await.unwrap();
    let subnet = &cloud.subnets(&Filter::default()).await.unwrap()[0];
    let pool = FleetOverride {
        instance_type: "m5.large".to_owned(),
        zone: subnet.zone.clone(),
        subnet_id: subnet.id.clone(),
        ..FleetOverride::default()
    };
    let request = FleetRequest {
        target: 1,
        capacity_type: "on-demand".to_owned(),
        configs: vec![FleetConfig { launch_template: template.name, overrides: vec![pool] }],
        tags: tags(&[("kubernetes.io/cluster/kerf", "owned"), ("karpenter.sh/nodepool", "default")]),
        ..FleetRequest::default()
    };
    cloud.create_fleet(&request).await.unwrap().instances[0].id.clone()
}

/// A deleted instance or NodeClaim is not a failure. The NodeClaim of a deleted instance is not annotated.
#[tokio::test(start_paused = true)]
async fn tag_succeeds_when_instance_or_nodeclaim_is_deleted() {
    let cloud = cloud();
    let (writer, asked) = writer(&cloud);
    tag(&writer, &claim(), "i-0123456789abcdef0", wanted()).await.unwrap();
    assert_eq!((cloud.count("CreateTags"), asked.load(Ordering::Relaxed)), (1, 0));
    tag(&writer, &claim(), "i-0123456789abcdef0", Tagged::default()).await.unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

/// IAM denies a call as a whole. Each tag is then written alone, and the NodeClaim is annotated without the UID.
#[tokio::test(start_paused = true)]
async fn tag_leaves_out_the_uid_when_karpenter_policies_deny_it() {
    let cloud = cloud();
    let id = launched(&cloud).await;
    cloud.set_policies(Some(karpenter_policies("kerf", "us-west-2", "kerf")));
    let (writer, asked) = writer(&cloud);
    let result = tag(&writer, &claim(), &id, wanted()).await.unwrap();
    assert_eq!(result.denied.keys().collect::<Vec<_>>(), ["kerf.sh/nodeclaim-uid"]);
    let found = cloud.machine(&id).unwrap().instance.tags;
    assert_eq!((&found["Name"], &found["karpenter.sh/nodeclaim"]), (&"node-1".to_owned(), &"default-1".to_owned()));
    assert_eq!((cloud.count("CreateTags"), asked.load(Ordering::Relaxed)), (5, 1));
    let mut denied = DeniedTags::default();
    denied.learn(&result, fixture::at(0));
    let (allowed, left_out) = denied.split(wanted().allowed, fixture::at(1));
    let again = tag(&writer, &claim(), &id, Tagged { allowed, left_out }).await.unwrap();
    assert_eq!((again.denied, cloud.count("CreateTags")), (Tags::new(), 6));
    let refused =
        |logged: &cloud::fake::Logged| logged.fault.is_some() && matches!(logged.input, Input::CreateTags(..));
    assert_eq!(cloud.log().iter().filter(|logged| refused(logged)).count(), 2, "the whole, and the UID alone");
}

/// Without Karpenter's tags the NodeClaim is not annotated, so the tags are tried again.
#[tokio::test(start_paused = true)]
async fn tag_does_not_annotate_when_policies_deny_every_tag() {
    let cloud = cloud();
    let id = launched(&cloud).await;
    cloud.set_policies(Some(PolicySet::default()));
    let (writer, asked) = writer(&cloud);
    let result = tag(&writer, &claim(), &id, wanted()).await.unwrap();
    assert_eq!((result.denied.len(), result.written.len(), asked.load(Ordering::Relaxed)), (4, 0, 0));
    assert!(!is_done(&result.denied));
}

/// Rows: written and denied tags, and the seconds until the denied tags are tried again.
#[test]
fn denied_tags_are_tried_again_after_their_time() {
    let uid = [("kerf.sh/nodeclaim-uid", "uid")];
    let name = [("Name", "node-1")];
    let rows = [(&name[..], &uid[..], 3600), (&[], &uid, 3600), (&uid, &name, 3600), (&[], &name, 300)];
    for (written, denied, wait) in rows {
        let result = TagResult { written: tags(written), denied: tags(denied) };
        let mut known = DeniedTags::default();
        known.learn(&result, fixture::at(0));
        let left_out = |seconds| known.split(tags(denied), fixture::at(seconds)).1.len();
        assert_eq!((left_out(wait - 1), left_out(wait)), (1, 0), "{result:?}");
    }
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
        ("on its way out", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["f"]}}), 0),
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
fn missing_tags_are_only_those_that_the_instance_lacks() {
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
        let instance = Instance { tags: tags(has), ..Instance::default() };
        let missing = missing_tags(&claim(), &instance, "kerf");
        assert!(missing.keys().eq(written), "{has:?}: {missing:?}");
    }
}
