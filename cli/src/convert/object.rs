//! One object on its way from an older form to the present one, with everything that is to be said about it.

use super::tree::{Entry, Node};
use crate::input::{InputError, Place};

/// What became of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// It says the same in its present form.
    Changed,
    /// Nothing says the same any more.
    Lost,
}

/// One sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remark {
    pub(super) sort: Sort,
    pub(super) text: String,
}

/// An object, or another document that is converted.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) place: Place,
    /// Kind and name, as errors call it.
    pub(super) label: String,
    pub(super) root: Node,
    pub(super) remarks: Vec<Remark>,
    pub(super) faults: Vec<InputError>,
    /// A document that came out of this one.
    pub(super) beside: Option<Box<Self>>,
    /// Whether it is written anew.
    pub(super) edited: bool,
}

impl Object {
    pub(super) fn new(place: Place, root: Node) -> Self {
        let name = [root.text_at(&["metadata", "name"]), root.text_at(&["metadata", "generateName"])].concat();
        let label = format!("{} {name}", root.text_at(&["kind"])).trim().to_owned();
        Self { place, label, root, remarks: Vec::new(), faults: Vec::new(), beside: None, edited: false }
    }

    /// Group, version and kind.
    pub(super) fn api(&self) -> (&str, &str, &str) {
        let (group, version) = self.root.text_at(&["apiVersion"]).split_once('/').unwrap_or_default();
        (group, version, self.root.text_at(&["kind"]))
    }

    pub(super) fn name(&self) -> &str {
        self.root.text_at(&["metadata", "name"])
    }

    /// Whether anything was changed.
    pub(super) fn is_changed(&self) -> bool {
        !self.remarks.is_empty()
    }

    fn head(&self, path: &str) -> String {
        let line = match self.root.line_of(path) {
            0 => String::new(),
            line => format!("line {line}: "),
        };
        let label = if self.label.is_empty() { String::new() } else { format!("{}: ", self.label) };
        format!("{line}{label}{path}")
    }

    fn say(&mut self, sort: Sort, path: &str, text: &str) {
        let text = format!("{}: {}: {text}", self.place, self.head(path));
        self.remarks.push(Remark { sort, text });
    }

    /// Notes a change; to be called before it is made, so that the line is still known.
    pub(super) fn changed(&mut self, path: &str, text: &str) {
        self.say(Sort::Changed, path, text);
    }

    /// Notes what has no equal.
    pub(super) fn lost(&mut self, path: &str, text: &str) {
        self.say(Sort::Lost, path, text);
    }

    /// Refuses the object for a field.
    pub(super) fn refuse(&mut self, path: &str, problem: &str, cure: impl Into<String>) {
        let problem = format!("{}: {problem}", self.head(path));
        self.faults.push(InputError::new(&self.place, problem, cure));
    }

    /// An error that someone else found in this object, with the line of its field.
    pub(super) fn located(&self, error: InputError) -> InputError {
        let line = match self.root.line_of(&error.field) {
            0 => String::new(),
            line => format!("line {line}: "),
        };
        InputError { place: self.place.clone(), problem: format!("{line}{}", error.problem), ..error }
    }

    /// Gives a scalar another value.
    pub(super) fn rewrite(&mut self, path: &[&'static str], value: &str, why: &str) {
        let (Some((key, parents)), shown) = (path.split_last(), path.join(".")) else { return };
        let old = self.root.text_at(path).to_owned();
        let change = if old.is_empty() { format!("added {value:?}") } else { format!("{old:?} is now {value:?}") };
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        self.changed(&shown, &format!("{change}{why}"));
        self.root.enter(parents).set(key, Node::text(value));
    }

    /// Moves a field, with the comments around it. What stands at its new place already must say the same.
    pub(super) fn shift(&mut self, from: &[&'static str], to: &[&'static str]) {
        let (old, new) = (from.join("."), to.join("."));
        let (Some(found), Some((key, parents))) = (self.root.at(from), to.split_last()) else { return };
        let same = self.root.at(to).map(|there| there.says_as(found));
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

    /// Takes out a field that nothing reads any more.
    pub(super) fn drop(&mut self, path: &[&'static str], why: &str) {
        if self.root.at(path).is_some() {
            self.lost(&path.join("."), why);
            self.root.take_at(path);
        }
    }

    /// Says which API an object is of from now on.
    pub(super) fn become_kind(&mut self, api_version: &'static str, kind: &'static str) {
        if self.root.text_at(&["apiVersion"]) != api_version {
            self.rewrite(&["apiVersion"], api_version, "");
        }
        if self.root.text_at(&["kind"]) != kind {
            self.rewrite(&["kind"], kind, "");
            self.label = format!("{kind} {}", self.name());
        }
    }

    /// Takes over what was said of the document that came out of this one.
    pub(super) fn hear_beside(&mut self) {
        if let Some(beside) = self.beside.as_deref_mut() {
            self.remarks.append(&mut beside.remarks);
            self.faults.append(&mut beside.faults);
        }
    }

    /// Takes out what an API server writes, once anything else was changed: nobody may apply it again.
    pub(super) fn forget_server(&mut self) {
        const OWNED: [&str; 6] =
            ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"];
        const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
        let mut taken: Vec<&str> = Vec::new();
        taken.extend(OWNED.into_iter().filter(|field| self.root.take_at(&["metadata", field]).is_some()));
        taken.extend(self.root.take_at(&["metadata", "annotations", APPLIED]).map(|_| APPLIED));
        taken.extend(self.root.take("status").map(|_| "status"));
        if !taken.is_empty() {
            self.changed("metadata", &format!("removed fields of the API server: {}", taken.join(", ")));
        }
    }
}
