//! Karpenter's hash of a NodePool's template, version 3. The hash excludes requirements, because they drift by value.

use jiff::Timestamp;

use super::fnv::{bytes, map, number, structure, text, unordered};
use crate::resources::nodepool::{NodeClaimTemplateSpec, NodeClassRef, NodePool, TemplateMeta};
use crate::resources::taint::Taint;
use crate::units::duration::{DurationText, InvalidDuration};

/// Version of the hash, as Karpenter writes it.
pub const NODEPOOL_VERSION: &str = "v3";

/// Returns the drift hash of a NodePool's template as a decimal number.
///
/// # Errors
/// Returns an error if a duration of the template is invalid. The API server's patterns refuse invalid durations, except those
/// of more than 292 years.
pub fn node_pool(pool: &NodePool) -> Result<String, InvalidDuration> {
    let template = &pool.spec.template;
    let hash = structure(
        "NodeClaimTemplate",
        &[("ObjectMeta", meta(&template.metadata)), ("Spec", Some(spec(&template.spec)?))],
    );
    Ok(hash.to_string())
}

fn meta(meta: &TemplateMeta) -> Option<u64> {
    let labels = meta.labels.as_ref().map(map);
    let annotations = meta.annotations.as_ref().map(map);
    if labels.is_none() && annotations.is_none() {
        return None;
    }
    let fields = [("Labels", labels), ("Annotations", annotations)];
    Some(structure("ObjectMeta", &fields))
}

fn spec(spec: &NodeClaimTemplateSpec) -> Result<u64, InvalidDuration> {
    Ok(structure(
        "NodeClaimTemplateSpec",
        &[
            ("Taints", spec.taints.as_deref().map(taints)),
            ("StartupTaints", spec.startup_taints.as_deref().map(taints)),
            ("NodeClassRef", Some(class(&spec.node_class_ref))),
            ("TerminationGracePeriod", grace(spec.termination_grace_period.as_ref())?),
            ("ExpireAfter", expiry(&spec.expire_after)?),
        ],
    ))
}

fn taints(taints: &[Taint]) -> u64 {
    unordered(taints.iter().map(taint))
}

fn taint(taint: &Taint) -> u64 {
    let added = taint.time_added.as_deref().and_then(instant);
    let fields = [
        ("Key", non_empty(&taint.key)),
        ("Value", non_empty(taint.value())),
        ("Effect", non_empty(&taint.effect)),
        ("TimeAdded", added),
    ];
    structure("Taint", &fields)
}

/// Returns the hash of an instant in Go's binary form, with UTC offset 0. The form is version, seconds since the year 1,
/// nanoseconds, offset in minutes.
fn instant(rfc3339: &str) -> Option<u64> {
    const YEAR_ONE_TO_1970: i64 = 62_135_596_800;
    let instant: Timestamp = rfc3339.parse().ok()?;
    let mut form = vec![1];
    form.extend((instant.as_second() + YEAR_ONE_TO_1970).to_be_bytes());
    form.extend(instant.subsec_nanosecond().to_be_bytes());
    form.extend([0, 0]);
    Some(structure("Time", &[("Time", Some(bytes(&form)))]))
}

fn class(class: &NodeClassRef) -> u64 {
    let fields =
        [("Kind", non_empty(&class.kind)), ("Name", non_empty(&class.name)), ("Group", non_empty(&class.group))];
    structure("NodeClassReference", &fields)
}

/// Returns the hash of a grace period. A grace period of zero counts as present, but its only field does not.
fn grace(period: Option<&DurationText>) -> Result<Option<u64>, InvalidDuration> {
    let Some(nanos) = period.map(DurationText::nanos).transpose()?.flatten() else {
        return Ok(None);
    };
    let value = (nanos != 0).then(|| number(nanos));
    Ok(Some(structure("Duration", &[("Duration", value)])))
}

fn expiry(after: &DurationText) -> Result<Option<u64>, InvalidDuration> {
    let nanos = after.nanos()?;
    Ok(nanos.map(|n| structure("NillableDuration", &[("Duration", Some(number(n)))])))
}

fn non_empty(input: &str) -> Option<u64> {
    (!input.is_empty()).then(|| text(input))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Name of a change, and the change.
    type Row = (&'static str, fn(&mut Value));

    fn pool(patch: impl FnOnce(&mut Value)) -> NodePool {
        let mut template = json!({
            "metadata": {
                "labels": { "keyLabel": "valueLabel" },
                "annotations": { "keyAnnotation": "valueAnnotation", "keyAnnotation2": "valueAnnotation2" },
            },
            "spec": {
                "requirements": [],
                "taints": [{ "key": "key", "effect": "NoExecute" }],
                "startupTaints": [{ "key": "key", "effect": "NoExecute" }],
                "nodeClassRef": { "group": "karpenter.test.sh", "kind": "TestNodeClass", "name": "default" },
                "terminationGracePeriod": "5m",
                "expireAfter": "5m",
            },
        });
        patch(&mut template);
        let object = json!({ "metadata": { "name": "a" }, "spec": { "template": template } });
        serde_json::from_value(object).unwrap()
    }

    fn hash(patch: impl FnOnce(&mut Value)) -> String {
        node_pool(&pool(patch)).unwrap()
    }

    #[test]
    fn node_pool_hash_equals_the_published_hash() {
        assert_eq!(hash(|_| ()), "3811377905641173263");
    }

    #[test]
    fn node_pool_hash_ignores_equivalent_changes() {
        let base = hash(|_| ());
        let rows: [Row; 3] = [
            ("spelling of a duration", |t| {
                t["spec"]["expireAfter"] = json!("300s");
            }),
            ("requirements", |t| {
                t["spec"]["requirements"] = json!([{ "key": "a", "operator": "Exists" }]);
            }),
            ("an empty taint value", |t| {
                t["spec"]["taints"][0]["value"] = json!("");
            }),
        ];
        for (name, patch) in rows {
            assert_eq!(hash(patch), base, "{name}");
        }
    }

    #[test]
    fn node_pool_hash_changes_with_the_template() {
        let rows: [Row; 10] = [
            ("label", |t| t["metadata"]["labels"]["more"] = json!("x")),
            ("annotation", |t| {
                t["metadata"]["annotations"]["keyAnnotation"] = json!("x");
            }),
            ("no labels", |t| t["metadata"]["labels"] = Value::Null),
            ("empty labels", |t| t["metadata"]["labels"] = json!({})),
            ("taint", |t| {
                t["spec"]["taints"][0]["effect"] = json!("NoSchedule");
            }),
            ("time of a taint", |t| {
                t["spec"]["taints"][0]["timeAdded"] = json!("2026-01-01T00:00:00Z");
            }),
            ("class", |t| t["spec"]["nodeClassRef"]["name"] = json!("x")),
            ("grace period", |t| {
                t["spec"]["terminationGracePeriod"] = json!("0s");
            }),
            ("no grace period", |t| {
                t["spec"]["terminationGracePeriod"] = Value::Null;
            }),
            ("no expiry", |t| t["spec"]["expireAfter"] = json!("Never")),
        ];
        let mut seen = std::collections::BTreeSet::from([hash(|_| ())]);
        for (name, patch) in rows {
            assert!(seen.insert(hash(patch)), "{name}");
        }
    }

    #[test]
    fn node_pool_hash_reports_durations_out_of_range() {
        let error = node_pool(&pool(|t| t["spec"]["expireAfter"] = json!("9999999999h")));
        assert!(error.unwrap_err().to_string().contains("9999999999h"));
    }
}
