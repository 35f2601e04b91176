//! `kerf convert`: manifests of older versions of Karpenter become manifests of v1 with the same meaning.
//!
//! Manifests, Helm values and Prometheus rules are reported separately. A document that is current is printed byte for byte. A
//! changed document is printed from a tree that keeps comments, quotes and the order of fields. All output is validated against
//! the rules of `kerf plan`. A single rejected document prevents any output.

mod class;
mod cluster_autoscaler;
mod document;
mod object;
mod pool;
mod retired;
mod tree;
mod values;

use std::io::Read;
use std::path::PathBuf;

use crate::input::{self, File, InputError, InputErrors};
use class::ClassVersion;
use document::{Document, SourceText};
use object::{Object, RemarkKind};
use tree::Node;

pub use cluster_autoscaler::from_cluster_autoscaler;

/// Result of a conversion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// Converted documents.
    pub text: String,
    /// Changes, one sentence each, with file, document, line and field.
    pub changed: Vec<String>,
    /// Settings without an equivalent, in the same format.
    pub lost: Vec<String>,
}

/// Converts all input at `paths`: files, folders with their subfolders, and `-` for `stdin`.
///
/// # Errors
/// Returns everything that cannot be converted, each with its fix.
pub fn convert(paths: &[PathBuf], stdin: &mut dyn Read) -> Result<Converted, InputErrors> {
    let (files, errors) = input::files(paths, stdin);
    if errors.is_empty() { texts(&files) } else { Err(InputErrors::new(errors)) }
}

/// Converts one text as if it were the file `name`.
///
/// # Errors
/// Returns the same errors as [`convert`].
pub fn convert_text(name: &str, text: &str) -> Result<Converted, InputErrors> {
    texts(&[File { name: name.to_owned(), text: text.to_owned() }])
}

fn texts(files: &[File]) -> Result<Converted, InputErrors> {
    let mut sources: Vec<SourceText> = files.iter().map(SourceText::read).collect();
    let mut errors: Vec<InputError> =
        sources.iter_mut().flat_map(|source| std::mem::take(&mut source.errors)).collect();
    errors.extend(document::mixed(&sources));
    let mut objects: Vec<&mut Object> = sources.iter_mut().flat_map(SourceText::objects).collect();
    convert_objects(&mut objects);
    reject_duplicate_classes(&mut objects);
    move_kubelets(&mut objects);
    let mut out = Converted::default();
    for object in &mut objects {
        object.take_split_off_messages();
        object.edited = object.is_changed();
        if object.edited && !object.label.is_empty() {
            object.remove_server_fields();
        }
        if object.faults.is_empty() {
            validate(object);
        }
        errors.append(&mut object.faults);
    }
    if !errors.is_empty() {
        return Err(InputErrors::new(errors));
    }
    for source in &sources {
        source.write(&mut out);
    }
    Ok(out)
}

/// Converts each object into its v1 form.
fn convert_objects(objects: &mut [&mut Object]) {
    let classes: Vec<String> =
        objects.iter().filter(|object| is_class(object)).map(|it| it.name().to_owned()).collect();
    for object in objects.iter_mut() {
        let (group, version, kind) = object.api();
        let api = [group, version, kind].map(str::to_owned);
        match [api[0].as_str(), api[1].as_str(), api[2].as_str()] {
            ["karpenter.sh", "v1alpha5", "Provisioner"] => {
                let inline = pool::provisioner(object, &classes);
                object.split_off = inline.map(|root| Box::new(Object::new(object.place.clone(), root)));
                if let Some(class) = object.split_off.as_deref_mut() {
                    class::modernise(class, ClassVersion::Alpha);
                }
            }
            ["karpenter.sh", "v1beta1" | "v1", "NodePool"] => pool::modernise(object, &classes),
            ["karpenter.k8s.aws", "v1alpha1", "AWSNodeTemplate"] => class::modernise(object, ClassVersion::Alpha),
            ["karpenter.k8s.aws", "v1beta1", "EC2NodeClass"] => class::modernise(object, ClassVersion::Beta),
            ["karpenter.k8s.aws", "v1", "EC2NodeClass"] => class::modernise(object, ClassVersion::Current),
            ["karpenter.sh", "v1", "NodeClaim"] | ["karpenter.sh", "v1beta1", "NodeClaim"] => {}
            ["", _, _] => values::modernise(object),
            [_, _, kind] => reject_unsupported(object, kind),
        }
    }
    let expiries: Vec<(String, String)> =
        objects.iter().filter(|it| it.api().2 == "NodePool").map(|it| expiry(it)).collect();
    for object in objects.iter_mut().filter(|it| it.api() == ("karpenter.sh", "v1beta1", "NodeClaim")) {
        let owner = object.root.text_at(&["metadata", "labels", "karpenter.sh/nodepool"]);
        let expiry = expiries.iter().find(|(name, _)| name == owner).map(|(_, expiry)| expiry.clone());
        pool::claim(object, expiry.as_deref());
    }
}

/// Rejects a class of a Provisioner's provider whose name another class has.
fn reject_duplicate_classes(objects: &mut [&mut Object]) {
    let classes: Vec<String> = objects.iter().filter(|it| is_class(it)).map(|it| it.name().to_owned()).collect();
    for object in objects.iter_mut().filter(|object| object.split_off.is_some()) {
        if classes.iter().any(|class| class == object.name()) {
            let cure = "write the provider as an AWSNodeTemplate with another name and a providerRef to it";
            object.refuse("spec", "the EC2NodeClass of its provider would have the name of another one", cure);
        }
    }
}

