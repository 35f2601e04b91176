//! Kubernetes manifests as people keep them: files, folders and standard input become typed objects, or errors that
//! name the file, the document, the field and the cure.

mod crossed;
mod error;
mod files;
mod kinds;
mod objects;
mod outdated;
mod rules;
mod schema;
mod strict;
mod text;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

use serde_json::Value;

pub use error::{InputError, InputErrors, Place};
pub use kinds::Kind;
pub use objects::Objects;

pub(crate) use error::in_one_line;
pub(crate) use files::File;
pub(crate) use text::{is_blank, pieces};

use kinds::Verdict;

/// What was found at the paths.
#[derive(Clone, Debug, Default)]
pub struct Manifests {
    /// The objects that a plan looks at, each kind in the order of namespaces and names.
    pub objects: Objects,
    /// What deserves a word, in an order that does not depend on files; positions in files are left out.
    pub warnings: Vec<String>,
    /// The same with positions in files, in the order of reading.
    pub notes: Vec<String>,
}

/// One object as it was written.
#[derive(Clone, Debug)]
pub(crate) struct Raw {
    pub(crate) place: Place,
    pub(crate) kind: Kind,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) value: Value,
}

/// Reads everything at `paths`: files, folders with all that is below them, and `-` for `stdin`. YAML of several
/// documents, JSON and Lists may be mixed. An object that is there twice in the same words counts once.
///
/// # Errors
/// Everything that cannot be read, not only the first.
pub fn read(paths: &[PathBuf], stdin: &mut dyn Read) -> Result<Manifests, InputErrors> {
    let (files, errors) = files(paths, stdin);
    let mut reader = Reader { errors, ..Reader::default() };
    files.iter().for_each(|file| reader.file(&file.name, &file.text));
    reader.finish()
}

/// The texts of everything at `paths`, and what cannot be read.
pub(crate) fn files(paths: &[PathBuf], stdin: &mut dyn Read) -> (Vec<File>, Vec<InputError>) {
    let (mut all, mut errors) = (Vec::new(), Vec::new());
    for path in paths {
        match files::read(path, stdin) {
            Ok(files) => all.extend(files),
            Err(error) => errors.push(error),
        }
    }
    (all, errors)
}

/// Every document of a file as a plain value, and those that cannot be parsed.
pub(crate) fn values(file: &File) -> (Vec<(Place, Value)>, Vec<InputError>) {
    text::documents(&file.name, &file.text)
}

/// Reads one text as if it were the file `name`.
///
/// # Errors
/// As [`read`].
pub fn read_text(name: &str, text: &str) -> Result<Manifests, InputErrors> {
    let mut reader = Reader::default();
    reader.file(name, text);
    reader.finish()
}

/// What has been gathered so far.
#[derive(Default)]
struct Reader {
    found: BTreeMap<(Kind, String, String), Raw>,
    /// Objects that get their names from the API server, by the name's beginning.
    unnamed: BTreeMap<(Kind, String, String), Vec<Raw>>,
    strangers: BTreeMap<String, usize>,
    warnings: Vec<String>,
    notes: Vec<String>,
    errors: Vec<InputError>,
}

impl Reader {
    fn file(&mut self, name: &str, text: &str) {
        let (values, errors) = text::documents(name, text);
        self.errors.extend(errors);
        values.into_iter().for_each(|(place, value)| self.value(place, value));
    }

    /// Takes one document or one item of a List.
    fn value(&mut self, place: Place, value: Value) {
        match kinds::verdict(&place, &value) {
            Err(error) => self.errors.push(error),
            Ok(Verdict::List(items)) => {
                for (index, item) in items.into_iter().enumerate() {
                    self.value(place.item(index + 1), item);
                }
            }
            Ok(Verdict::Stranger { what }) => {
                self.notes.push(format!("{place}: {what} is not used by plans and is ignored"));
                *self.strangers.entry(what).or_default() += 1;
            }
            Ok(Verdict::Known(kind)) => self.known(place, kind, value),
        }
    }

