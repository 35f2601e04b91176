//! Conversion of Provisioners of v1alpha5 and NodePools of any version into NodePools of v1 with the same meaning.

use api::{annotation, label};

use super::object::Object;
use super::tree::{Entry, Node, NodeKind, Style};

/// Current `apiVersion` of a NodePool.
pub(super) const CURRENT: &str = "karpenter.sh/v1";
const CLASS_GROUP: &str = "karpenter.k8s.aws";
const CLASS_KIND: &str = "EC2NodeClass";
const TEMPLATE: [&str; 3] = ["spec", "template", "spec"];
const REQUIREMENTS: [&str; 4] = ["spec", "template", "spec", "requirements"];
const CLASS_REF: [&str; 4] = ["spec", "template", "spec", "nodeClassRef"];
const POLICY: [&str; 3] = ["spec", "disruption", "consolidationPolicy"];
const AFTER: [&str; 3] = ["spec", "disruption", "consolidateAfter"];
const EXPIRY: [&str; 4] = ["spec", "template", "spec", "expireAfter"];
const NODE_CLASS_ANNOTATION: [&str; 3] = ["metadata", "annotations", annotation::NODE_CLASS_CONVERSION];
const NEVER: &str = "Never";

/// Fields that an older version had at another path, or that users often write at another path.
const MOVED: [(&[&str], &[&str]); 13] = [
    (&["spec", "labels"], &["spec", "template", "metadata", "labels"]),
    (&["spec", "annotations"], &["spec", "template", "metadata", "annotations"]),
    (&["spec", "requirements"], &REQUIREMENTS),
    (&["spec", "taints"], &["spec", "template", "spec", "taints"]),
    (&["spec", "startupTaints"], &["spec", "template", "spec", "startupTaints"]),
    (&["spec", "template", "weight"], &["spec", "weight"]),
    (&["spec", "template", "spec", "weight"], &["spec", "weight"]),
    (&["spec", "disruption", "expireAfter"], &EXPIRY),
    (&["spec", "expireAfter"], &EXPIRY),
    (&["spec", "nodeClassRef"], &CLASS_REF),
    (&["spec", "template", "spec", "kubeletConfiguration"], &["spec", "template", "spec", "kubelet"]),
    (&["spec", "kubeletConfiguration"], &["spec", "template", "spec", "kubelet"]),
    (&["spec", "kubelet"], &["spec", "template", "spec", "kubelet"]),
];

/// Converts a Provisioner. Its inline provider is returned as a separate document.
pub(super) fn provisioner(object: &mut Object, classes: &[String]) -> Option<Node> {
    object.become_kind(CURRENT, "NodePool");
    let inline = object.root.take_at(&["spec", "provider"]);
    reference(object, inline.is_some());
    modernise(object, classes);
    defaults(object);
    in_order(object.root.enter(&["spec"]), &["template"]);
    in_order(object.root.enter(&["spec", "template"]), &["metadata", "spec"]);
    in_order(object.root.enter(&TEMPLATE), &["nodeClassRef", "requirements"]);
    let name = object.name().to_owned();
    inline.map(|entry| {
        let text = format!("spec.provider is now the EC2NodeClass {name}, a separate document");
        object.changed("spec", &text);
        let meta = Node::map([("name", Node::text(&name))]);
        let api = [("apiVersion", Node::text("karpenter.k8s.aws/v1alpha1")), ("kind", Node::text("AWSNodeTemplate"))];
        Node::map(api.into_iter().chain([("metadata", meta), ("spec", entry.value)]))
    })
}

/// Puts these fields first. Fields that the conversion adds get the usual order.
fn in_order(map: &mut Node, first: &[&str]) {
    if let NodeKind::Map(fields) = &mut map.kind {
        fields.sort_by_key(|field| first.iter().position(|key| field.key == *key).unwrap_or(first.len()));
    }
}

/// Converts a Provisioner's reference to its provider.
fn reference(object: &mut Object, inline: bool) {
    if object.root.at(&["spec", "providerRef"]).is_some() {
        object.shift(&["spec", "providerRef"], &CLASS_REF);
    } else if inline {
        let name = Node::text(object.name());
        object.root.enter(&CLASS_REF).set("name", name);
    }
}

