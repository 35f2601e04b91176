//! Schema rules of NodeUsage. Every agent may write one object, so each field is bounded.

use serde_json::json;

use super::common_rules::{cel_rule, cel_rules};
use super::{Column, SchemaRule, set};

/// Columns of `kubectl get`.
pub(super) const COLUMNS: &[Column] = &[
    ("CPU-P95", "string", ".spec.cpu.p95", 0),
    ("Memory-P95", "string", ".spec.memory.p95", 0),
    ("OOM-Kills", "integer", ".spec.oomKills", 0),
    ("Measured", "date", ".spec.measuredAt", 0),
    ("Since", "date", ".spec.since", 1),
    ("CPU-Waits", "integer", ".spec.pressure.cpu", 1),
    ("Memory-Waits", "integer", ".spec.pressure.memory", 1),
    ("IO-Waits", "integer", ".spec.pressure.io", 1),
    ("Instance", "string", ".spec.instance", 1),
];

/// Pattern of base64 for URLs.
const TEXT: &str = "^[A-Za-z0-9_-]*$";

/// Returns the schema rules of NodeUsage beyond the types of its fields.
pub(super) fn schema_rules() -> Vec<SchemaRule> {
    let mut rules = vec![
        // The spec has one owner. Without `atomic`, `managedFields` would take a third of the object.
        set("spec", json!({ "x-kubernetes-map-type": "atomic" })),
        set("spec", cel_rules([cel_rule("self.since <= self.measuredAt", "'since' may not be after 'measuredAt'")])),
        set("spec.instance", json!({ "pattern": "^i-[0-9a-f]{1,32}$", "maxLength": 34 })),
        set("spec.pods", json!({ "pattern": TEXT, "maxLength": 16_384 })),
        set("spec.throttled", json!({ "minimum": 0, "maximum": 1000, "format": null })),
        set("spec.oomKills", json!({ "minimum": 0, "format": null })),
    ];
    for histogram in ["cpu", "memory", "joint"] {
        rules.push(set(format!("spec.histograms.{histogram}"), json!({ "pattern": TEXT, "maxLength": 1024 })));
    }
    for share in ["cpu", "memory", "memoryFull", "io", "ioFull"] {
        let bounds = json!({ "minimum": 0, "maximum": 1000, "format": null });
        rules.push(set(format!("spec.pressure.{share}"), bounds));
    }
    rules
}
