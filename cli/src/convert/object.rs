//! An object during its conversion, with its remarks and errors.

use api::annotation;

use super::tree::{Entry, Node};
use crate::input::{InputError, Place};

/// Result of the conversion of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemarkKind {
    /// The field has the same meaning in its current form.
    Changed,
    /// No current field has this meaning.
    Lost,
    /// The text stays as it is, and the user should know something about it.
    Note,
}

/// One sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remark {
    pub(super) kind: RemarkKind,
    pub(super) text: String,
}

/// An object, or another document that is converted.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) place: Place,
    /// Kind and name, as errors refer to the object.
    pub(super) label: String,
    pub(super) root: Node,
    pub(super) remarks: Vec<Remark>,
    pub(super) faults: Vec<InputError>,
    /// Documents that the conversion split off from this one.
    pub(super) split_offs: Vec<Self>,
    /// `true` if the object is written from its tree.
    pub(super) edited: bool,
}

impl Object {
    pub(super) fn new(place: Place, root: Node) -> Self {
        let name = [root.text_at(&["metadata", "name"]), root.text_at(&["metadata", "generateName"])].concat();
        let label = format!("{} {name}", root.text_at(&["kind"])).trim().to_owned();
        Self { place, label, root, remarks: Vec::new(), faults: Vec::new(), split_offs: Vec::new(), edited: false }
    }

    /// Returns group, version and kind.
    pub(super) fn api(&self) -> (&str, &str, &str) {
        let (group, version) = self.root.text_at(&["apiVersion"]).split_once('/').unwrap_or_default();
        (group, version, self.root.text_at(&["kind"]))
    }

    pub(super) fn name(&self) -> &str {
        self.root.text_at(&["metadata", "name"])
    }

    /// Reports whether the object was changed.
    pub(super) fn is_changed(&self) -> bool {
        self.remarks.iter().any(|remark| remark.kind != RemarkKind::Note)
    }

    fn head(&self, path: &str) -> String {
        let line = match self.root.line_of(path) {
            0 => String::new(),
            line => format!("line {line}: "),
        };
        let label = if self.label.is_empty() { String::new() } else { format!("{}: ", self.label) };
        format!("{line}{label}{path}")
    }

    fn remark(&mut self, kind: RemarkKind, path: &str, text: &str) {
        let text = format!("{}: {}: {text}", self.place, self.head(path));
        self.remarks.push(Remark { kind, text });
    }

    /// Records a change. Must be called before the change, while the line of the field is known.
    pub(super) fn changed(&mut self, path: &str, text: &str) {
        self.remark(RemarkKind::Changed, path, text);
    }

    /// Records a setting without an equivalent.
    pub(super) fn lost(&mut self, path: &str, text: &str) {
        self.remark(RemarkKind::Lost, path, text);
    }

    /// Records something about a field that stays as it is, as one sentence that begins with the field.
    pub(super) fn note_field(&mut self, path: &str, text: &str) {
        let text = format!("{}: {} {text}", self.place, self.head(path));
        self.remarks.push(Remark { kind: RemarkKind::Note, text });
    }

    /// Rejects the object because of a field.
    pub(super) fn refuse(&mut self, path: &str, problem: &str, cure: impl Into<String>) {
        let problem = format!("{}: {problem}", self.head(path));
        self.faults.push(InputError::new(&self.place, problem, cure));
    }

    /// Adds the line of the field to an error that another validation found in this object.
    pub(super) fn located(&self, error: InputError) -> InputError {
        let line = match self.root.line_of(&error.field) {
            0 => String::new(),
            line => format!("line {line}: "),
        };
        InputError { place: self.place.clone(), problem: format!("{line}{}", error.problem), ..error }
    }

    /// Sets a scalar to another value.
    pub(super) fn rewrite(&mut self, path: &[&'static str], value: &str, why: &str) {
        let (Some((key, parents)), shown) = (path.split_last(), path.join(".")) else { return };
        let old = self.root.text_at(path).to_owned();
        let change = if old.is_empty() { format!("added {value:?}") } else { format!("{old:?} is now {value:?}") };
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        self.changed(&shown, &format!("{change}{why}"));
        self.root.enter(parents).set(key, Node::text(value));
    }

    /// Moves a field with its comments. A field that already exists at the new path must have the same value.
    pub(super) fn shift(&mut self, from: &[&'static str], to: &[&'static str]) {
        let (old, new) = (from.join("."), to.join("."));
        let (Some(found), Some((key, parents))) = (self.root.at(from), to.split_last()) else { return };
        let same = self.root.at(to).map(|there| there.is_equal(found));
        if same == Some(false) {
            self.refuse(&old, &format!("{new} is set too, with another value"), "remove one of them");
            return;
        }
        self.changed(&old, &format!("is now {new}"));
        let Some(entry) = self.root.take_at(from) else { return };
        if same.is_none() {
            self.root.enter(parents).push(Entry { key: (*key).to_owned(), ..entry });
        }
    }

    /// Removes a field that no version reads any more.
    pub(super) fn drop(&mut self, path: &[&'static str], why: &str) {
        if self.root.at(path).is_some() {
            self.lost(&path.join("."), why);
            self.root.take_at(path);
        }
    }

    /// Sets the object's `apiVersion` and `kind`.
    pub(super) fn become_kind(&mut self, api_version: &'static str, kind: &'static str) {
        if self.root.text_at(&["apiVersion"]) != api_version {
            self.rewrite(&["apiVersion"], api_version, "");
        }
        if self.root.text_at(&["kind"]) != kind {
            self.rewrite(&["kind"], kind, "");
            self.label = format!("{kind} {}", self.name());
        }
    }

    /// Moves the remarks and errors of the split-off documents to this object.
    pub(super) fn take_split_off_messages(&mut self) {
        for split_off in &mut self.split_offs {
            self.remarks.append(&mut split_off.remarks);
            self.faults.append(&mut split_off.faults);
        }
    }

    /// Removes fields that the API server writes, if the object was changed: they must not be applied again.
    pub(super) fn remove_server_fields(&mut self) {
        let taken = take_server_fields(&mut self.root);
        if !taken.is_empty() {
            self.changed("metadata", &format!("removed fields of the API server: {}", taken.join(", ")));
        }
    }
}

/// Removes the fields that the API server writes, and returns their names.
pub(super) fn take_server_fields(root: &mut Node) -> Vec<&'static str> {
    const OWNED: [&str; 6] = ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"];
    let mut taken: Vec<&str> = Vec::new();
    taken.extend(OWNED.into_iter().filter(|field| root.take_at(&["metadata", field]).is_some()));
    let applied = ["metadata", "annotations", annotation::LAST_APPLIED];
    taken.extend(root.take_at(&applied).map(|_| annotation::LAST_APPLIED));
    taken.extend(root.take("status").map(|_| "status"));
    taken
}