/// Converts a NodePool of any version into the form of v1. Forms that were never valid are included.
pub(super) fn modernise(object: &mut Object, classes: &[String]) {
    object.become_kind(CURRENT, "NodePool");
    for (from, to) in MOVED {
        object.shift(from, to);
    }
    requirements(object);
    limits(object);
    lifetimes(object);
    consolidation(object);
    class_reference(object, &CLASS_REF, classes);
    object.drop(&["spec", "template", "spec", "containerRuntime"], "containerd is the only container runtime");
    object.drop(&["spec", "containerRuntime"], "containerd is the only container runtime");
    object
        .drop(&["spec", "template", "spec", "kubelet", "containerRuntime"], "containerd is the only container runtime");
    super::kubelet::restore_from_annotation(object);
    if object.root.at(&NODE_CLASS_ANNOTATION).is_some() {
        let path = format!("metadata.annotations[{}]", annotation::NODE_CLASS_CONVERSION);
        object.changed(&path, "removed: only the conversion to v1beta1 in Karpenter 1.0 read it");
        object.root.take_at(&NODE_CLASS_ANNOTATION);
    }
    grace(object);
    if object.root.at(&REQUIREMENTS).is_none() {
        object.changed(&REQUIREMENTS.join("."), "required, even if empty");
        object.root.enter(&TEMPLATE).set("requirements", Node { line: 0, kind: NodeKind::FlowList(Vec::new()) });
    }
}

/// Fields that no version has and tutorials write, with the label whose requirement has their meaning.
const AS_REQUIREMENTS: [(&str, &str); 4] = [
    ("capacityType", label::CAPACITY_TYPE),
    ("capacityTypes", label::CAPACITY_TYPE),
    ("instanceType", label::INSTANCE_TYPE),
    ("instanceTypes", label::INSTANCE_TYPE),
];

/// Converts fields of tutorials into requirements.
fn requirements(object: &mut Object) {
    for (field, key) in AS_REQUIREMENTS {
        for parents in [&["spec"][..], &TEMPLATE] {
            requirement(object, &[parents, &[field]].concat(), key);
        }
    }
}

