//! Kubelet settings, which belong to the EC2NodeClass since v1. NodePools that share a class and differ in their settings get a
//! copy of the class each.

use api::annotation;

use super::is_class;
use super::object::{Object, take_server_fields};
use super::tree::{self, Entry, Node, NodeKind, Style};

const KUBELET: [&str; 4] = ["spec", "template", "spec", "kubelet"];
const CLASS_NAME: [&str; 5] = ["spec", "template", "spec", "nodeClassRef", "name"];
/// Maximum length of the name of a class, which is also the value of a label of its nodes.
const LONGEST_NAME: usize = 63;

/// Moves the kubelet settings of a NodePool of v1beta1, which Karpenter 1.0 kept in an annotation, back to their field. In
/// Karpenter 1.0 the annotation took precedence over the settings of the class.
pub(super) fn restore_from_annotation(object: &mut Object) {
    const KEY: &str = annotation::KUBELET_CONVERSION;
    let path = format!("metadata.annotations[{KEY}]");
    let Some(annotation) = object.root.at(&["metadata", "annotations", KEY]) else { return };
    let (line, text) = (annotation.line, annotation.scalar().unwrap_or_default().to_owned());
    let settings = tree::read(&text, line).ok().map(|read| read.root).filter(Node::is_map);
    let Some(settings) = settings.map(|root| in_block_style(root, line)) else {
        let cure = "write the settings as spec.kubelet of the EC2NodeClass, and remove the annotation";
        object.refuse(&path, "not a JSON object of kubelet settings", cure);
        return;
    };
    let known = object.root.at(&KUBELET).map(|known| known.is_equal(&settings));
    if known == Some(false) {
        object.refuse(&path, &format!("{} is set too, with another value", KUBELET.join(".")), "remove one of them");
        return;
    }
    object.changed(&path, "holds the kubelet settings of v1beta1, which are now those of the EC2NodeClass");
    object.root.take_at(&["metadata", "annotations", KEY]);
    if known.is_none() && !settings.fields().is_empty() {
        object.root.enter(&["spec", "template", "spec"]).set("kubelet", settings);
    }
}

/// Returns JSON in the style of YAML: one field per line, and quotes only where they are needed.
fn in_block_style(node: Node, line: usize) -> Node {
    let inner = |entries: Vec<Entry>| {
        let styled = |entry: Entry| Entry { value: in_block_style(entry.value, line), ..entry };
        entries.into_iter().map(styled).collect()
    };
    let kind = match node.kind {
        NodeKind::Map(fields) | NodeKind::FlowMap(fields) => NodeKind::Map(inner(fields)),
        NodeKind::List(items) | NodeKind::FlowList(items) => NodeKind::FlowList(inner(items)),
        NodeKind::Scalar(text, Style::Plain) => NodeKind::Scalar(text, Style::Plain),
        NodeKind::Scalar(text, _) => Node::text(&text).kind,
    };
    Node { line, kind }
}

/// A NodePool with its class and kubelet settings.
struct PoolSettings {
    /// Index of the NodePool.
    pool: usize,
    class: String,
    kubelet: Option<Node>,
}

/// Place of a class: an object, or the first document that was split off from an object.
#[derive(Clone, Copy)]
enum ClassPlace {
    Object(usize),
    SplitOffFrom(usize),
}

impl ClassPlace {
    fn resolve<'a>(self, objects: &'a mut [&mut Object]) -> Option<&'a mut Object> {
        match self {
            Self::Object(index) => objects.get_mut(index).map(|object| &mut **object),
            Self::SplitOffFrom(index) => objects.get_mut(index)?.split_offs.first_mut(),
        }
    }
}

/// Moves the kubelet settings of all NodePools to their classes.
pub(super) fn move_to_classes(objects: &mut [&mut Object]) {
    let settings: Vec<PoolSettings> = (0..objects.len())
        .filter(|index| objects[*index].api().2 == "NodePool")
        .map(|pool| {
            let root = &objects[pool].root;
            PoolSettings { pool, class: root.text_at(&CLASS_NAME).to_owned(), kubelet: root.at(&KUBELET).cloned() }
        })
        .collect();
    let mut classes: Vec<&str> = settings.iter().map(|it| it.class.as_str()).collect();
    classes.sort_unstable();
    classes.dedup();
    for class in classes {
        let own: Vec<&PoolSettings> = settings.iter().filter(|it| it.class == class).collect();
        move_to_class(objects, class, &own);
    }
}