    fn known(&mut self, place: Place, kind: Kind, mut value: Value) {
        forget_nulls(&mut value);
        if let Some(error) = error::not_text(&place, kind, &value) {
            self.errors.push(error);
            return;
        }
        let text = |field: &str| value["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (name, begins) = (text("name"), text("generateName"));
        let mut namespace = if kind.is_namespaced() { text("namespace") } else { String::new() };
        if kind.is_namespaced() && namespace.is_empty() {
            "default".clone_into(&mut namespace);
        }
        let raw = Raw { place, kind, namespace: namespace.clone(), name: name.clone(), value };
        match (name.is_empty(), begins.is_empty()) {
            (true, true) => self.errors.push(error::nameless(&raw)),
            (true, false) => self.unnamed.entry((kind, namespace, begins)).or_default().push(raw),
            (false, _) => self.keep(raw),
        }
    }

    fn keep(&mut self, raw: Raw) {
        let key = (raw.kind, raw.namespace.clone(), raw.name.clone());
        match self.found.get(&key) {
            None => {
                self.found.insert(key, raw);
            }
            Some(first) if first.value == raw.value => {
                self.notes.push(format!("{}: duplicate of {}, ignored", raw.place, first.place));
            }
            Some(first) => self.errors.push(error::twice(&raw, &first.place)),
        }
    }

    /// Gives names to objects that only say how theirs begin: numbers, in the order of what the objects say.
    fn name_the_unnamed(&mut self) {
        for ((kind, namespace, begins), mut list) in std::mem::take(&mut self.unnamed) {
            list.sort_by_cached_key(|raw| raw.value.to_string());
            for (number, mut raw) in list.into_iter().enumerate() {
                raw.name = format!("{begins}{number}");
                raw.value["metadata"]["name"] = Value::from(raw.name.clone());
                log_taken(&mut self.notes, &raw, &self.found, &(kind, namespace.clone(), raw.name.clone()));
                self.keep(raw);
            }
        }
    }

    fn finish(mut self) -> Result<Manifests, InputErrors> {
        self.name_the_unnamed();
        let mut objects = Objects::default();
        for raw in self.found.into_values() {
            for warning in unknown_fields(&raw) {
                self.notes.push(format!("{}: {warning}", raw.place));
                self.warnings.push(warning);
            }
            let refused = refused(&raw);
            if refused.is_empty() {
                self.errors.extend(rules::faults(&raw));
                self.errors.extend(objects.add(raw).err().unwrap_or_default());
            }
            self.errors.extend(refused);
        }
        if !self.errors.is_empty() {
            return Err(InputErrors::new(self.errors));
        }
        if !self.strangers.is_empty() {
            let each = |(what, count): (&String, &usize)| format!("{count} {what}");
            let list: Vec<String> = self.strangers.iter().map(each).collect();
            self.warnings.push(format!("ignored, not used by plans: {}", list.join(", ")));
        }
        self.warnings.sort();
        self.warnings.dedup();
        let lines = |texts: Vec<String>| texts.iter().map(|text| in_one_line(text)).collect();
        Ok(Manifests { objects, warnings: lines(self.warnings), notes: lines(self.notes) })
    }
}

/// Takes out fields that say nothing, such as the `resources:` that templates leave behind: Kubernetes takes them for
/// absent. Where names and values are people's own, nothing is a mistake that is reported.
fn forget_nulls(value: &mut Value) {
    const OWN: [&str; 4] = ["labels", "matchLabels", "annotations", "nodeSelector"];
    match value {
        Value::Object(fields) => {
            fields.retain(|_, inner| !inner.is_null());
            fields.iter_mut().filter(|(name, _)| !OWN.contains(&name.as_str())).for_each(|(_, it)| forget_nulls(it));
        }
        Value::Array(items) => items.iter_mut().for_each(forget_nulls),
        _ => {}
    }
}

/// Everything for which the API server would refuse a custom resource, or drop what someone meant; such an object is not
/// looked at any further. What has its own cure is reported with that alone.
fn refused(raw: &Raw) -> Vec<InputError> {
    let mut faults = outdated::faults(raw);
    let told: Vec<Box<str>> = faults.iter().map(|fault| fault.field.clone()).collect();
    faults.extend(schema::faults(raw).into_iter().filter(|fault| !told.contains(&fault.field)));
    faults.extend(crossed::faults(raw));
    faults
}

/// Sentences about fields that do not exist: most are typing mistakes.
fn unknown_fields(raw: &Raw) -> Vec<String> {
    let paths = schema::unknown_fields(raw).into_iter().chain(strict::unknown_fields(raw));
    paths.map(|path| format!("{} {}: {path} is not a field and is ignored", raw.kind, raw.full_name())).collect()
}

fn log_taken(
    notes: &mut Vec<String>,
    raw: &Raw,
    found: &BTreeMap<(Kind, String, String), Raw>,
    key: &(Kind, String, String),
) {
    if !found.contains_key(key) {
        notes.push(format!("{}: no name, using {}", raw.place, raw.name));
    }
}