fn requirement(object: &mut Object, path: &[&'static str], key: &'static str) {
    let Some(found) = object.root.at(path) else { return };
    let listed = found.items().iter().filter_map(|item| item.value.scalar());
    let values: Vec<String> = found.scalar().into_iter().chain(listed).map(str::to_owned).collect();
    let shown = path.join(".");
    let is_required = keys(object).iter().any(|known| label::canonical(known) == key);
    if values.is_empty() || is_required {
        let problem = if is_required { format!("a requirement on {key} is set too") } else { "no value".to_owned() };
        object.refuse(&shown, &problem, format!("remove it, or write it as a requirement on {key}"));
        return;
    }
    object.changed(&shown, &format!("is now a requirement on {key}"));
    let old = object.root.take_at(path);
    let values = values.iter().map(|value| Entry::new("", quoted(value))).collect();
    let values = Node { line: 0, kind: NodeKind::FlowList(values) };
    let entry = Entry {
        before: old.as_ref().map(|old| old.before.clone()).unwrap_or_default(),
        behind: old.and_then(|old| old.behind),
        ..Entry::new("", Node::map([("key", Node::text(key)), ("operator", Node::text("In")), ("values", values)]))
    };
    let Some(list) = object.root.at_mut(&REQUIREMENTS).filter(|list| list.is_list() && !list.items().is_empty()) else {
        object.root.enter(&TEMPLATE).set("requirements", Node { line: 0, kind: NodeKind::List(vec![entry]) });
        return;
    };
    list.push(entry);
}

/// Converts `limits.resources` of a Provisioner.
fn limits(object: &mut Object) {
    let inner = ["spec", "limits", "resources"];
    if object.root.at(&inner).is_some_and(Node::is_map) {
        object.changed(&inner.join("."), "is now spec.limits");
        let taken = object.root.at_mut(&["spec", "limits"]).and_then(|limits| limits.take("resources"));
        let (before, mut fields) = taken.map(|entry| (entry.before, entry.value.fields().to_vec())).unwrap_or_default();
        if let Some(first) = fields.first_mut() {
            first.before.splice(0..0, before);
        }
        let limits = object.root.enter(&["spec", "limits"]);
        fields.into_iter().for_each(|field| limits.push(field));
    }
}

/// Converts the lifetimes of a Provisioner: seconds since a node became empty, and since its creation.
fn lifetimes(object: &mut Object) {
    if let Some((seconds, old)) = seconds(object, "ttlSecondsAfterEmpty") {
        object.rewrite(&POLICY, "WhenEmpty", "from ttlSecondsAfterEmpty");
        object.rewrite(&AFTER, &seconds, "");
        object.root.enter(&["spec", "disruption"]).annotate("consolidateAfter", old);
    }
    if let Some((seconds, old)) = seconds(object, "ttlSecondsUntilExpired") {
        object.rewrite(&EXPIRY, &seconds, "from ttlSecondsUntilExpired");
        object.root.enter(&TEMPLATE).annotate("expireAfter", old);
    }
    let Some(entry) = object.root.take_at(&["spec", "consolidation"]) else { return };
    let is_on = entry.value.text_at(&["enabled"]) == "true";
    if is_on {
        object.rewrite(&POLICY, "WhenEmptyOrUnderutilized", "from consolidation.enabled");
        object.rewrite(&AFTER, "0s", "");
    } else if object.root.at(&AFTER).is_none() {
        object.rewrite(&AFTER, NEVER, "consolidation was off");
    }
    let field = if is_on { "consolidationPolicy" } else { "consolidateAfter" };
    object.root.enter(&["spec", "disruption"]).annotate(field, entry);
}

/// Removes and returns a number of seconds; rejects any other value.
fn seconds(object: &mut Object, field: &'static str) -> Option<(String, Entry)> {
    let path = format!("spec.{field}");
    let found = object.root.at(&["spec", field]).and_then(Node::scalar).map(str::to_owned)?;
    if found.parse::<u32>().is_err() {
        object.refuse(&path, &format!("{found:?} is not a number of seconds"), "write a whole number");
        return None;
    }
    let entry = object.root.take_at(&["spec", field])?;
    Some((format!("{found}s"), entry))
}

fn consolidation(object: &mut Object) {
    if object.root.text_at(&POLICY) == "WhenUnderutilized" {
        object.rewrite(&POLICY, "WhenEmptyOrUnderutilized", "renamed in v1");
    }
    if object.root.at(&["spec", "disruption"]).is_some_and(Node::is_map) && object.root.at(&AFTER).is_none() {
        object.rewrite(&AFTER, "0s", "required in v1; the former default was 0s");
    }
}

/// Completes group, kind and name of the reference to the class at `path`.
pub(super) fn class_reference(object: &mut Object, path: &[&'static str], classes: &[String]) {
    let shown = path.join(".");
    let found = object.root.at(path).is_some_and(Node::is_map);
    if !found {
        let [only] = classes else {
            let cure = format!(
                "write {{group: {CLASS_GROUP}, kind: {CLASS_KIND}, name: ...}} with the name of the \
                                EC2NodeClass"
            );
            object.refuse(&shown, "missing, the EC2NodeClass is unknown", cure);
            return;
        };
        object.changed(&shown, &format!("was missing, {only} is the only EC2NodeClass"));
        object.root.enter(path).set("name", Node::text(only));
    }
    if let Some(old) = object.root.at(path).and_then(|it| it.get("apiVersion")).and_then(Node::scalar) {
        let group = old.split_once('/').map_or(CLASS_GROUP, |(group, _)| group).to_owned();
        object.changed(&format!("{shown}.apiVersion"), &format!("is now group: {group}"));
        let reference = object.root.enter(path);
        let entry = reference.take("apiVersion");
        if let (None, Some(entry)) = (reference.get("group"), entry) {
            reference.push(Entry { key: "group".to_owned(), value: Node::text(&group), ..entry });
        }
    }
    let reference =
        |object: &Object, field: &str| object.root.at(path).map_or("", |it| it.text_at(&[field])).to_owned();
    if reference(object, "group").is_empty() {
        object.changed(&shown, &format!("added group: {CLASS_GROUP}"));
        object.root.enter(path).set("group", Node::text(CLASS_GROUP));
    }
    if ["", "AWSNodeTemplate"].contains(&reference(object, "kind").as_str()) {
        object.changed(&shown, &format!("added kind: {CLASS_KIND}"));
        object.root.enter(path).set("kind", Node::text(CLASS_KIND));
    }
}

/// Rejects a grace period whose field name was never valid.
fn grace(object: &mut Object) {
    for path in
        [["spec", "disruption", "maxPodGracePeriod"].as_slice(), &["spec", "template", "spec", "maxPodGracePeriod"]]
    {
        if object.root.at(path).is_some() {
            let cure = "write spec.template.spec.terminationGracePeriod for the longest drain of a node, or \
                        spec.kubelet.evictionMaxPodGracePeriod of the EC2NodeClass for kubelet's own evictions";
            object.refuse(&path.join("."), "not a field in any version", cure);
        }
    }
}

/// Adds the defaults of a Provisioner for fields that are not set.
fn defaults(object: &mut Object) {
    let requirements: [(&str, &str, &[&str], &[&str]); 5] = [
        (label::OS, "In", &["linux"], &[]),
        (label::ARCH, "In", &["amd64"], &[]),
        (label::CAPACITY_TYPE, "In", &["on-demand"], &[]),
        (label::INSTANCE_CATEGORY, "In", &["c", "m", "r"], &TYPES),
        (label::INSTANCE_GENERATION, "Gt", &["2"], &TYPES),
    ];
    let present: Vec<String> = keys(object);
    for (key, operator, values, instead) in requirements {
        let has = |key: &str| present.iter().any(|present| label::canonical(present) == key);
        if has(key) || instead.iter().any(|key| has(key)) {
            continue;
        }
        let text = format!("added {key} {operator} {}, the default of a Provisioner", values.join(", "));
        object.changed(&REQUIREMENTS.join("."), &text);
        let values = values.iter().map(|value| Entry::new("", quoted(value))).collect();
        let values = Node { line: 0, kind: NodeKind::FlowList(values) };
        let requirement = Node::map([("key", Node::text(key)), ("operator", Node::text(operator)), ("values", values)]);
        if let Some(list) = object.root.at_mut(&REQUIREMENTS) {
            if list.items().is_empty() {
                list.kind = NodeKind::List(Vec::new());
            }
            list.push(Entry::new("", requirement));
        }
    }
    if object.root.at(&EXPIRY).is_none() {
        object.rewrite(&EXPIRY, NEVER, "nodes of a Provisioner did not expire, the default in v1 is 720h");
    }
    if object.root.at(&AFTER).is_none() {
        object.rewrite(&AFTER, NEVER, "a Provisioner did not remove nodes by default");
    }
}

/// Keys of requirements that select instance types.
const TYPES: [&str; 4] =
    [label::INSTANCE_TYPE, label::INSTANCE_FAMILY, label::INSTANCE_CATEGORY, label::INSTANCE_GENERATION];

/// Returns the keys of requirements and labels.
fn keys(object: &Object) -> Vec<String> {
    let list = object.root.at(&REQUIREMENTS).map(Node::items).unwrap_or_default();
    let labels = object.root.at(&["spec", "template", "metadata", "labels"]).map(Node::fields).unwrap_or_default();
    let requirements = list.iter().map(|item| item.value.text_at(&["key"]).to_owned());
    requirements.chain(labels.iter().map(|label| label.key.clone())).collect()
}

/// Returns a scalar in double quotes. Values of requirements are strings, even if they look like numbers.
pub(super) fn quoted(text: &str) -> Node {
    Node { line: 0, kind: NodeKind::Scalar(text.to_owned(), Style::Double) }
}

/// Converts a NodeClaim; `expiry` is the `expireAfter` of its NodePool, if the NodePool is in the input.
pub(super) fn claim(object: &mut Object, expiry: Option<&str>) {
    object.become_kind(CURRENT, "NodeClaim");
    object.drop(&["spec", "kubelet"], "kubelet settings belong to the EC2NodeClass");
    class_reference(object, &["spec", "nodeClassRef"], &[]);
    if object.root.at(&["spec", "expireAfter"]).is_none() {
        let why = if expiry.is_some() { "from its NodePool" } else { "its NodePool is not in the input" };
        object.rewrite(&["spec", "expireAfter"], expiry.unwrap_or(NEVER), why);
    }
}
