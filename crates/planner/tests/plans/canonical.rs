//! Plans without positions, for comparisons of plans of the same cluster in another input order.

use planner::{Launch, Plan, Snapshot};

/// Returns a plan with names in place of positions, in sorted order.
pub fn canonical(snapshot: &Snapshot, plan: &Plan) -> String {
    let name = |pod: &usize| snapshot.pods[*pod].name.clone();
    let launches = plan.launches.iter().map(|launch| {
        let pods: Vec<String> = launch.pods.iter().map(name).collect();
        (pods, Launch { pods: Vec::new(), ..launch.clone() })
    });
    let mut nominations: Vec<(String, &String)> = plan.nominations.iter().map(|it| (name(&it.pod), &it.node)).collect();
    nominations.sort();
    let mut pods: Vec<(String, String)> =
        plan.report.pods.iter().enumerate().map(|(pod, it)| (name(&pod), format!("{it:?}"))).collect();
    pods.sort();
    let mut nodes: Vec<String> = plan.report.nodes.iter().map(|it| format!("{it:?}")).collect();
    nodes.sort();
    format!("{:#?}", (launches.collect::<Vec<_>>(), nominations, &plan.moves, pods, nodes))
}
