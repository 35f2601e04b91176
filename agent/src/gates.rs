//! Whether this node may serve: each gate is one fact about the machine, and the condition names those that are still closed.

use std::fs;
use std::path::Path;

use api::{condition, reason};
use serde::Deserialize;

use crate::cluster::Node;
use crate::report::Statement;

/// Below the machine's root: where the CNI plugin puts its configuration, and where bootstrap says how it went.
const CNI: &str = "etc/cni/net.d";
const BOOTSTRAP: &str = "run/kerf/bootstrap.json";
/// The `state` of a bootstrap that did not succeed.
const FAILED: &str = "failed";

/// What bootstrap says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Bootstrap {
    /// Where it stands; `failed` closes the gate.
    pub state: String,
    /// Why.
    pub reason: String,
    /// Since when, RFC 3339.
    pub since: String,
}

impl Bootstrap {
    /// Whether it did not succeed.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.state == FAILED
    }

    /// Reads its report below `root`; `None` without one, or with one that is just being written.
    #[must_use]
    pub fn read(root: &Path) -> Option<Self> {
        let text = fs::read(root.join(BOOTSTRAP)).ok()?;
        serde_json::from_slice(&text).ok()
    }
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
    pub bootstrap: Option<&'a Bootstrap>,
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

fn bootstrap(report: Option<&Bootstrap>) -> Option<String> {
    let failed = report.filter(|report| report.failed())?;
    Some(format!("bootstrap failed: {}", failed.reason))
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
        let failed = Bootstrap { state: FAILED.into(), reason: "no NodeConfig".into(), since: String::new() };
        let fine = Bootstrap { state: "done".into(), ..Bootstrap::default() };
        let rows = [
            (node(Some("True")), true, None, "True", "GatesOpen", "kubelet and CNI are ready"),
            (node(Some("True")), true, Some(&fine), "True", "GatesOpen", "kubelet and CNI are ready"),
            (node(Some("True")), false, None, "False", "CNI", "no CNI configuration in /etc/cni/net.d"),
            (node(Some("False")), true, None, "False", "Kubelet", "kubelet is not ready: PLEG is not healthy"),
            (node(Some("Unknown")), true, None, "False", "Kubelet", "kubelet is not ready: PLEG is not healthy"),
            (
                node(None),
                false,
                Some(&failed),
                "False",
                "Bootstrap,Kubelet,CNI",
                "bootstrap failed: no NodeConfig; kubelet has not reported yet; no CNI configuration in /etc/cni/net.d",
            ),
        ];
        for (node, cni, bootstrap, status, reason, message) in rows {
            let said = judge(Facts { node: &node, cni, bootstrap });
            assert_eq!((said.status, said.reason.as_str(), said.message.as_str()), (status, reason, message));
        }
    }
}
