//! `kerf convert`: manifests of older versions of Karpenter become manifests of v1 with the same meaning.
//!
//! Manifests, Helm values, Prometheus rules and Grafana boards are converted separately; only values beside manifests are read for
//! the settings of their classes. A document that is current is printed byte for byte. A
//! changed document is printed from a tree that keeps comments, quotes and the order of fields. All output is validated against
//! the rules of `kerf plan`. A single rejected document prevents any output.

mod class;
mod class_defaults;
mod cluster_autoscaler;
mod document;
mod kubelet;
mod monitoring;
mod object;
mod pool;
mod retired;
mod tree;
mod values;

use std::io::Read;
use std::path::PathBuf;

use crate::input::{self, File, InputError, InputErrors};
use crate::instance::userdata;
use crate::plan;
use class::ClassVersion;
use class_defaults::ClassDefaults;
use document::{Document, SourceText};
use object::{Object, RemarkKind};

pub use class_defaults::NodeIdentity;
pub use cluster_autoscaler::{GroupOptions, from_cluster_autoscaler};

/// Result of a conversion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// Converted documents.
    pub text: String,
    /// Changes, one sentence each, with file, document, line and field.
    pub changed: Vec<String>,
    /// Settings without an equivalent, in the same format.
    pub lost: Vec<String>,
    /// Other facts about the input that the user should know.
    pub notes: Vec<String>,
}

/// Converts all input at `paths`: files, folders with their subfolders, and `-` for `stdin`. Classes without a role and without
/// an instance profile get `identity`.
///
/// # Errors
/// Returns everything that cannot be converted, each with its fix.
pub fn convert(
    paths: &[PathBuf],
    identity: Option<&NodeIdentity>,
    stdin: &mut dyn Read,
) -> Result<Converted, InputErrors> {
    let (files, errors) = input::files(paths, stdin);
    if errors.is_empty() { texts(&files, identity) } else { Err(InputErrors::new(errors)) }
}

/// Converts one text as if it were the file `name`.
///
/// # Errors
/// Returns the same errors as [`convert`].
pub fn convert_text(name: &str, text: &str, identity: Option<&NodeIdentity>) -> Result<Converted, InputErrors> {
    texts(&[File { name: name.to_owned(), text: text.to_owned() }], identity)
}

fn texts(files: &[File], identity: Option<&NodeIdentity>) -> Result<Converted, InputErrors> {
    let mut sources: Vec<SourceText> = files.iter().map(SourceText::read).collect();
    let mut errors: Vec<InputError> =
        sources.iter_mut().flat_map(|source| std::mem::take(&mut source.errors)).collect();
    let values = document::take_values(&mut sources);
    let defaults = ClassDefaults::new(identity, &values);
    let mut out = Converted::default();
    out.notes.extend(values.iter().flat_map(SourceText::unconverted_values));
    errors.extend(document::mixed(&sources));
    let mut objects: Vec<&mut Object> = sources.iter_mut().flat_map(SourceText::objects).collect();
    convert_objects(&mut objects, &defaults);
    out.notes.extend(defaults.unused());
    reject_duplicate_classes(&mut objects);
    kubelet::move_to_classes(&mut objects);
    for object in &mut objects {
        object.take_split_off_messages();
        object.edited = object.is_changed();
        if object.edited && !object.label.is_empty() {
            object.remove_server_fields();
        }
        if object.faults.is_empty() {
            validate(object);
            note_ineffective(object);
        }
        errors.append(&mut object.faults);
    }
    if !errors.is_empty() {
        return Err(InputErrors::new(errors));
    }
    out.notes.extend(class_notes(&objects));
    for source in &sources {
        source.write(&mut out);
    }
    Ok(out)
}

/// Converts each object into its v1 form.
fn convert_objects(objects: &mut [&mut Object], defaults: &ClassDefaults) {
    let classes: Vec<String> =
        objects.iter().filter(|object| is_class(object)).map(|it| it.name().to_owned()).collect();
    for object in objects.iter_mut() {
        let (group, version, kind) = object.api();
        let api = [group, version, kind].map(str::to_owned);
        match [api[0].as_str(), api[1].as_str(), api[2].as_str()] {
            ["karpenter.sh", "v1alpha5", "Provisioner"] => {
                let inline = pool::provisioner(object, &classes);
                object.split_offs = inline.map(|root| Object::new(object.place.clone(), root)).into_iter().collect();
                for class in &mut object.split_offs {
                    class::modernise(class, ClassVersion::Alpha, defaults);
                }
            }
            ["karpenter.sh", "v1beta1" | "v1", "NodePool"] => pool::modernise(object, &classes),
            ["karpenter.k8s.aws", "v1alpha1", "AWSNodeTemplate"] => {
                class::modernise(object, ClassVersion::Alpha, defaults)
            }
            ["karpenter.k8s.aws", "v1beta1", "EC2NodeClass"] => class::modernise(object, ClassVersion::Beta, defaults),
            ["karpenter.k8s.aws", "v1", "EC2NodeClass"] => class::modernise(object, ClassVersion::Current, defaults),
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
    for object in objects.iter_mut().filter(|object| !object.split_offs.is_empty()) {
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

/// Validates a converted object with the rules of `kerf plan`.
fn validate(object: &mut Object) {
    let subjects = || [&*object].into_iter().chain(&object.split_offs);
    let faults: Vec<InputError> = subjects().flat_map(plan_errors).collect();
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

/// Returns the warnings about the user data of the converted classes, and about budgets of the converted NodePools.
fn class_notes(objects: &[&mut Object]) -> Vec<String> {
    let roots = objects.iter().flat_map(|object| [&**object].into_iter().chain(&object.split_offs));
    let texts = roots.filter(|object| !object.label.is_empty()).map(|object| {
        let text = tree::Tree { root: object.root.clone(), after: Vec::new() }.write();
        input::read_text(&object.place.file, &text).map(|manifests| manifests.objects).unwrap_or_default()
    });
    let mut known = input::Objects::default();
    for objects in texts {
        known.pools.extend(objects.pools);
        known.classes.extend(objects.classes);
    }
    let hints = plan::hints::without_constant_budget(&known.pools);
    hints.into_iter().chain(userdata::warnings(&known)).collect()
}

/// Adds notes about fields and keys of a converted object that have no effect.
fn note_ineffective(object: &mut Object) {
    if object.label.is_empty() {
        return;
    }
    let texts = || {
        let roots = [&object.root].into_iter().chain(object.split_offs.iter().map(|split_off| &split_off.root));
        roots.map(|root| tree::Tree { root: root.clone(), after: Vec::new() }.write())
    };
    let found = texts().filter_map(|text| input::read_text(&object.place.file, &text).ok());
    let warnings: Vec<String> = found.flat_map(|manifests| manifests.warnings).collect();
    for warning in warnings {
        let text = warning.strip_prefix(&format!("{}: ", object.label)).unwrap_or(&warning);
        let (path, rest) = text.split_once(' ').unwrap_or((text, ""));
        object.note_field(path, rest);
    }
}

impl Converted {
    fn remark(&mut self, kind: RemarkKind, text: &str) {
        let text = input::in_one_line(text);
        match kind {
            RemarkKind::Changed => self.changed.push(text),
            RemarkKind::Lost => self.lost.push(text),
            RemarkKind::Note => self.notes.push(text),
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
