//! Retired names: labels and annotations in any manifest, metrics in Prometheus rules. The replacement changes only these
//! names, not the text around them.

use super::tree::Node;

/// Labels, annotations and fields that were renamed.
const NAMES: [(&str, &str); 4] = [
    ("karpenter.sh/do-not-evict", "karpenter.sh/do-not-disrupt"),
    ("karpenter.sh/do-not-consolidate", "karpenter.sh/do-not-disrupt"),
    ("karpenter.sh/provisioner-name", "karpenter.sh/nodepool"),
    ("whenUnsatisfied", "whenUnsatisfiable"),
];

/// Metrics that were renamed, without the common prefix.
const METRICS: [(&str, &str); 41] = [
    ("allocation_controller_scheduling_duration_seconds", "scheduler_scheduling_duration_seconds"),
    ("cloudprovider_instance_type_price_estimate", "cloudprovider_instance_type_offering_price_estimate"),
    ("deprovisioning_actions_performed", "voluntary_disruption_decisions_total"),
    ("deprovisioning_consolidation_timeouts", "voluntary_disruption_consolidation_timeouts_total"),
    ("deprovisioning_eligible_machines", "voluntary_disruption_eligible_nodes"),
    ("deprovisioning_evaluation_duration_seconds", "voluntary_disruption_decision_evaluation_duration_seconds"),
    ("deprovisioning_replacement_machine_launch_failure_counter", "voluntary_disruption_queue_failures_total"),
    ("disruption_actions_performed_total", "voluntary_disruption_decisions_total"),
    ("disruption_budgets_allowed_disruptions", "nodepools_allowed_disruptions"),
    ("disruption_consolidation_timeouts_total", "voluntary_disruption_consolidation_timeouts_total"),
    ("disruption_eligible_nodes", "voluntary_disruption_eligible_nodes"),
    ("disruption_evaluation_duration_seconds", "voluntary_disruption_decision_evaluation_duration_seconds"),
    ("disruption_replacement_nodeclaim_failures_total", "voluntary_disruption_queue_failures_total"),
    ("interruption_deleted_messages", "interruption_deleted_messages_total"),
    ("interruption_message_latency_time_seconds", "interruption_message_queue_duration_seconds"),
    ("interruption_received_messages", "interruption_received_messages_total"),
    ("machines_created", "nodeclaims_created_total"),
    ("machines_disrupted", "nodeclaims_disrupted_total"),
    ("machines_terminated", "nodeclaims_terminated_total"),
    ("nodeclaims_created", "nodeclaims_created_total"),
    ("nodeclaims_disrupted", "nodeclaims_disrupted_total"),
    ("nodeclaims_terminated", "nodeclaims_terminated_total"),
    ("nodepool_limit", "nodepools_limit"),
    ("nodepool_usage", "nodepools_usage"),
    ("nodes_created", "nodes_created_total"),
    ("nodes_terminated", "nodes_terminated_total"),
    ("nodes_termination_time_seconds", "nodes_termination_duration_seconds"),
    ("nodes_termination_time_seconds_count", "nodes_termination_duration_seconds_count"),
    ("nodes_termination_time_seconds_sum", "nodes_termination_duration_seconds_sum"),
    ("pods_startup_time_seconds", "pods_startup_duration_seconds"),
    ("pods_startup_time_seconds_count", "pods_startup_duration_seconds_count"),
    ("pods_startup_time_seconds_sum", "pods_startup_duration_seconds_sum"),
    ("provisioner_limit", "nodepools_limit"),
    ("provisioner_scheduling_duration_seconds", "scheduler_scheduling_duration_seconds"),
    ("provisioner_scheduling_duration_seconds_bucket", "scheduler_scheduling_duration_seconds_bucket"),
    ("provisioner_scheduling_duration_seconds_count", "scheduler_scheduling_duration_seconds_count"),
    ("provisioner_scheduling_duration_seconds_sum", "scheduler_scheduling_duration_seconds_sum"),
    ("provisioner_scheduling_queue_depth", "scheduler_queue_depth"),
    ("provisioner_scheduling_simulation_duration_seconds", "scheduler_scheduling_duration_seconds"),
    ("provisioner_scheduling_simulation_duration_seconds_bucket", "scheduler_scheduling_duration_seconds_bucket"),
    ("provisioner_usage", "nodepools_usage"),
];

/// Metrics without a one-to-one replacement, with the fix.
const GONE: [(&str, &str); 16] = [
    ("consistency_errors", CONSISTENCY),
    ("deprovisioning_replacement_machine_initialized_seconds", TRANSITIONS),
    ("disruption_pods_disrupted_total", "count evictions by karpenter_pods_eviction_requests_total{code=\"200\"}"),
    ("disruption_queue_depth", "count nodes by karpenter_nodepools_nodes_consuming_budgets"),
    ("disruption_replacement_nodeclaim_initialized_seconds", TRANSITIONS),
    ("interruption_actions_performed", DISRUPTED),
    ("interruption_actions_performed_total", DISRUPTED),
    ("machines_drifted", DRIFTED),
    ("machines_initialized", INITIALIZED),
    ("machines_launched", LAUNCHED),
    ("machines_registered", REGISTERED),
    ("nodeclaims_drifted", DRIFTED),
    ("nodeclaims_initialized", INITIALIZED),
    ("nodeclaims_launched", LAUNCHED),
    ("nodeclaims_registered", REGISTERED),
    (
        "provisioner_usage_pct",
        "divide karpenter_nodepools_usage by karpenter_nodepools_limit, both by nodepool and resource_type",
    ),
];

