//! Changes of objects before a plan, as `--set KIND.NAME.FIELD=VALUE` writes them: what would a NodePool with another limit cost?

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use super::bounded;
use super::error::{InputError, Place};
use super::kinds::Kind;
use super::raw::{ObjectKey, Raw};
use super::validation;

/// Kinds that can be changed, by their word in lower case.
const KINDS: [(&str, Kind); 6] = [
    ("nodepool", Kind::NodePool),
    ("ec2nodeclass", Kind::EC2NodeClass),
    ("nodeoverlay", Kind::NodeOverlay),
    ("capacitybuffer", Kind::CapacityBuffer),
    ("spendpolicy", Kind::SpendPolicy),
    ("commitment", Kind::Commitment),
];
/// Fields that can be changed, with everything below them.
const FIELDS: [&str; 3] = ["spec.", "metadata.annotations.", "metadata.labels."];
/// Example in errors.
const EXAMPLE: &str = "write it like nodepool.general.spec.disruption.consolidateAfter=5m";

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The change as it was written.
    text: String,
    kind: Kind,
    /// Name of the object and path of the field. A name may contain dots, so only the objects tell where it ends.
    target: String,
    /// New value; null removes the field.
    value: Value,
}

impl fmt::Display for Change {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

/// Step of a path.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Item(usize),
}

impl Change {
    /// Parses a change. The value is YAML; an empty one removes the field.
    ///
    /// # Errors
    /// Returns a sentence about the form or the kind.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (target, value) = text.split_once('=').ok_or_else(|| format!("{text:?} has no value: {EXAMPLE}"))?;
        let (word, target) = target.split_once('.').ok_or_else(|| format!("{text:?} names no field: {EXAMPLE}"))?;
        let found = KINDS.iter().find(|(known, _)| word.eq_ignore_ascii_case(known));
        let Some((_, kind)) = found else {
            let known: Vec<&str> = KINDS.iter().map(|(known, _)| *known).collect();
            return Err(format!("{word:?} cannot be changed: write one of {}", known.join(", ")));
        };
        let value = bounded::from_str(value).unwrap_or_else(|_| Value::from(value));
        Ok(Self { text: text.to_owned(), kind: *kind, target: target.to_owned(), value })
    }

    /// Reports whether the change is for objects of this kind.
    pub(super) fn is_of(&self, kind: Kind) -> bool {
        self.kind == kind
    }

    /// Reports whether the change is for this object.
    pub(super) fn names(&self, raw: &Raw) -> bool {
        let path = self.target.strip_prefix(&raw.full_name()).and_then(|rest| rest.strip_prefix('.'));
        self.is_of(raw.kind) && path.is_some_and(may_change)
    }

    /// Changes the object that the change names, and returns a sentence.
    pub(super) fn apply(&self, found: &mut BTreeMap<ObjectKey, Raw>) -> Result<String, InputError> {
        let (key, path) = self.resolve(found)?;
        let Some(steps) = steps(&path).filter(|_| may_change(&path)) else {
            let problem = format!("{path:?} is no path below spec, metadata.annotations or metadata.labels");
            return Err(self.error(problem, EXAMPLE));
        };
        let Some(raw) = found.get_mut(&key) else { return Err(self.error("no such object", EXAMPLE)) };
        let before = validation::ineffective(raw);
        let slot = slot(&mut raw.value, &steps).map_err(|problem| self.error(problem, "correct the path"))?;
        let old = std::mem::replace(slot, self.value.clone());
        super::remove_nulls(&mut raw.value);
        match validation::ineffective(raw).into_iter().find(|warning| !before.contains(warning)) {
            Some(warning) => Err(self.error(warning, "correct the change")),
            None => {
                let (new, old) = (shown(&self.value), shown(&old));
                Ok(format!("{} {}: {path} is {new}, was {old}", raw.kind, raw.full_name()))
            }
        }
    }

    /// Returns the object whose name the target begins with, and the path after the name. Of several objects, it is the one with a
    /// path that may be changed, then the one with the longest name.
    fn resolve(&self, found: &BTreeMap<ObjectKey, Raw>) -> Result<(ObjectKey, String), InputError> {
        let of_kind = || found.values().filter(|raw| raw.kind == self.kind);
        let path = |raw: &Raw| Some(self.target.strip_prefix(&raw.full_name())?.strip_prefix('.')?.to_owned());
        let named = of_kind().filter_map(|raw| Some((raw, path(raw)?)));
        if let Some((raw, path)) = named.max_by_key(|(raw, path)| (may_change(path), raw.name.len())) {
            return Ok((raw.key(), path));
        }
        let known: Vec<String> = of_kind().map(Raw::full_name).take(10).collect();
        let cure = match known.is_empty() {
            true => "the input has none".to_owned(),
            false => format!("the input has {}", known.join(", ")),
        };
        Err(self.error(format!("no {} of this name", self.kind), cure))
    }

    fn error(&self, problem: impl Into<String>, cure: impl Into<String>) -> InputError {
        InputError::new(&Place { file: format!("--set {}", self.text), ..Place::default() }, problem, cure)
    }
}

/// Reports whether the field at the path may be changed.
fn may_change(path: &str) -> bool {
    FIELDS.iter().any(|field| path.starts_with(field))
}

/// Splits a path at its dots. A dot in a key is written `\.`, an item of a list `[0]`.
fn steps(path: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let (segment, more) = segment(rest);
        let (field, items) =
            segment.split_once('[').map_or((segment.as_str(), None), |(field, items)| (field, Some(items)));
        if !field.is_empty() {
            steps.push(Step::Field(field.to_owned()));
        } else if items.is_none() {
            return None;
        }
        for item in items.into_iter().flat_map(|items| items.split('[')) {
            steps.push(Step::Item(item.strip_suffix(']')?.parse().ok()?));
        }
        rest = more;
    }
    Some(steps)
}

