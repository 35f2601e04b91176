//! Conversion of AWSNodeTemplates of v1alpha1 and EC2NodeClasses of any version into EC2NodeClasses of v1 with the same
//! meaning.

use super::class_defaults::ClassDefaults;
use super::object::Object;
use super::tree::{Entry, Node, NodeKind};

/// Current `apiVersion` of an EC2NodeClass.
pub(super) const CURRENT: &str = "karpenter.k8s.aws/v1";
const TERMS: [&str; 2] = ["spec", "amiSelectorTerms"];
const FAMILY: [&str; 2] = ["spec", "amiFamily"];
const HOPS: [&str; 3] = ["spec", "metadataOptions", "httpPutResponseHopLimit"];
/// Maximum number of terms in a list.
const MOST_TERMS: usize = 30;

/// Selectors of v1alpha1 with the lists of terms that replace them.
const SELECTORS: [(&str, &str); 3] = [
    ("subnetSelector", "subnetSelectorTerms"),
    ("securityGroupSelector", "securityGroupSelectorTerms"),
    ("amiSelector", "amiSelectorTerms"),
];

/// Version of an object's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ClassVersion {
    /// AWSNodeTemplate of v1alpha1.
    Alpha,
    /// EC2NodeClass of v1beta1.
    Beta,
    /// EC2NodeClass of v1.
    Current,
}

/// Converts a class of any version into the form of v1.
pub(super) fn modernise(object: &mut Object, version: ClassVersion, defaults: &ClassDefaults) {
    object.become_kind(CURRENT, "EC2NodeClass");
    templates(object);
    for (from, to) in SELECTORS {
        selector(object, from, to);
    }
    for (_, list) in SELECTORS {
        lists_of_ids(object, list);
    }
    images(object, version);
    if version < ClassVersion::Current {
        metadata(object, version);
    }
    defaults.identify(object);
    if version < ClassVersion::Current {
        defaults.tag(object);
    }
    if object.root.at(&["spec", "kubelet", "maxPodGracePeriod"]).is_some() {
        object.shift(&["spec", "kubelet", "maxPodGracePeriod"], &["spec", "kubelet", "evictionMaxPodGracePeriod"]);
    }
    for field in ["apiVersion", "kind"] {
        object.drop(&["spec", field], "only an inline provider has it");
    }
    for annotation in ["v1beta1-ubuntu", "v1beta1-nodeclass-hash"] {
        let key = format!("compatibility.karpenter.k8s.aws/{annotation}");
        if object.root.take_at(&["metadata", "annotations", &key]).is_some() {
            object.lost("metadata.annotations", &format!("{key} belongs to the migration to v1"));
        }
    }
}

/// Rejects custom launch templates.
fn templates(object: &mut Object) {
    for field in ["launchTemplate", "launchTemplateName"] {
        if object.root.at(&["spec", field]).is_some() {
            let cure = "copy the settings of the template into the EC2NodeClass: amiSelectorTerms, userData, \
                        securityGroupSelectorTerms, blockDeviceMappings and role; then remove the field";
            object.refuse(&format!("spec.{field}"), "custom launch templates are not supported any more", cure);
        }
    }
}

/// Converts one selector of v1alpha1. All its fields must match, and values between commas are alternatives.
fn selector(object: &mut Object, from: &'static str, to: &'static str) {
    let path = format!("spec.{from}");
    let Some(found) = object.root.at(&["spec", from]).filter(|node| node.is_map()) else { return };
    let fields: Vec<(String, Vec<String>)> =
        found.fields().iter().map(|entry| (entry.key.clone(), parts(&entry.value))).collect();
    let is_id = |key: &str| key == "aws-ids" || key == "aws::ids";
    let (ids, others): (Vec<_>, Vec<_>) = fields.into_iter().partition(|(key, _)| is_id(key));
    if !ids.is_empty() && !others.is_empty() {
        object.refuse(&path, "a term has either ids or other fields", "remove the ids, or everything but the ids");
        return;
    }
    let terms: Vec<Node> = if ids.is_empty() {
        combinations(&others)
    } else {
        ids.iter().flat_map(|(_, values)| values).map(|id| Node::map([("id", Node::text(id))])).collect()
    };
    if terms.is_empty() || terms.len() > MOST_TERMS {
        let problem = format!("{} terms exceed the maximum of {MOST_TERMS}", terms.len());
        object.refuse(&path, &problem, "use fewer alternatives, or a tag that all of them have");
        return;
    }
    object.changed(&path, &format!("is now spec.{to}"));
    if let Some(entry) = object.root.take_at(&["spec", from]) {
        let list = Node { line: entry.value.line, ..Node::list(terms) };
        object.root.enter(&["spec"]).push(Entry { key: to.to_owned(), value: list, ..entry });
    }
}

