//! Attempts that fail again and again: each one waits longer than the one before, and a state that nothing ends is ended by a
//! timer.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::objects::Node;
use api::status::Conditioned;
use api::{NodeClaim, NodePool, condition, label, reason};
use controller::settings::Gates;
use http::{Method, Request, Response, StatusCode};
use jiff::SignedDuration;
use kube::client::Body;
use serde_json::{Value, json};
use simulator::api_server::{ApiServer, CLAIMS, Check, NODES, Objects, POOLS, refused};
use simulator::cluster::{ModelCluster, pool};
use simulator::controller_run::ControllerRun;
use simulator::crash::Crash;
use simulator::middleware::Middleware;
use simulator::surroundings::{Boot, Workload};
use tokio::task::JoinSet;

/// Boot of instances that never register.
fn dead() -> Boot {
    Boot { duds: 100, ..Boot::default() }
}

/// Boot of instances whose kubelet never reports Ready.
fn never_ready() -> Boot {
    Boot { ready: SignedDuration::from_hours(100), ..Boot::default() }
}

fn check(objection: impl FnMut(&Objects) -> Option<String> + Send + 'static) -> Check {
    Box::new(objection)
}

/// Returns an objection if more NodeClaims than this exist.
fn at_most(claims: usize) -> Check {
    check(move |objects| {
        let found = objects.all::<NodeClaim>(CLAIMS).len();
        (found > claims).then(|| format!("{found} NodeClaims, allowed are {claims}"))
    })
}

/// Returns the status of a condition of the NodePool.
fn pool_condition(cluster: &ModelCluster, type_: &str) -> Option<String> {
    let pool = cluster.server.get::<NodePool>(POOLS, "default").unwrap();
    api::status::find(pool.conditions(), type_).map(|found| found.status.clone())
}

/// Returns the check [`at_most`] that also collects the names of all NodeClaims.
fn collects(names: &Arc<Mutex<BTreeSet<String>>>, limit: usize) -> Check {
    let (names, mut at_most) = (Arc::clone(names), at_most(limit));
    check(move |objects| {
        let claims = objects.all::<NodeClaim>(CLAIMS);
        names.lock().unwrap().extend(claims.iter().map(|claim| claim.metadata.name.clone().unwrap_or_default()));
        at_most(objects)
    })
}

/// Returns the number of instances that EC2 describes; ended ones disappear after an hour.
fn ever(cluster: &ModelCluster) -> usize {
    cluster.ec2.machines().len()
}

/// Changes the template of the NodePool, so that every node has drifted.
fn drift(cluster: &ModelCluster) {
    let labelled = json!({"spec": {"template": {"metadata": {"labels": {"tier": "new"}}}}});
    cluster.server.change(POOLS, "default", &labelled);
}

