//! Replaces retired metrics and the label `provisioner` in a text, and nothing else.

use super::super::retired::{Context, Renamed, replaced};
use super::exported;
use super::renamed::{METRICS, PREFIX};

/// Replaces retired metrics, and the label `provisioner` of Karpenter's metrics.
pub(in crate::convert) fn metrics(text: &str) -> Renamed {
    replaced(
        text,
        |letter| letter == '_',
        |word, context| {
            if word == "provisioner" {
                return is_label_of_karpenter(context).then(|| "nodepool".to_owned());
            }
            current_name(word)
        },
    )
}

/// Returns the current name of a metric that was renamed.
fn current_name(name: &str) -> Option<String> {
    let new = |name: &str| {
        let name = name.strip_prefix(PREFIX)?;
        METRICS.iter().find(|(old, _)| *old == name).map(|(_, new)| format!("{PREFIX}{new}"))
    };
    let (base, suffix) = exported::split_suffix(name);
    let of_histogram = || new(base).filter(|new| exported::is_histogram(new)).map(|new| format!("{new}{suffix}"));
    new(name).or_else(of_histogram)
}

/// Reports whether a name is a label of a query or template with metrics of Karpenter: `{a="b"}`, `by (a, b)`, `$labels.a`.
/// Metrics of storage have a label of the same name.
fn is_label_of_karpenter(context: &Context<'_>) -> bool {
    let next = context.after.trim_start();
    let last = context.before.trim_end();
    if ["=", "!=", "=~", "!~"].iter().any(|sign| next.starts_with(sign)) && last.ends_with(['{', ',']) {
        let name = last.rfind('{').map_or("", |brace| last[..brace].trim_end());
        return name.rsplit(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next().is_some_and(is_own);
    }
    let is_listed = next.starts_with([',', ')']) && last.ends_with(['(', ',']);
    if is_listed {
        let (before, after) = near(context);
        return has_own_metric(before, after);
    }
    (context.before.ends_with("$labels.") || context.before.ends_with(".Labels.") || in_legend(last, next))
        && has_own_metric(context.before, context.after)
}

/// Reports whether a name is a label in the legend of a panel, `{{a}}`.
fn in_legend(before: &str, after: &str) -> bool {
    before.ends_with("{{") && after.starts_with("}}")
}

/// Returns the lines around a name: its own, the one before and the one after, since queries are often broken at an operator.
fn near<'a>(context: &Context<'a>) -> (&'a str, &'a str) {
    let start = context.before.rmatch_indices('\n').nth(1).map_or(0, |(at, _)| at);
    let end = context.after.match_indices('\n').nth(1).map_or(context.after.len(), |(at, _)| at);
    (&context.before[start..], &context.after[..end])
}

fn has_own_metric(before: &str, after: &str) -> bool {
    [before, after]
        .iter()
        .any(|text| text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').any(is_own))
}

fn is_own(word: &str) -> bool {
    word.starts_with(PREFIX)
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
            ("karpenter_x: {{ $labels.provisioner }} is full", "karpenter_x: {{ $labels.nodepool }} is full"),
            ("the provisioner, of course", "the provisioner, of course"),
            ("karpenter_nodes_created_total", "karpenter_nodes_created_total"),
            ("my_karpenter_nodes_created", "my_karpenter_nodes_created"),
            (
                "label_values(karpenter_nodes_created, provisioner)",
                "label_values(karpenter_nodes_created_total, nodepool)",
            ),
            (
                "kube_storageclass_info{provisioner=\"ebs\"} # karpenter_x",
                "kube_storageclass_info{provisioner=\"ebs\"} # karpenter_x",
            ),
            ("sum by (provisioner) (kube_storageclass_info)", "sum by (provisioner) (kube_storageclass_info)"),
            (
                "rate(karpenter_provisioner_scheduling_duration_seconds_bucket[5m])",
                "rate(karpenter_scheduler_scheduling_duration_seconds_bucket[5m])",
            ),
            ("karpenter_nodes_created_sum", "karpenter_nodes_created_sum"),
        ];
        for (text, expected) in rows {
            assert_eq!(metrics(text).text, expected);
        }
    }
}