/// Returns the text before the first dot without a backslash, and the text after it.
fn segment(path: &str) -> (String, &str) {
    let mut segment = String::new();
    let mut letters = path.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => segment.extend(letters.next().map(|(_, escaped)| escaped)),
            '.' => return (segment, &path[at + 1..]),
            other => segment.push(other),
        }
    }
    (segment, "")
}

/// Returns the place of a value, which is created if it is missing.
fn slot<'v>(value: &'v mut Value, steps: &[Step]) -> Result<&'v mut Value, String> {
    let mut at = value;
    for step in steps {
        at = match step {
            Step::Field(name) => {
                if at.is_null() {
                    *at = Value::Object(Map::new());
                }
                let fields = at.as_object_mut().ok_or_else(|| format!("{name} is below a value that has no fields"))?;
                fields.entry(name.clone()).or_insert(Value::Null)
            }
            Step::Item(number) => {
                if at.is_null() {
                    *at = Value::Array(Vec::new());
                }
                let items = at.as_array_mut().ok_or_else(|| format!("[{number}] is below a value that is no list"))?;
                if *number == items.len() {
                    items.push(Value::Null);
                }
                let count = items.len();
                items.get_mut(*number).ok_or_else(|| format!("[{number}] is beyond the {count} items of the list"))?
            }
        };
    }
    Ok(at)
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "not set".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, Step, steps};
    use crate::input::read_changed;

    const POOLS: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  weight: 10
  disruption: {consolidateAfter: 30s, budgets: [{nodes: 10%}]}
  template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general.spec}
spec:
  template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}}
";

    /// Returns the sentences of changes, or the errors.
    fn changed(texts: &[&str]) -> Result<Vec<String>, String> {
        let changes: Vec<Change> = texts.iter().map(|text| Change::parse(text).unwrap()).collect();
        let files = [crate::input::File { name: "pools.yaml".to_owned(), text: POOLS.to_owned() }];
        read_changed(&files, Vec::new(), &changes).map(|read| read.changes).map_err(|errors| errors.to_string())
    }

    #[test]
    fn apply_sets_adds_and_removes_values() {
        let rows = [
            ("nodepool.general.spec.disruption.consolidateAfter=5m", "spec.disruption.consolidateAfter is 5m, was 30s"),
            ("NodePool.general.spec.weight=", "spec.weight is not set, was 10"),
            ("nodepool.general.spec.limits.cpu=100", "spec.limits.cpu is 100, was not set"),
            (
                "nodepool.general.spec.disruption.budgets[0].nodes=50%",
                "spec.disruption.budgets[0].nodes is 50%, was 10%",
            ),
            (
                "nodepool.general.spec.disruption.budgets[1]={nodes: '0', reasons: [Drifted]}",
                "spec.disruption.budgets[1] is {\"nodes\":\"0\",\"reasons\":[\"Drifted\"]}, was not set",
            ),
            (
                r"nodepool.general.metadata.annotations.kerf\.sh/surge=true",
                r"metadata.annotations.kerf\.sh/surge is true, was not set",
            ),
        ];
        for (text, expected) in rows {
            let text = text.replace("surge=true", "surge='true'");
            assert_eq!(changed(&[&text]), Ok(vec![format!("NodePool general: {expected}")]), "{text}");
        }
        let longest = changed(&["nodepool.general.spec.spec.weight=3"]);
        assert_eq!(longest, Ok(vec!["NodePool general.spec: spec.weight is 3, was not set".to_owned()]));
    }

    #[test]
    fn apply_reports_what_is_wrong_with_a_change() {
        let rows = [
            ("nodepool.genral.spec.weight=1", "no NodePool of this name; the input has general, general.spec"),
            ("ec2nodeclass.default.spec.role=x", "no EC2NodeClass of this name; the input has none"),
            ("nodepool.general.metadata.name=x", "\"metadata.name\" is no path below spec"),
            ("nodepool.general.spec.wieght=1", "spec.wieght is not a field and is ignored; did you mean weight?"),
            ("nodepool.general.spec.disruption.budgets[3].nodes=1", "[3] is beyond the 1 items of the list"),
            ("nodepool.general.spec.weight.more=1", "more is below a value that has no fields"),
            ("nodepool.general.spec.disruption.consolidateAfter=soon", "spec.disruption.consolidateAfter"),
        ];
        for (text, expected) in rows {
            let found = changed(&[text]);
            assert!(found.as_ref().is_err_and(|error| error.contains(expected)), "{text}: {found:?}");
        }
    }

    #[test]
    fn parse_rejects_other_forms_and_kinds() {
        let error = |text| Change::parse(text).err().unwrap_or_default();
        assert!(error("nodepool.general.spec.weight").contains("has no value"));
        assert!(error("weight=3").contains("names no field"));
        assert!(error("pod.web.spec.priority=3").contains("write one of nodepool, ec2nodeclass"));
    }

    #[test]
    fn steps_knows_items_and_escaped_dots() {
        let field = |name: &str| Step::Field(name.to_owned());
        let expected = vec![field("a"), Step::Item(2), Step::Item(0), field("b.c/d"), field("e")];
        assert_eq!(steps(r"a[2][0].b\.c/d.e"), Some(expected));
        assert_eq!((steps("a..b"), steps("a[x]")), (None, None));
    }
}