const CONSISTENCY: &str = "delete the rule: the memory overhead is measured and used by plans";
const DISRUPTED: &str = "write karpenter_interruption_received_messages_total, by message_type";
const DRIFTED: &str = "write operator_nodeclaim_status_condition_transitions_total{type=\"Drifted\", status=\"True\"}";
const INITIALIZED: &str =
    "write operator_nodeclaim_status_condition_transitions_total{type=\"Initialized\", status=\"True\"}";
const LAUNCHED: &str =
    "write operator_nodeclaim_status_condition_transitions_total{type=\"Launched\", status=\"True\"}";
const REGISTERED: &str =
    "write operator_nodeclaim_status_condition_transitions_total{type=\"Registered\", status=\"True\"}";
const TRANSITIONS: &str = "write operator_nodeclaim_status_condition_transition_seconds{type=\"Initialized\"}";
/// Prefix of all of Karpenter's own metrics.
const PREFIX: &str = "karpenter_";

/// Text with replaced names.
pub(super) struct Renamed {
    pub(super) text: String,
    pub(super) hits: Vec<Hit>,
}

/// One replaced name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    /// Number of lines before the name.
    pub(super) line: usize,
    pub(super) old: String,
    pub(super) new: String,
}

/// Replaces retired labels, annotations and fields.
pub(super) fn names(text: &str) -> Renamed {
    let known = |word: &str| NAMES.iter().find(|(old, _)| *old == word).map(|(_, new)| (*new).to_owned());
    replaced(text, |letter| "-_./".contains(letter), |word, _| known(word))
}

/// Reports whether a document contains Prometheus rules.
pub(super) fn are_rules(root: &Node) -> bool {
    let groups = |node: &Node| {
        node.get("groups").is_some_and(|it| it.items().iter().any(|one| one.value.get("rules").is_some()))
    };
    match root.text_at(&["kind"]) {
        "" => groups(root),
        "PrometheusRule" => root.get("spec").is_some_and(groups),
        _ => false,
    }
}

/// Replaces retired metrics, and the label `provisioner`.
///
/// # Errors
/// Returns metrics without a replacement: the number of lines before each, the problem and the fix.
pub(super) fn metrics(text: &str) -> Result<Renamed, Vec<(usize, String, String)>> {
    let mut gone = Vec::new();
    let found = replaced(
        text,
        |letter| letter == '_',
        |word, context| {
            if word == "provisioner" && context.is_label() {
                return Some("nodepool".to_owned());
            }
            let name = word.strip_prefix(PREFIX)?;
            if let Some((_, cure)) = GONE.iter().find(|(old, _)| *old == name) {
                gone.push((context.line, format!("metric {word} was removed"), (*cure).to_owned()));
            }
            METRICS.iter().find(|(old, _)| *old == name).map(|(_, new)| format!("{PREFIX}{new}"))
        },
    );
    if gone.is_empty() { Ok(found) } else { Err(gone) }
}

/// Position of a name in the text.
struct Context<'a> {
    line: usize,
    before: &'a str,
    after: &'a str,
}

impl Context<'_> {
    /// Reports whether the name is a label of a query or template: `{a="b"}`, `by (a, b)`, `$labels.a`.
    fn is_label(&self) -> bool {
        let next = self.after.trim_start();
        let last = self.before.trim_end();
        let compared = ["=", "!=", "=~", "!~"].iter().any(|sign| next.starts_with(sign)) && last.ends_with(['{', ',']);
        let listed = next.starts_with([',', ')']) && last.ends_with(['(', ',']);
        compared || listed || self.before.ends_with("$labels.") || self.before.ends_with(".Labels.")
    }
}

/// Replaces names in a text. A name consists of ASCII letters, digits and the characters that `belongs` accepts.
fn replaced(
    text: &str,
    belongs: impl Fn(char) -> bool,
    mut new: impl FnMut(&str, &Context<'_>) -> Option<String>,
) -> Renamed {
    let mut out = Renamed { text: String::with_capacity(text.len()), hits: Vec::new() };
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || belongs(letter);
    let (mut at, mut line) = (0, 0);
    while let Some(letter) = text[at..].chars().next() {
        if !is_word(letter) {
            line += usize::from(letter == '\n');
            out.text.push(letter);
            at += letter.len_utf8();
            continue;
        }
        let end = text[at..].find(|letter| !is_word(letter)).map_or(text.len(), |length| at + length);
        let (word, context) = (&text[at..end], Context { line, before: &text[..at], after: &text[end..] });
        match new(word, &context) {
            Some(new) => {
                out.text.push_str(&new);
                out.hits.push(Hit { line, old: word.to_owned(), new });
            }
            None => out.text.push_str(word),
        }
        at = end;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_renames_provisioner_when_it_is_a_label() {
        let rows = [
            (
                "sum by (provisioner) (karpenter_provisioner_usage{provisioner=\"a\"})",
                "sum by (nodepool) (karpenter_nodepools_usage{nodepool=\"a\"})",
            ),
            ("{{ $labels.provisioner }} is full", "{{ $labels.nodepool }} is full"),
            ("the provisioner, of course", "the provisioner, of course"),
            ("karpenter_nodes_created_total", "karpenter_nodes_created_total"),
            ("my_karpenter_nodes_created", "my_karpenter_nodes_created"),
        ];
        for (text, expected) in rows {
            assert_eq!(metrics(text).ok().unwrap().text, expected);
        }
        assert!(metrics("rate(karpenter_nodeclaims_launched[5m])").is_err());
    }

    #[test]
    fn metrics_table_contains_no_retired_name_as_replacement() {
        for (_, new) in METRICS {
            assert!(METRICS.iter().all(|(old, _)| *old != new) && GONE.iter().all(|(old, _)| *old != new), "{new}");
        }
    }
}
