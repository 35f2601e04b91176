//! Labels that kubelet may set on its own Node. kubelet does not start with another label of Kubernetes' domains.

/// Domains of Kubernetes, with their subdomains.
const KUBERNETES: [&str; 2] = ["kubernetes.io", "k8s.io"];
/// Domains whose labels kubelet may set, with their subdomains.
const PERMITTED_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
/// Other labels of Kubernetes' domains that kubelet may set.
const PERMITTED: [&str; 10] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];
/// Flag of kubelet with labels.
const FLAG: &str = "--node-labels";

/// Fix for a label that kubelet may not set.
pub const CURE: &str = "use a domain of your own, or set the label in spec.template.metadata.labels of the NodePool";

/// Reports whether a label belongs to a domain of Kubernetes.
#[must_use]
pub fn is_of_kubernetes(key: &str) -> bool {
    is_in(key, &KUBERNETES)
}

/// Reports whether kubelet does not start with this label in its flags.
#[must_use]
pub fn is_refused_by_kubelet(key: &str) -> bool {
    is_of_kubernetes(key) && !is_in(key, &PERMITTED_DOMAINS) && !PERMITTED.contains(&key)
}

fn is_in(key: &str, domains: &[&str]) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let below = |known: &&str| domain.strip_suffix(*known).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    domains.iter().any(below)
}

/// Flags of kubelet without the labels that it may not set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PermittedFlags {
    /// Flags; those without such labels are unchanged.
    pub flags: Vec<String>,
    /// Keys of the removed labels, in order.
    pub removed: Vec<String>,
}

/// Removes labels that kubelet may not set. An element may have several flags, and a flag may have its value in the next element.
#[must_use]
pub fn permitted_flags(flags: &[String]) -> PermittedFlags {
    let mut found = PermittedFlags::default();
    let mut value_follows = false;
    for flag in flags {
        let before = found.removed.len();
        let words: Vec<String> = flag
            .split_whitespace()
            .filter_map(|word| permitted_word(word, &mut value_follows, &mut found.removed))
            .collect();
        let kept = if found.removed.len() == before { flag.clone() } else { words.join(" ") };
        found.flags.extend((found.removed.len() == before || !kept.is_empty()).then_some(kept));
    }
    found
}

/// Returns the word without such labels; `None` if none is left and the flag is in the same word.
fn permitted_word(word: &str, value_follows: &mut bool, removed: &mut Vec<String>) -> Option<String> {
    if std::mem::take(value_follows) {
        return Some(permitted_labels(word, removed).unwrap_or_else(|| "\"\"".to_owned()));
    }
    *value_follows = word == FLAG;
    let Some(labels) = word.strip_prefix(FLAG).and_then(|rest| rest.strip_prefix('=')) else {
        return Some(word.to_owned());
    };
    permitted_labels(labels, removed).map(|labels| format!("{FLAG}={labels}"))
}

/// Returns the labels that kubelet may set, with the quotes around them; `None` without one.
fn permitted_labels(labels: &str, removed: &mut Vec<String>) -> Option<String> {
    let quote = ["\"", "'"].into_iter().find(|quote| labels.starts_with(quote)).unwrap_or_default();
    let is_kept = |pair: &&str| {
        let key = pair.split_once('=').map_or(*pair, |(key, _)| key).trim();
        let is_refused = is_refused_by_kubelet(key);
        removed.extend(is_refused.then(|| key.to_owned()));
        !is_refused
    };
    let kept: Vec<&str> = labels.trim_matches(['"', '\'']).split(',').filter(is_kept).collect();
    (!kept.is_empty()).then(|| format!("{quote}{}{quote}", kept.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_refused_by_kubelet_follows_the_rules_of_kubelet() {
        for (key, expected) in [
            ("kubernetes.io/cluster/shop", true),
            ("node-role.kubernetes.io/worker", true),
            ("node-restriction.kubernetes.io/team", true),
            ("x.k8s.io/y", true),
            ("kubernetes.io/os", false),
            ("topology.kubernetes.io/zone", false),
            ("node.kubernetes.io/profile", false),
            ("mine.node.kubernetes.io/profile", false),
            ("kubelet.kubernetes.io/x", false),
            ("mykubernetes.io/x", false),
            ("example.com/kubernetes.io", false),
            ("team", false),
        ] {
            assert_eq!(is_refused_by_kubelet(key), expected, "{key}");
        }
    }

    #[test]
    fn permitted_flags_removes_labels_that_kubelet_may_not_set() {
        let worker = "node-role.kubernetes.io/worker";
        for (flags, expected, removed) in [
            (vec!["--v=2", "--node-labels=a=b,c=d"], vec!["--v=2", "--node-labels=a=b,c=d"], 0),
            (vec!["--node-labels=node-role.kubernetes.io/worker=,a=b"], vec!["--node-labels=a=b"], 1),
            (vec!["--node-labels=\"a=b,node-role.kubernetes.io/worker=x\""], vec!["--node-labels=\"a=b\""], 1),
            (vec!["--node-labels=node-role.kubernetes.io/worker", "--v=2"], vec!["--v=2"], 1),
            (vec!["--v=2 --node-labels=node-role.kubernetes.io/worker=x --x"], vec!["--v=2 --x"], 1),
            (vec!["--node-labels", "node-role.kubernetes.io/worker=x,a=b"], vec!["--node-labels", "a=b"], 1),
            (vec!["--node-labels", "node-role.kubernetes.io/worker=x"], vec!["--node-labels", "\"\""], 1),
            (vec!["  --v=2   --x"], vec!["  --v=2   --x"], 0),
        ] {
            let flags: Vec<String> = flags.into_iter().map(str::to_owned).collect();
            let found = permitted_flags(&flags);
            assert_eq!(found.flags, expected, "{flags:?}");
            assert_eq!(found.removed, vec![worker; removed], "{flags:?}");
        }
    }
}
