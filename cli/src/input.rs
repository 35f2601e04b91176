//! Kubernetes manifests in files, folders and standard input become typed objects, or errors with the file, the document, the
//! field and the fix.

mod bounded;
mod changes;
mod error;
mod files;
mod kinds;
mod objects;
mod raw;
mod stored;
mod text;
mod validation;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

use serde_json::Value;

pub use changes::Change;
pub use error::{InputError, InputErrors, Place};
pub use kinds::Kind;
pub use snapshot::Objects;

pub(crate) use error::in_one_line;
pub(crate) use files::File;
pub(crate) use stored::StoredObjects;
pub(crate) use text::{is_blank, pieces};
pub(crate) use validation::settings as ineffective_settings;

use kinds::Verdict;
use raw::{ObjectKey, Raw};

/// Content of the paths.
#[derive(Clone, Debug, Default)]
pub struct Manifests {
    /// Objects that a plan depends on; each kind is sorted by namespace and name.
    pub objects: Objects,
    /// Warnings without positions in files, in an order that does not depend on files.
    pub warnings: Vec<String>,
    /// The same warnings with positions in files, in the order of reading.
    pub notes: Vec<String>,
    /// Sentences about the changes of objects.
    pub changes: Vec<String>,
}

/// Reads all input at `paths`: files, folders with their subfolders, and `-` for `stdin`. YAML with several documents, JSON and
/// Lists may be mixed. An object that occurs twice with the same content counts once.
///
/// # Errors
/// Returns all errors, not only the first.
pub fn read(paths: &[PathBuf], stdin: &mut dyn Read) -> Result<Manifests, InputErrors> {
    let (files, errors) = files(paths, stdin);
    read_changed(&files, errors, &[])
}

/// Reads files, and changes their objects. The errors of files that could not be read are among those of the result.
///
/// # Errors
/// Returns the same errors as [`read`], and those of the changes.
pub(crate) fn read_changed(
    files: &[File],
    errors: Vec<InputError>,
    changes: &[Change],
) -> Result<Manifests, InputErrors> {
    let mut reader = Reader { errors, ..Reader::default() };
    files.iter().for_each(|file| reader.file(&file.name, &file.text));
    reader.change(changes);
    reader.finish()
}

/// Returns the texts of all input at `paths`, and errors for paths that cannot be read.
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

/// Returns every document of a file as a plain value, and errors for documents that cannot be parsed.
pub(crate) fn values(file: &File) -> (Vec<(Place, Value)>, Vec<InputError>) {
    text::documents(&file.name, &file.text)
}

/// Reads one text as if it were the file `name`.
///
/// # Errors
/// Returns the same errors as [`read`].
pub fn read_text(name: &str, text: &str) -> Result<Manifests, InputErrors> {
    let mut reader = Reader::default();
    reader.file(name, text);
    reader.finish()
}

/// Reads objects that are values already, as if they were items of a List in the file `name`, and changes them.
///
/// # Errors
/// Returns the same errors as [`read`], and those of the changes.
pub(crate) fn read_values(name: &str, values: Vec<Value>, changes: &[Change]) -> Result<Manifests, InputErrors> {
    let mut reader = Reader::default();
    let list = Place { file: name.to_owned(), ..Place::default() };
    values.into_iter().enumerate().for_each(|(index, value)| reader.value(list.item(index + 1), value));
    reader.change(changes);
    reader.finish()
}

/// Objects, warnings and errors of the documents read so far.
#[derive(Default)]
struct Reader {
    found: BTreeMap<ObjectKey, Raw>,
    /// Objects with a `generateName` and no name, by their `generateName`.
    unnamed: BTreeMap<ObjectKey, Vec<Raw>>,
    ignored: BTreeMap<String, usize>,
    warnings: Vec<String>,
    notes: Vec<String>,
    changes: Vec<String>,
    errors: Vec<InputError>,
}

impl Reader {
    fn file(&mut self, name: &str, text: &str) {
        let (values, errors) = text::documents(name, text);
        self.errors.extend(errors);
        values.into_iter().for_each(|(place, value)| self.value(place, value));
    }

