//! Whether this node may serve: each gate is one fact about the machine, and the condition names those that are still closed.

use std::fs;
use std::path::Path;

use api::{condition, reason};

use crate::bootstrap::state::{self, State};
use crate::cluster::Node;
use crate::report::Statement;

/// Below the machine's root: where the CNI plugin puts its configuration.
const CNI: &str = "etc/cni/net.d";

/// Where bootstrap stands below `root`; `None` before it has said anything, or while the file makes no sense.
#[must_use]
pub fn bootstrap_state(root: &Path) -> Option<State> {
    let text = fs::read(root.join(state::PATH.trim_start_matches('/'))).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Whether a CNI configuration is there below `root`.
#[must_use]
pub fn has_cni(root: &Path) -> bool {
    let entries = fs::read_dir(root.join(CNI)).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("conf" | "conflist"))
    })
}

/// The facts that the gates are about.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Our Node, whose providerID has been compared with our instance.
    pub node: &'a Node,
    /// A CNI configuration is there.
    pub cni: bool,
    /// What bootstrap said last.
    pub bootstrap: Option<&'a State>,
}

/// The condition `kerf.sh/Ready` that follows from the facts.
#[must_use]
pub fn judge(facts: Facts<'_>) -> Statement {
    let closed: Vec<(&str, String)> = [
        bootstrap(facts.bootstrap).map(|why| ("Bootstrap", why)),
        kubelet(facts.node).map(|why| ("Kubelet", why)),
        cni(facts.cni).map(|why| ("CNI", why)),
    ]
    .into_iter()
    .flatten()
    .collect();
    if closed.is_empty() {
        return Statement {
            kind: condition::AGENT_READY,
            status: condition::TRUE,
            reason: reason::GATES_OPEN.to_owned(),
            message: "kubelet and CNI are ready".to_owned(),
        };
    }
    let (names, whys): (Vec<_>, Vec<_>) = closed.into_iter().unzip();
    Statement {
        kind: condition::AGENT_READY,
        status: condition::FALSE,
        reason: names.join(","),
        message: whys.join("; "),
    }
}

fn bootstrap(state: Option<&State>) -> Option<String> {
    match state {
        Some(State::Done { .. }) => None,
        Some(State::Waiting { reason, .. }) => Some(format!("bootstrap waits: {reason}")),
        Some(State::Failed { reason, .. }) => Some(format!("bootstrap cannot go on: {reason}")),
        None => Some("bootstrap has not reported since the machine started".to_owned()),
    }
}

fn kubelet(node: &Node) -> Option<String> {
    match node.condition(condition::READY) {
        Some(ready) if ready.status == condition::TRUE => None,
        Some(ready) => Some(format!("kubelet is not ready: {}", ready.message)),
        None => Some("kubelet has not reported yet".to_owned()),
    }
}

fn cni(there: bool) -> Option<String> {
    (!there).then(|| format!("no CNI configuration in /{CNI}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::NodeCondition;

    fn node(ready: Option<&str>) -> Node {
        let mut node = Node::default();
        node.status.conditions.extend(ready.map(|status| NodeCondition {
            kind: condition::READY.into(),
            status: status.into(),
            message: "PLEG is not healthy".into(),
            ..NodeCondition::default()
        }));
        node
    }

    #[test]
    fn closed_gates_are_named() {
        let since = jiff::Timestamp::UNIX_EPOCH;
        let waiting = State::Waiting { reason: "no NodeConfig".into(), since };
        let failed = State::Failed { reason: "no NodeConfig".into(), since };
        let done = State::Done { node_name: "n".into(), since };
        let silent = "bootstrap has not reported since the machine started";
        let no_cni = "no CNI configuration in /etc/cni/net.d";
        let sick = "kubelet is not ready: PLEG is not healthy";
        let all = format!("bootstrap waits: no NodeConfig; kubelet has not reported yet; {no_cni}");
        let open = ("True", "GatesOpen", "kubelet and CNI are ready");
        let rows = [
            (Some("True"), true, Some(&done), open),
            (Some("True"), true, None, ("False", "Bootstrap", silent)),
            (Some("True"), true, Some(&failed), ("False", "Bootstrap", "bootstrap cannot go on: no NodeConfig")),
            (Some("True"), false, Some(&done), ("False", "CNI", no_cni)),
            (Some("False"), true, Some(&done), ("False", "Kubelet", sick)),
            (Some("Unknown"), true, Some(&done), ("False", "Kubelet", sick)),
            (None, false, Some(&waiting), ("False", "Bootstrap,Kubelet,CNI", all.as_str())),
        ];
        for (ready, cni, bootstrap, expected) in rows {
            let said = judge(Facts { node: &node(ready), cni, bootstrap });
            assert_eq!((said.status, said.reason.as_str(), said.message.as_str()), expected);
        }
    }
}