/// Returns a cluster whose nodes have drifted, and whose replacements boot like this.
async fn drifting(nodes: usize, boot: Boot) -> (ModelCluster, ControllerRun) {
    let disruption = json!({"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]});
    let cluster = ModelCluster::new(pool(&["m5.large"], disruption), Gates::default());
    let controller_run = cluster.controller_run();
    cluster.want("web", Workload::of(nodes, 1500));
    cluster.until("the fleet", |cluster| cluster.is_settled(nodes, nodes)).await;
    cluster.surroundings.boot(boot);
    drift(&cluster);
    cluster
        .until("the replacements", |cluster| match ever(cluster) {
            found if found == 2 * nodes => Ok(()),
            found => Err(format!("{found} machines")),
        })
        .await;
    (cluster, controller_run)
}

/// Attempts begin after about 0, 20, 50, 100 and 170 minutes. The first one has three replacements, each later one a single
/// one.
#[tokio::test(start_paused = true)]
async fn drift_backs_off_when_replacements_never_register() {
    let (cluster, controller_run) = drifting(3, dead()).await;
    let names = Arc::default();
    cluster.server.checked_by(collects(&names, 6));
    tokio::time::sleep(Duration::from_secs(660)).await;
    assert_eq!(pool_condition(&cluster, condition::REPLACEMENTS_HEALTHY).as_deref(), Some("False"));
    let events = controller_run.events();
    assert!(events.iter().any(|event| event.starts_with(reason::REPLACEMENTS_FAILED)), "{events:#?}");
    tokio::time::sleep(Duration::from_secs(3 * 3600 - 660)).await;
    assert_eq!(cluster.server.faults(), [] as [String; 0]);
    assert_eq!(names.lock().unwrap().len(), 3 + 3 + 4, "NodeClaims ever");
    let running = cluster.pods().iter().filter(|pod| pod.is_ready() && !pod.is_terminating()).count();
    assert_eq!(running, 3, "the old nodes stay");
}

/// The failed replacement is deleted 15 minutes after its registration. When machines boot again, the next attempt succeeds.
#[tokio::test(start_paused = true)]
async fn drift_recovers_when_replacements_initialize_again() {
    let (cluster, controller_run) = drifting(1, never_ready()).await;
    cluster.server.checked_by(at_most(2));
    tokio::time::sleep(Duration::from_secs(1150)).await;
    let events = controller_run.events();
    assert!(events.iter().any(|event| event.starts_with(reason::INITIALIZATION_TIMEOUT)), "{events:#?}");
    assert_eq!((cluster.claims().len(), ever(&cluster)), (1, 2), "the next attempt waits");
    cluster.surroundings.boot(Boot::default());
    cluster
        .until("the replacement", |cluster| match ever(cluster) {
            3 => cluster.is_settled(1, 1),
            found => Err(format!("{found} machines")),
        })
        .await;
    assert_eq!(pool_condition(&cluster, condition::REPLACEMENTS_HEALTHY), None);
    assert_eq!(cluster.server.faults(), [] as [String; 0]);
}

/// The process that knows of the failure is gone, and the objects still tell that a replacement is not initialized.
#[tokio::test(start_paused = true)]
async fn drift_waits_for_a_failed_replacement_after_a_restart() {
    let (cluster, controller_run) = drifting(1, never_ready()).await;
    tokio::time::sleep(Duration::from_secs(620)).await;
    controller_run.kill();
    cluster.server.checked_by(at_most(2));
    let _next = cluster.controller_run();
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!((cluster.claims().len(), ever(&cluster)), (2, 2), "the failed replacement and no other");
    cluster
        .until("its deletion", |cluster| match cluster.claims().len() {
            1 => Ok(()),
            found => Err(format!("{found} NodeClaims")),
        })
        .await;
    assert_eq!(cluster.server.faults(), [] as [String; 0]);
}

/// API server that rejects new NodeClaims from some moment on, as an admission webhook does.
#[derive(Default)]
struct Rejecting {
    on: AtomicBool,
    rejected: AtomicUsize,
}

impl Middleware for Rejecting {
    async fn pass(&self, server: Arc<ApiServer>, request: Request<Body>) -> Response<Body> {
        let creates = *request.method() == Method::POST && request.uri().path().ends_with(CLAIMS);
        if creates && self.on.load(Ordering::Relaxed) {
            self.rejected.fetch_add(1, Ordering::Relaxed);
            return refused(StatusCode::FORBIDDEN);
        }
        server.answer(request).await
    }
}

/// Without a memory, the node would be tainted and opened again many times a minute.
#[tokio::test(start_paused = true)]
async fn drift_backs_off_when_the_replacement_is_rejected() {
    let disruption = json!({"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]});
    let cluster = ModelCluster::new(pool(&["m5.large"], disruption), Gates::default());
    let (crash, rejecting) = (Arc::new(Crash::never()), Arc::new(Rejecting::default()));
    let mut controller_run = cluster.awake(crash.alive(), crash, Arc::clone(&rejecting));
    controller_run.plans(cluster.rules());
    cluster.want("web", Workload::of(1, 1500));
    cluster.until("a node", |cluster| cluster.is_settled(1, 1)).await;
    rejecting.on.store(true, Ordering::Relaxed);
    drift(&cluster);
    tokio::time::sleep(Duration::from_secs(500)).await;
    assert_eq!(rejecting.rejected.load(Ordering::Relaxed), 1);
    assert_eq!(pool_condition(&cluster, condition::REPLACEMENTS_HEALTHY).as_deref(), Some("False"));
    assert_eq!(cluster.is_settled(1, 1), Ok(()), "the node is open again");
    rejecting.on.store(false, Ordering::Relaxed);
    cluster
        .until("the replacement", |cluster| match ever(cluster) {
            2 => cluster.is_settled(1, 1),
            found => Err(format!("{found} machines")),
        })
        .await;
}

/// A budget that allows all nodes together: the limit alone decides how many replacements exist beside the old nodes, deleted
/// ones included.
#[tokio::test(start_paused = true)]
async fn static_pool_counts_deleted_claims_for_its_limit() {
    let gates = Gates { static_capacity: true, ..Gates::default() };
    let mut fixed = pool(&["m5.large"], json!({"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}));
    simulator::api_server::merge(&mut fixed, &json!({"spec": {"replicas": 10, "limits": {"nodes": "12"}}}));
    let cluster = ModelCluster::new(fixed, gates);
    let _controller_run = cluster.controller_run();
    cluster.server.checked_by(at_most(12));
    cluster.until("the replicas", |cluster| cluster.is_settled(10, 0)).await;
    drift(&cluster);
    cluster
        .until("another fleet", |cluster| match ever(cluster) {
            20 => cluster.is_settled(10, 0),
            found => Err(format!("{found} machines")),
        })
        .await;
    assert_eq!(cluster.server.faults(), [] as [String; 0]);
}

/// Returns a NodeClaim that a user creates for this EC2NodeClass.
fn standalone(class: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": format!("alone-{class}")},
        "spec": {
            "requirements": [{"key": label::INSTANCE_TYPE, "operator": "In", "values": ["m5.large"]}],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": class},
            "expireAfter": "Never",
        },
    })
}

/// NodeClaims without an instance are deleted immediately with the cause, running nodes stay, and pending pods create no NodeClaim until the
/// EC2NodeClass is ready again.
#[tokio::test(start_paused = true)]
async fn claims_are_deleted_when_their_class_is_not_ready() {
    let cluster = ModelCluster::new(pool(&["m5.large"], json!({"consolidateAfter": "Never"})), Gates::default());
    let controller_run = cluster.controller_run();
    cluster.want("web", Workload::of(1, 1500));
    cluster.until("a node", |cluster| cluster.is_settled(1, 1)).await;
    let subnets = |tag: &str| json!({"spec": {"subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": tag}}]}});
    cluster.server.change("ec2nodeclasses", "default", &subnets("nowhere"));
    cluster
        .until("the class", |cluster| match pool_condition(cluster, condition::READY).as_deref() {
            Some("False") => Ok(()),
            found => Err(format!("{found:?}")),
        })
        .await;
    cluster.server.checked_by(at_most(3));
    for (class, cause) in [("default", reason::NODE_CLASS_NOT_READY), ("missing", reason::NODE_CLASS_NOT_FOUND)] {
        cluster.server.create(CLAIMS, standalone(class));
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(cluster.claims().len(), 1, "{class}");
        let events = controller_run.events();
        assert!(events.iter().any(|event| event.starts_with(cause)), "{events:#?}");
    }
    cluster.want("web", Workload::of(2, 1500));
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!((cluster.claims().len(), ever(&cluster)), (1, 1), "the running node stays alone");
    cluster.server.change("ec2nodeclasses", "default", &subnets("kerf"));
    cluster.until("another node", |cluster| cluster.is_settled(2, 2)).await;
    assert_eq!(cluster.server.faults(), [] as [String; 0]);
}

/// Another program that taints each node of the default NodePool once it has registered.
async fn taint_nodes(server: Arc<ApiServer>) {
    loop {
        for node in server.all::<Node>(NODES) {
            let ours = node.label(label::NODEPOOL) == Some("default") && node.label(label::REGISTERED).is_some();
            if ours && !node.has_taint("foreign", "NoExecute") {
                let mut taints = node.spec.taints.clone();
                taints.push(api::Taint::new("foreign", "NoExecute"));
                server.change(NODES, node.name(), &json!({"spec": {"taints": taints}}));
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The pauses are 10, 20, 40 s and so on, up to 10 minutes. A pod that another NodePool serves does not wait.
#[tokio::test(start_paused = true)]
async fn provisioning_backs_off_when_no_node_takes_the_pod() {
    let disruption = json!({"consolidateAfter": "0s", "consolidationPolicy": "WhenEmpty"});
    let mut sound = pool(&["m5.large"], disruption.clone());
    simulator::api_server::merge(&mut sound, &json!({"metadata": {"name": "sound"}}));
    let cluster = ModelCluster::new(pool(&["m5.large"], disruption), Gates::default());
    cluster.server.create(POOLS, sound);
    // The taint is there before kube-scheduler can bind the pod.
    cluster.surroundings.boot(Boot { ready: SignedDuration::from_secs(5), ..Boot::default() });
    let controller_run = cluster.controller_run();
    let tainting = JoinSet::from_iter([taint_nodes(Arc::clone(&cluster.server))]);
    let in_pool = |pool: &str| Workload {
        template: json!({"spec": {"nodeSelector": {label::NODEPOOL: pool}}}),
        ..Workload::of(1, 1500)
    };
    cluster.want("web", in_pool("default"));
    tokio::time::sleep(Duration::from_secs(150)).await;
    assert!((3..=9).contains(&ever(&cluster)), "{} machines after 150 s", ever(&cluster));
    assert_eq!(pool_condition(&cluster, condition::LAUNCHES_HEALTHY).as_deref(), Some("False"));
    let events = controller_run.events();
    for part in [reason::LAUNCHES_FAILED, "launches gave the pod no place"] {
        assert!(events.iter().any(|event| event.contains(part)), "{part}: {events:#?}");
    }
    cluster.want("api", in_pool("sound"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let serves = |pod: &api::objects::Pod| pod.is_ready() && pod.name().starts_with("api");
    assert!(cluster.pods().iter().any(serves), "the other pool is not delayed");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(ever(&cluster) <= 20, "{} machines after an hour", ever(&cluster));
    drop(tainting);
    cluster
        .until("both pods", |cluster| {
            let running = cluster.pods().iter().filter(|pod| pod.is_ready()).count();
            if running == 2 { Ok(()) } else { Err(format!("{running} run")) }
        })
        .await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(pool_condition(&cluster, condition::LAUNCHES_HEALTHY), None);
}