/// Returns the values between commas, or those of a list.
fn parts(node: &Node) -> Vec<String> {
    let texts: Vec<&str> = match node.scalar() {
        Some(text) => text.split(',').collect(),
        None => node.items().iter().filter_map(|item| item.value.scalar()).collect(),
    };
    texts.into_iter().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned).collect()
}

/// Returns one term for each combination of the fields' alternatives.
fn combinations(fields: &[(String, Vec<String>)]) -> Vec<Node> {
    let mut terms = vec![Node::map([])];
    for (key, values) in fields {
        let with = |term: &Node| values.iter().map(|value| extended(term, key, value)).collect::<Vec<_>>();
        terms = terms.iter().flat_map(with).take(MOST_TERMS + 1).collect();
    }
    terms
}

fn extended(term: &Node, key: &str, value: &str) -> Node {
    let mut term = term.clone();
    match key {
        "aws::name" => term.set("name", Node::text(value)),
        "aws::owners" => term.set("owner", super::pool::quoted(value)),
        tag => term.enter(&["tags"]).set(tag, super::pool::quoted(value)),
    }
    term
}

/// Splits terms with several ids into one term per id. Tutorials have such terms, but no version accepts them.
fn lists_of_ids(object: &mut Object, list: &'static str) {
    let Some(terms) = object.root.at(&["spec", list]).filter(|node| node.is_list()) else { return };
    let several =
        |entry: &Entry| entry.value.get("ids").or_else(|| entry.value.get("id").filter(|id| id.is_list())).is_some();
    if !terms.items().iter().any(several) {
        return;
    }
    let mut single = Vec::new();
    for (index, entry) in terms.items().to_vec().into_iter().enumerate() {
        if !several(&entry) {
            single.push(entry);
            continue;
        }
        object.changed(&format!("spec.{list}[{index}].ids"), "now has one term per id");
        let mut before = entry.before;
        let ids = entry.value.get("ids").or_else(|| entry.value.get("id")).map(parts).unwrap_or_default();
        for id in ids {
            let line = entry.value.line;
            let value = Node { line, ..Node::map([("id", Node { line, ..Node::text(&id) })]) };
            single.push(Entry { before: std::mem::take(&mut before), ..Entry::new("", value) });
        }
    }
    if let Some(terms) = object.root.at_mut(&["spec", list]) {
        terms.kind = NodeKind::List(single);
    }
}

/// Converts the settings for images.
fn images(object: &mut Object, version: ClassVersion) {
    if version == ClassVersion::Alpha && object.root.text_at(&FAMILY).is_empty() {
        object.rewrite(&FAMILY, "AL2", "the default of an AWSNodeTemplate");
    }
    aliases(object);
    let terms = object.root.at(&TERMS).map(Node::items).unwrap_or_default();
    let (has_terms, has_alias) = (!terms.is_empty(), terms.iter().any(|term| term.value.get("alias").is_some()));
    let family = object.root.text_at(&FAMILY).to_owned();
    let shown = TERMS.join(".");
    match (family.as_str(), has_terms) {
        ("", false) => {
            object.refuse(&shown, "missing, and there is no default image", "write [{alias: al2023@latest}]");
        }
        ("Ubuntu", true) => ubuntu(object),
        ("Ubuntu", false) => {
            let cure = "select Canonical's images for EKS in spec.amiSelectorTerms, by id, name, or ssmParameter \
                        (/aws/service/canonical/ubuntu/eks/...), and convert again";
            object.refuse(
                &FAMILY.join("."),
                "family Ubuntu does not exist any more, and its images have no alias",
                cure,
            );
        }
        ("Custom", false) => {
            let cure = "select the images there by id, name, tags or ssmParameter";
            object.refuse(&shown, "missing, and family Custom has no default images", cure);
        }
        (family, false) => newest(object, family),
        ("", true) if !has_alias => {
            let cure = "set the family of the images: AL2023, AL2, Bottlerocket, Windows2022, ... or Custom";
            object.refuse(&FAMILY.join("."), "missing, and required without an alias", cure);
        }
        _ => {}
    }
    if family == "Custom" && version < ClassVersion::Current {
        let text = "since v1 the user data of family Custom must register nodes with the taint \
                    karpenter.sh/unregistered:NoExecute, add it yourself";
        object.lost("spec.userData", text);
    }
}