/// Moves the settings of the NodePools of one class. The class keeps its own settings if it has any, or if a NodePool has none.
fn move_to_class(objects: &mut [&mut Object], name: &str, pools: &[&PoolSettings]) {
    let Some(first) = pools.iter().find_map(|pool| pool.kubelet.as_ref()) else { return };
    let Some(place) = find(objects, name, pools) else {
        pools.iter().filter(|pool| pool.kubelet.is_some()).for_each(|pool| refuse_unknown(objects[pool.pool], name));
        return;
    };
    let Some(class) = place.resolve(objects) else { return };
    let mut base = class.root.at(&["spec", "kubelet"]).cloned();
    if base.is_none() && pools.iter().all(|pool| pool.kubelet.is_some()) {
        class.changed("spec", "now has the kubelet settings of its NodePools");
        class.root.enter(&["spec"]).set("kubelet", first.clone());
        base = Some(first.clone());
    }
    let mut copies: Vec<(&Node, String)> = Vec::new();
    for PoolSettings { pool, kubelet, .. } in pools {
        let Some(kubelet) = kubelet else { continue };
        if base.as_ref().is_some_and(|base| base.is_equal(kubelet)) {
            take(objects[*pool], name);
            continue;
        }
        if !copies.iter().any(|(settings, _)| settings.is_equal(kubelet)) {
            copies.extend(add_copy(objects, place, *pool, kubelet).map(|copy| (kubelet, copy)));
        }
        let Some((_, copy)) = copies.iter().find(|(settings, _)| settings.is_equal(kubelet)) else { continue };
        take(objects[*pool], copy);
        let why = format!("another NodePool of EC2NodeClass {name} has other kubelet settings");
        objects[*pool].rewrite(&CLASS_NAME, copy, &why);
    }
}

fn find(objects: &[&mut Object], name: &str, pools: &[&PoolSettings]) -> Option<ClassPlace> {
    let object = (0..objects.len()).find(|index| is_class(objects[*index]) && objects[*index].name() == name);
    let inline = |pool: &&&PoolSettings| objects[pool.pool].split_offs.first().is_some_and(|it| it.name() == name);
    let split_off = || pools.iter().find(inline).map(|pool| ClassPlace::SplitOffFrom(pool.pool));
    object.map(ClassPlace::Object).or_else(split_off)
}

fn refuse_unknown(pool: &mut Object, class: &str) {
    let problem =
        format!("kubelet settings belong to the EC2NodeClass since v1, and EC2NodeClass {class} is not in the input");
    pool.refuse(&KUBELET.join("."), &problem, "add its file, so that they can be written there");
}

/// Removes the settings of a NodePool, which are now in a class.
fn take(pool: &mut Object, class: &str) {
    pool.changed(&KUBELET.join("."), &format!("is now spec.kubelet of EC2NodeClass {class}"));
    pool.root.take_at(&KUBELET);
}

/// Adds a copy of a class with the settings of a NodePool, and returns its name. Rejects a name that cannot be used.
fn add_copy(objects: &mut [&mut Object], place: ClassPlace, pool: usize, kubelet: &Node) -> Option<String> {
    let owner = objects[pool].label.clone();
    let root = place.resolve(objects)?.root.clone();
    let name = format!("{}-{}", root.text_at(&["metadata", "name"]), objects[pool].name());
    let is_taken = objects
        .iter()
        .flat_map(|object| [&**object].into_iter().chain(&object.split_offs))
        .any(|object| is_class(object) && object.name() == name);
    if is_taken || name.len() > LONGEST_NAME {
        let problem = match is_taken {
            true => format!("the copy of its EC2NodeClass would have the name {name} of another one"),
            false => {
                format!("the copy of its EC2NodeClass would have the name {name} of more than {LONGEST_NAME} letters")
            }
        };
        let cure = "write the copy with another name, and set it as nodeClassRef";
        objects[pool].refuse(&KUBELET.join("."), &problem, cure);
        return None;
    }
    let class = place.resolve(objects)?;
    let text = format!("copied as EC2NodeClass {name}, with the kubelet settings of {owner}");
    class.changed("metadata.name", &text);
    let mut copy = Object::new(class.place.clone(), root);
    take_server_fields(&mut copy.root);
    copy.root.enter(&["metadata"]).set("name", Node::text(&name));
    copy.root.enter(&["spec"]).set("kubelet", kubelet.clone());
    let copy = Object { label: format!("EC2NodeClass {name}"), ..copy };
    class_owner(objects, place)?.split_offs.push(copy);
    Some(name)
}

/// Returns the object behind which the copies of a class are written.
fn class_owner<'a>(objects: &'a mut [&mut Object], place: ClassPlace) -> Option<&'a mut Object> {
    let (ClassPlace::Object(index) | ClassPlace::SplitOffFrom(index)) = place;
    objects.get_mut(index).map(|object| &mut **object)
}