/// Returns a NodePool's name, and the age at which its nodes expire.
fn expiry(pool: &Object) -> (String, String) {
    let given = pool.root.text_at(&["spec", "template", "spec", "expireAfter"]);
    (pool.name().to_owned(), if given.is_empty() { "720h".to_owned() } else { given.to_owned() })
}

fn is_class(object: &Object) -> bool {
    matches!(object.api(), ("karpenter.k8s.aws", _, "EC2NodeClass" | "AWSNodeTemplate"))
}

/// Rejects an object of Karpenter's groups that cannot be converted.
fn reject_unsupported(object: &mut Object, kind: &str) {
    if kind == "Machine" {
        let cure = "remove it: the controller created it, and its node is replaced by one of the NodePool";
        object.refuse("kind", "kind Machine does not exist in v1", cure);
        return;
    }
    let known = "Provisioner of karpenter.sh/v1alpha5, NodePool and NodeClaim of karpenter.sh/v1beta1 and v1, AWSNodeTemplate of \
                 karpenter.k8s.aws/v1alpha1, EC2NodeClass of karpenter.k8s.aws/v1beta1 and v1";
    let api = object.root.text_at(&["apiVersion"]).to_owned();
    let path = if ["NodePool", "NodeClaim", "EC2NodeClass", "Provisioner", "AWSNodeTemplate"].contains(&kind) {
        "apiVersion"
    } else {
        "kind"
    };
    object.refuse(path, &format!("there never was a {kind} of {api}"), format!("write one of these: {known}"));
}

/// Moves kubelet settings to the class, to which they belong since v1. All NodePools of a class must have the same settings.
fn move_kubelets(objects: &mut [&mut Object]) {
    const KUBELET: [&str; 4] = ["spec", "template", "spec", "kubelet"];
    let class_of = |pool: &Object| pool.root.text_at(&["spec", "template", "spec", "nodeClassRef", "name"]).to_owned();
    let pools: Vec<usize> = (0..objects.len()).filter(|place| objects[*place].api().2 == "NodePool").collect();
    let settings: Vec<(usize, String, Option<Node>)> = pools
        .iter()
        .map(|place| (*place, class_of(objects[*place]), objects[*place].root.at(&KUBELET).cloned()))
        .collect();
    for (place, class, kubelet) in &settings {
        let Some(kubelet) = kubelet else { continue };
        let path = KUBELET.join(".");
        let differs = |other: &Option<Node>| other.as_ref().is_none_or(|other| !other.is_equal(kubelet));
        if let Some((other, ..)) = settings.iter().find(|(_, name, other)| name == class && differs(other)) {
            let problem = format!(
                "kubelet settings belong to the EC2NodeClass since v1, and {} of the same class {class} has others",
                objects[*other].label
            );
            let cure = format!("copy {class} with another name for one of the NodePools and set its nodeClassRef");
            objects[*place].refuse(&path, &problem, cure);
            continue;
        }
        move_kubelet(objects, *place, class, kubelet);
    }
}

fn move_kubelet(objects: &mut [&mut Object], pool: usize, class: &str, kubelet: &Node) {
    const PATH: &str = "spec.template.spec.kubelet";
    let own = objects[pool].split_off.as_deref().is_some_and(|split_off| split_off.name() == class);
    let found = (0..objects.len()).find(|place| is_class(objects[*place]) && objects[*place].name() == class);
    if found.is_none() && !own {
        let problem = format!(
            "kubelet settings belong to the EC2NodeClass since v1, and EC2NodeClass {class} is \
                               not in the input"
        );
        objects[pool].refuse(PATH, &problem, "add its file, so that they can be written there");
        return;
    }
    objects[pool].changed(PATH, &format!("is now spec.kubelet of EC2NodeClass {class}"));
    objects[pool].root.take_at(&["spec", "template", "spec", "kubelet"]);
    let class = match found {
        Some(place) => Some(&mut *objects[place]),
        None => objects[pool].split_off.as_deref_mut(),
    };
    let Some(class) = class else { return };
    match class.root.at(&["spec", "kubelet"]).map(|known| known.is_equal(kubelet)) {
        Some(true) => {}
        Some(false) => {
            class.refuse("spec.kubelet", "a NodePool of this class has other kubelet settings", "make both equal");
        }
        None => {
            class.changed("spec", "now has the kubelet settings of its NodePools");
            class.root.enter(&["spec"]).set("kubelet", kubelet.clone());
        }
    }
}

/// Validates a converted object with the rules of `kerf plan`.
fn validate(object: &mut Object) {
    let subjects = [Some(&*object), object.split_off.as_deref()];
    let faults: Vec<InputError> = subjects.into_iter().flatten().flat_map(plan_errors).collect();
    object.faults.extend(faults);
}

fn plan_errors(object: &Object) -> Vec<InputError> {
    if object.label.is_empty() {
        return Vec::new();
    }
    let text = tree::Tree { root: object.root.clone(), after: Vec::new() }.write();
    let found = input::read_text(&object.place.file, &text);
    let errors = found.map_or_else(|errors| errors.0, |_| Vec::new());
    errors.into_iter().map(|error| object.located(error)).collect()
}

impl Converted {
    fn remark(&mut self, kind: RemarkKind, text: &str) {
        let text = input::in_one_line(text);
        match kind {
            RemarkKind::Changed => self.changed.push(text),
            RemarkKind::Lost => self.lost.push(text),
        }
    }
}

impl Document {
    /// Adds the remarks of the objects to the result, in the order of their creation.
    fn write_remarks(&self, out: &mut Converted) {
        for object in &self.objects {
            object.remarks.iter().for_each(|remark| out.remark(remark.kind, &remark.text));
        }
    }
}