/// Converts aliases to lower case.
fn aliases(object: &mut Object) {
    let terms = object.root.at(&TERMS).map(Node::items).unwrap_or_default();
    let written: Vec<(usize, String)> = terms
        .iter()
        .enumerate()
        .filter_map(|(index, term)| Some((index, term.value.get("alias")?.scalar()?.to_owned())))
        .collect();
    for (index, alias) in written {
        let (family, version) = alias.split_once('@').unwrap_or((&alias, "latest"));
        let right = format!("{}@{version}", family.to_lowercase());
        if right != alias {
            object.changed(&format!("spec.amiSelectorTerms[{index}].alias"), &format!("{alias:?} is now {right:?}"));
            if let Some(term) = object.root.at_mut(&TERMS).and_then(|terms| terms.items_mut().get_mut(index)) {
                term.value.set("alias", Node::text(&right));
            }
        }
    }
}

/// Adds the alias of the newest image for a family without terms, which was the default.
fn newest(object: &mut Object, family: &str) {
    let alias = format!("{}@latest", family.to_lowercase());
    object.changed(&TERMS.join("."), &format!("added alias {alias}, the default of amiFamily {family}"));
    let term = Node { line: 0, kind: NodeKind::FlowMap(vec![Entry::new("alias", Node::text(&alias))]) };
    object.root.enter(&["spec"]).set("amiSelectorTerms", Node::list([term]));
    if family == "AL2" {
        let text = "AL2 images exist up to Kubernetes 1.32; before 1.33 change to AL2023 and review userData";
        object.lost(&FAMILY.join("."), text);
    }
}

/// Converts family Ubuntu to AL2. Ubuntu's images boot like AL2's, with another root device.
fn ubuntu(object: &mut Object) {
    object.rewrite(&FAMILY, "AL2", "family Ubuntu does not exist any more, its images boot like AL2");
    if object.root.at(&["spec", "blockDeviceMappings"]).is_none() {
        object.changed("spec.blockDeviceMappings", "added the disk of family Ubuntu: /dev/sda1, 20Gi");
        let disk =
            [("encrypted", Node::plain(true)), ("volumeSize", Node::plain("20Gi")), ("volumeType", Node::text("gp3"))];
        let mapping =
            [("deviceName", Node::text("/dev/sda1")), ("rootVolume", Node::plain(true)), ("ebs", Node::map(disk))];
        object.root.enter(&["spec"]).set("blockDeviceMappings", Node::list([Node::map(mapping)]));
    }
}

/// Adds the hop limit of 2, with which pods reached instance metadata by default before v1.
fn metadata(object: &mut Object, version: ClassVersion) {
    let options = object.root.at(&["spec", "metadataOptions"]).filter(|node| node.is_map());
    if version == ClassVersion::Alpha && options.is_some_and(|options| options.get("httpTokens").is_none()) {
        let text = "v1 requires tokens; before, a class with other options left httpTokens to EC2";
        object.lost("spec.metadataOptions", text);
    }
    if object.root.at(&HOPS).is_none() {
        object.changed(&HOPS.join("."), "added 2, the default before v1 (v1 has 1)");
        object.root.enter(&["spec", "metadataOptions"]).set("httpPutResponseHopLimit", Node::plain(2));
    }
}
