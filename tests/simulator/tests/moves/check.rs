//! Invariants that must hold after every write of any client.

use std::collections::{BTreeMap, BTreeSet};

use api::objects::{Node, Pod, PodDisruptionBudget};
use api::status::Conditioned;
use api::{NodeClaim, condition};
use simulator::api_server::{BUDGETS, CLAIMS, Check, NODES, Objects, PODS};

/// Returns a check: at most `most_disturbed` nodes are disrupted at once, no pod is evicted before its replacement is
/// initialized, and no budget is violated.
pub fn of(most_disturbed: usize) -> Check {
    let mut kept: BTreeSet<String> = BTreeSet::new();
    Box::new(move |objects: &Objects| {
        let claims = objects.all::<NodeClaim>(CLAIMS);
        let disturbed: Vec<&str> = claims.iter().filter(|claim| is_disturbed(claim)).map(name).collect();
        if disturbed.len() > most_disturbed {
            return Some(format!(
                "{} nodes are disturbed at once, {most_disturbed} may be: {disturbed:?}",
                disturbed.len()
            ));
        }
        let (nodes, pods) = (objects.all::<Node>(NODES), objects.all::<Pod>(PODS));
        early(&claims, &nodes, &pods).or_else(|| broken(&objects.all(BUDGETS), &pods, &mut kept))
    })
}

fn name(claim: &NodeClaim) -> &str {
    claim.metadata.name.as_deref().unwrap()
}

/// Reports whether a NodeClaim counts in a budget: it is being deleted or replaced, and its instance is not terminating yet.
fn is_disturbed(claim: &NodeClaim) -> bool {
    let goes = claim.metadata.deletion_timestamp.is_some() || claim.replaced_by().is_some();
    goes && !claim.is_true(condition::INSTANCE_TERMINATING)
}

/// Returns a violation if a pod terminates on a node whose replacements are not all initialized.
fn early(claims: &[NodeClaim], nodes: &[Node], pods: &[Pod]) -> Option<String> {
    let up: BTreeSet<&str> = claims.iter().filter(|claim| claim.is_true(condition::INITIALIZED)).map(name).collect();
    let waits =
        |claim: &&NodeClaim| claim.replaced_by().is_some_and(|all| !all.split(',').all(|name| up.contains(name)));
    let waiting: BTreeMap<String, &str> =
        claims.iter().filter(waits).map(|claim| (claim.status.clone().unwrap().provider_id, name(claim))).collect();
    let held = nodes.iter().filter_map(|node| Some((node.name(), *waiting.get(&node.spec.provider_id)?)));
    let held: BTreeMap<&str, &str> = held.collect();
    let leaves =
        pods.iter().filter(|pod| pod.is_terminating()).find(|pod| held.contains_key(pod.spec.node_name.as_str()));
    leaves.map(|pod| format!("{} leaves before what replaces {} is up", pod.name(), held[pod.spec.node_name.as_str()]))
}

/// Returns a violation if fewer pods are ready than a budget requires, once that number was reached.
fn broken(budgets: &[PodDisruptionBudget], pods: &[Pod], kept: &mut BTreeSet<String>) -> Option<String> {
    budgets.iter().find_map(|budget| {
        let name = budget.metadata.name.clone().unwrap();
        let stays = serde_json::to_value(&budget.spec.min_available).unwrap().as_u64().unwrap();
        let ready = pods.iter().filter(|pod| budget.selects(pod) && pod.is_ready() && !pod.is_terminating()).count();
        if ready as u64 >= stays {
            kept.insert(name);
            return None;
        }
        kept.contains(&name).then(|| format!("{ready} pods of {name} are ready, {stays} have to be"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use simulator::api_server::{ApiServer, BUDGETS, CLAIMS, NODES, PODS};
    use simulator::clock::of_tokio;

    use super::of;

    fn checked(most_disturbed: usize) -> ApiServer {
        let server = ApiServer::new(of_tokio);
        let provider = |name: &str| format!("aws:///us-west-2a/i-{name}");
        for name in ["old", "new"] {
            let status = json!({"providerID": provider(name), "conditions": []});
            server.create(
                CLAIMS,
                json!({"metadata": {"name": name, "finalizers": ["f"]}, "spec": spec(), "status": status}),
            );
            server.create(NODES, json!({"metadata": {"name": name}, "spec": {"providerID": provider(name)}}));
        }
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        for name in ["one", "two"] {
            let metadata = json!({"name": name, "namespace": "default", "labels": {"app": "web"}});
            server.create(PODS, json!({"metadata": metadata, "spec": {"nodeName": "old"}, "status": ready}));
        }
        server.checked_by(of(most_disturbed));
        server
    }

    fn spec() -> Value {
        json!({"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}, "requirements": []})
    }

    fn marked(server: &ApiServer) {
        server.change(CLAIMS, "old", &json!({"metadata": {"annotations": {api::annotation::REPLACED_BY: "new"}}}));
    }

    #[test]
    fn invariants_report_too_many_disrupted_nodes() {
        let server = checked(0);
        marked(&server);
        assert!(server.faults()[0].starts_with("1 nodes are disturbed at once, 0 may be"), "{:?}", server.faults());
    }

    #[test]
    fn invariants_report_an_eviction_before_the_replacement() {
        let server = checked(1);
        marked(&server);
        assert_eq!(server.faults(), [] as [String; 0]);
        server.delete(PODS, "default/one");
        assert_eq!(server.faults(), ["one leaves before what replaces old is up"]);
    }

    #[test]
    fn invariants_report_a_violated_budget() {
        let server = checked(1);
        let selector = json!({"matchLabels": {"app": "web"}});
        let spec = json!({"minAvailable": 2, "selector": selector});
        server.create(BUDGETS, json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec}));
        assert_eq!(server.faults(), [] as [String; 0]);
        server.remove(PODS, "default/one");
        assert_eq!(server.faults(), ["1 pods of web are ready, 2 have to be"]);
    }
}