    /// Adds one document or one item of a List.
    fn value(&mut self, place: Place, value: Value) {
        match kinds::verdict(&place, &value) {
            Err(error) => self.errors.push(error),
            Ok(Verdict::List(items)) => {
                for (index, item) in items.into_iter().enumerate() {
                    self.value(place.item(index + 1), item);
                }
            }
            Ok(Verdict::Ignored { what }) => {
                self.notes.push(format!("{place}: {what} is not used by plans and is ignored"));
                *self.ignored.entry(what).or_default() += 1;
            }
            Ok(Verdict::Known(kind)) => self.known(place, kind, value),
        }
    }

    fn known(&mut self, place: Place, kind: Kind, mut value: Value) {
        remove_nulls(&mut value);
        match Raw::new(place, kind, value) {
            Err(error) => self.errors.push(error),
            Ok(raw) if !raw.name.is_empty() => self.keep(raw),
            Ok(raw) if raw.generate_name().is_empty() => self.errors.push(raw.nameless()),
            Ok(raw) => {
                let key = ObjectKey { name: raw.generate_name().to_owned(), ..raw.key() };
                self.unnamed.entry(key).or_default().push(raw);
            }
        }
    }

    fn keep(&mut self, raw: Raw) {
        let key = raw.key();
        match self.found.get(&key) {
            None => {
                self.found.insert(key, raw);
            }
            Some(first) if first.value == raw.value => {
                self.notes.push(format!("{}: duplicate of {}, ignored", raw.place, first.place));
            }
            Some(first) => self.errors.push(raw.conflict(&first.place)),
        }
    }

    fn change(&mut self, changes: &[Change]) {
        for change in changes {
            match change.apply(&mut self.found) {
                Ok(sentence) => self.changes.push(sentence),
                Err(error) => self.errors.push(error),
            }
        }
    }

    /// Names the objects that have only a `generateName`: the prefix and a number, in the order of their content.
    fn name_generated(&mut self) {
        for (key, mut list) in std::mem::take(&mut self.unnamed) {
            list.sort_by_cached_key(|raw| raw.value.to_string());
            for (number, mut raw) in list.into_iter().enumerate() {
                raw.name = format!("{}{number}", key.name);
                raw.value["metadata"]["name"] = Value::from(raw.name.clone());
                if !self.found.contains_key(&raw.key()) {
                    self.notes.push(format!("{}: no name, using {}", raw.place, raw.name));
                }
                self.keep(raw);
            }
        }
    }

    fn finish(mut self) -> Result<Manifests, InputErrors> {
        self.name_generated();
        let mut objects = Objects::default();
        for raw in self.found.into_values() {
            for warning in validation::ineffective(&raw) {
                self.notes.push(format!("{}: {warning}", raw.place));
                self.warnings.push(warning);
            }
            let rejected = validation::custom_resource(&raw);
            if rejected.is_empty() {
                self.errors.extend(validation::scheduling::faults(&raw));
                self.errors.extend(objects::add(&mut objects, raw).err().unwrap_or_default());
            }
            self.errors.extend(rejected);
        }
        if !self.errors.is_empty() {
            return Err(InputErrors::new(self.errors));
        }
        if !self.ignored.is_empty() {
            let each = |(what, count): (&String, &usize)| format!("{count} {what}");
            let list: Vec<String> = self.ignored.iter().map(each).collect();
            self.warnings.push(format!("ignored, not used by plans: {}", list.join(", ")));
        }
        self.warnings.sort();
        self.warnings.dedup();
        let lines = |texts: Vec<String>| texts.iter().map(|text| in_one_line(text)).collect();
        let (warnings, notes, changes) = (lines(self.warnings), lines(self.notes), lines(self.changes));
        Ok(Manifests { objects, warnings, notes, changes })
    }
}

/// Removes null fields, such as the empty `resources:` that templates produce: Kubernetes treats them as absent. Maps with
/// user-defined keys keep null values, so that they are reported as errors.
fn remove_nulls(value: &mut Value) {
    const USER_KEYS: [&str; 4] = ["labels", "matchLabels", "annotations", "nodeSelector"];
    match value {
        Value::Object(fields) => {
            fields.retain(|_, inner| !inner.is_null());
            fields
                .iter_mut()
                .filter(|(name, _)| !USER_KEYS.contains(&name.as_str()))
                .for_each(|(_, it)| remove_nulls(it));
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}
