//! Pods that go to nodes fit there with all that is or will be there; nodes that go may go.

use std::collections::BTreeMap;

use crate::{Node, NodeVerdict, Plan, PodShape, RemovalReason, Requirement, Resources, Snapshot, Stage};

use super::Findings;
use super::labels::{alternatives, lacking, satisfied, suits, unborne};

pub(super) fn check(snapshot: &Snapshot, plan: &Plan, findings: &mut Findings) {
    let mut guests: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for nomination in &plan.nominations {
        guests.entry(&nomination.node).or_default().push(nomination.pod);
    }
    for (name, pods) in &guests {
        match snapshot.nodes.iter().find(|node| node.name == *name) {
            None => findings.add(format!("node {name}"), "is not in the snapshot"),
            Some(node) => receives(snapshot, node, pods, findings),
        }
    }
    for removal in &plan.removals {
        let subject = format!("node {}", removal.node);
        match snapshot.nodes.iter().find(|node| node.name == removal.node) {
            None => findings.add(subject, "is removed but not in the snapshot"),
            Some(node) => {
                let guests = guests.contains_key(node.name.as_str());
                removable(snapshot, node, guests, &subject, findings);
                findings.expect(removal.saving == node.price, &subject, || "the saving is not its price".to_owned());
                findings
                    .expect(Some(&removal.claim) == node.claim.as_ref(), &subject, || "has another claim".to_owned());
            }
        }
    }
    reported(snapshot, plan, findings);
}

fn receives(snapshot: &Snapshot, node: &Node, pods: &[usize], findings: &mut Findings) {
    let subject = format!("node {}", node.name);
    findings.expect(node.leaving.is_none(), &subject, || "is leaving and gets pods".to_owned());
    findings.expect(!node.unschedulable, &subject, || "is cordoned and gets pods".to_owned());
    let mut wanted = node.used.clone();
    for pod in pods {
        let pod = &snapshot.pods[*pod];
        let shape = &snapshot.shapes[pod.shape];
        wanted.add(&shape.requests);
        if let Some(taint) = unborne(&node.taints, &shape.tolerations) {
            findings.add(&subject, format!("pod {} does not bear taint {taint}", pod.name));
        }
        findings.expect(fulfils(snapshot, node, shape), &subject, || format!("pod {} wants other labels", pod.name));
    }
    // Daemons that are certain to come and are not there yet; those that a claim may still attract are the solver's care.
    let mut daemons = Resources::default();
    for daemon in &snapshot.daemons {
        let comes = unborne(&node.taints, &daemon.shape.tolerations).is_none();
        if comes && fulfils(snapshot, node, &daemon.shape) {
            daemons.add(&daemon.shape.requests);
        }
    }
    for (name, amount) in daemons.iter() {
        let missing = (amount - node.daemon_used.get(name)).max(0);
        wanted.add(&Resources::from_iter([(name, missing)]));
    }
    // What is there already may exceed the node without the plan's fault; only asked-for resources count.
    let asked =
        |resource: &str| pods.iter().any(|pod| snapshot.shapes[snapshot.pods[*pod].shape].requests.get(resource) > 0);
    let asked: Resources = wanted.iter().filter(|(name, _)| asked(name)).collect();
    let lacking = lacking(&asked, &node.allocatable);
    findings.expect(lacking.is_empty(), &subject, || format!("is overfull: {}", lacking.join(", ")));
}

/// Whether the node, or whatever the claim may become, is what the pod requires.
fn fulfils(snapshot: &Snapshot, node: &Node, shape: &PodShape) -> bool {
    if node.stage != Stage::InFlight || node.requirements.is_empty() {
        return suits(shape, &node.labels);
    }
    alternatives(shape).iter().any(|all| {
        all.iter().all(|asked| match node.labels.get(&asked.key) {
            Some(value) => satisfied(asked, Some(value)),
            None => surely(snapshot, node, asked),
        })
    })
}

/// Whether a label that is still open will be as asked in any case: every value that the claim allows is, of those that
/// anybody mentions and one that nobody does.
fn surely(snapshot: &Snapshot, node: &Node, asked: &Requirement) -> bool {
    let own: Vec<&Requirement> = node.requirements.iter().filter(|own| own.key == asked.key).collect();
    if own.is_empty() {
        return !snapshot.policy.well_known.contains(&asked.key) && satisfied(asked, None);
    }
    let kinds = snapshot.catalogues.iter().flat_map(|catalogue| &catalogue.types);
    let of_types = kinds.filter_map(|kind| kind.labels.get(&asked.key)).flatten();
    let mentioned = own.iter().flat_map(|own| &own.values).chain(&asked.values).chain(of_types);
    let all = mentioned.map(|value| Some(value.as_str())).chain([None, Some("a value that nobody mentions")]);
    let mut allowed = all.filter(|value| own.iter().all(|own| satisfied(own, *value))).peekable();
    allowed.peek().is_some() && allowed.all(|value| satisfied(asked, value))
}

fn removable(snapshot: &Snapshot, node: &Node, guests: bool, subject: &str, findings: &mut Findings) {
    let pool = snapshot.pools.iter().find(|pool| Some(&pool.name) == node.pool.as_ref());
    let after = pool.and_then(|pool| pool.disruption.consolidate_after);
    let waited = match (node.quiet_since, after) {
        (Some(since), Some(after)) => since.0 + after <= snapshot.now.0,
        _ => false,
    };
    let rows = [
        (node.claim.is_some(), "is removed but not managed"),
        (node.leaving.is_none(), "is removed twice"),
        (node.stage == Stage::Initialized, "is removed before it is initialized"),
        (node.pods.iter().all(|pod| !pod.reschedulable), "is removed with pods on it"),
        (!node.do_not_disrupt && node.pods.iter().all(|pod| !pod.do_not_disrupt), "is removed against do-not-disrupt"),
        (!guests, "is removed while pods are sent there"),
        (node.nominated_until.is_none_or(|until| until <= snapshot.now), "is removed while a promise holds"),
        (waited, "is removed before it was quiet for long enough"),
    ];
    for (holds, fault) in rows {
        findings.expect(holds, subject, || fault.to_owned());
    }
}

/// Every managed node has a verdict, and exactly the removed ones are said to go.
fn reported(snapshot: &Snapshot, plan: &Plan, findings: &mut Findings) {
    let managed: Vec<&str> = snapshot.nodes.iter().filter(|it| it.claim.is_some()).map(|it| it.name.as_str()).collect();
    let said: Vec<&str> = plan.report.nodes.iter().map(|(name, _)| name.as_str()).collect();
    findings.expect(managed == said, "report", || format!("verdicts for {said:?}, managed are {managed:?}"));
    for (name, verdict) in &plan.report.nodes {
        let goes = *verdict == NodeVerdict::Remove(RemovalReason::Empty);
        let removed = plan.removals.iter().filter(|removal| removal.node == *name).count();
        let expected = usize::from(goes);
        findings.expect(removed == expected, &format!("node {name}"), || {
            format!("is removed {removed} times, the verdict says {expected}")
        });
    }
}
