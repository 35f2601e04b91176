//! Constraints of a pod as text.

use planner::{Operator, PodShape, PodTerm, Requirement, Selector, Spread, TolerationOperator};

use crate::plan::report::amounts;

/// Returns one line for each constraint of the pod.
pub(super) fn lines(shape: &PodShape, claims: &[String]) -> Vec<String> {
    let requests = amounts(&shape.requests).into_iter().filter(|(name, _)| name != "pods");
    let requests: Vec<String> = requests.map(|(name, amount)| format!("{name} {amount}")).collect();
    let mut lines = vec![if requests.is_empty() { "no resources".to_owned() } else { requests.join(", ") }];
    if !shape.selector.is_empty() {
        lines.push(format!("nodes with {}", terms(&shape.selector)));
    }
    if !shape.affinity.is_empty() {
        let all: Vec<String> = shape.affinity.iter().map(|term| terms(term)).collect();
        lines.push(format!("nodes with {}", all.join(", or ")));
    }
    for it in &shape.preferred {
        lines.push(format!("preferred (weight {}): nodes with {}", it.weight, terms(&it.term)));
    }
    lines.extend(shape.spread.iter().map(spread));
    lines.extend(shape.near.iter().map(|it| format!("podAffinity: pods with {}", pod_term(it))));
    lines.extend(shape.apart.iter().map(|it| format!("podAntiAffinity: pods with {}", pod_term(it))));
    for it in &shape.prefers_near {
        lines.push(format!("preferred (weight {}) podAffinity: pods with {}", it.weight, pod_term(&it.term)));
    }
    for it in &shape.prefers_apart {
        lines.push(format!("preferred (weight {}) podAntiAffinity: pods with {}", it.weight, pod_term(&it.term)));
    }
    if !shape.ports.is_empty() {
        let ports: Vec<String> =
            shape.ports.iter().map(|it| format!("{}:{}/{}", it.ip, it.port, it.protocol)).collect();
        lines.push(format!("hostPorts: {}", ports.join(", ")));
    }
    if !claims.is_empty() {
        lines.push(format!("volumes: {}", claims.join(", ")));
    }
    if !shape.tolerations.is_empty() {
        lines.push(format!("tolerations: {}", tolerations(shape)));
    }
    if shape.priority != 0 {
        lines.push(format!("priority {}", shape.priority));
    }
    lines
}

fn tolerations(shape: &PodShape) -> String {
    let one = |it: &planner::Toleration| {
        let key = it.key.as_deref().unwrap_or("any");
        let value = if it.operator == TolerationOperator::Equal { format!("={}", it.value) } else { String::new() };
        let effect = it.effect.map(|effect| format!(":{effect:?}")).unwrap_or_default();
        format!("{key}{value}{effect}")
    };
    shape.tolerations.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn spread(it: &Spread) -> String {
    let how = if it.hard { "spread" } else { "soft spread" };
    let min_domains = it.min_domains.map(|count| format!(", minDomains {count}")).unwrap_or_default();
    format!(
        "{how} over {}, maxSkew {}{min_domains}, among pods with {}",
        it.key,
        it.max_skew,
        selector(it.selector.as_ref())
    )
}

fn pod_term(it: &PodTerm) -> String {
    let mut text = format!("{} by {}", selector(it.selector.as_ref()), it.key);
    if !it.namespaces.is_empty() {
        text.push_str(&format!(" in namespaces {}", it.namespaces.join(", ")));
    }
    if let Some(namespaces) = &it.namespace_selector {
        text.push_str(&format!(" in namespaces with {}", selector(Some(namespaces))));
    }
    text
}

fn selector(it: Option<&Selector>) -> String {
    match it {
        None => "no labels (nothing is selected)".to_owned(),
        Some(Selector(list)) if list.is_empty() => "any labels".to_owned(),
        Some(Selector(list)) => terms(list),
    }
}

/// Returns requirements in short form: `key=value`, `key in (a, b)`, `key >= 5`.
pub(super) fn terms(list: &[Requirement]) -> String {
    if list.is_empty() {
        return "any labels".to_owned();
    }
    list.iter().map(term).collect::<Vec<_>>().join(", ")
}

fn term(it: &Requirement) -> String {
    let Requirement { key, values, .. } = it;
    let all = values.join(", ");
    match it.operator {
        Operator::In if values.len() == 1 => format!("{key}={all}"),
        Operator::In => format!("{key} in ({all})"),
        Operator::NotIn if values.len() == 1 => format!("{key}!={all}"),
        Operator::NotIn => format!("{key} not in ({all})"),
        Operator::Exists => key.clone(),
        Operator::DoesNotExist => format!("no {key}"),
        Operator::Gt => format!("{key} > {all}"),
        Operator::Lt => format!("{key} < {all}"),
        Operator::Gte => format!("{key} >= {all}"),
        Operator::Lte => format!("{key} <= {all}"),
    }
}
