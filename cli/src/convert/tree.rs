//! A YAML document as a tree that keeps comments, blank lines, quotes and line numbers. A changed tree is written again without
//! the loss of a comment.
//!
//! The editor is ours. The tree of `machine::document`, from which this one is made, has no room for comments: they would cost
//! the agent 48 bytes per field. `yaml-edit` keeps anchors and merge keys as written, but a part that moves to another document
//! needs them expanded.

mod read;
mod write;

pub(super) use machine::document::Style;
pub(super) use read::read;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// Line in the file, from 1; 0 for a value that no file contains.
    pub(super) line: usize,
    pub(super) kind: NodeKind,
}

/// Kind of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeKind {
    /// Parsed text of a scalar, and its style in the file.
    Scalar(String, Style),
    List(Vec<Entry>),
    Map(Vec<Entry>),
    /// A list on one line, such as `[a, b]`.
    FlowList(Vec<Entry>),
    FlowMap(Vec<Entry>),
}

/// A field of a map, or an element of a list, whose key is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Comments on separate lines before the entry; an empty string for a blank line.
    pub(super) before: Vec<String>,
    pub(super) key: String,
    pub(super) value: Node,
    /// Comment at the end of the entry's line.
    pub(super) behind: Option<String>,
}

/// A document: its value, and the comments at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) root: Node,
    pub(super) after: Vec<String>,
}

impl Entry {
    pub(super) fn new(key: &str, value: Node) -> Self {
        Self { before: Vec::new(), key: key.to_owned(), value, behind: None }
    }
}

impl Node {
    /// Returns a string, in quotes if YAML could read another type.
    pub(super) fn text(text: &str) -> Self {
        let style = if write::is_plain(text) { Style::Plain } else { Style::Double };
        Self { line: 0, kind: NodeKind::Scalar(text.to_owned(), style) }
    }

    /// Returns a number or another scalar without quotes, whose text defines its type.
    pub(super) fn plain(text: impl ToString) -> Self {
        Self { line: 0, kind: NodeKind::Scalar(text.to_string(), Style::Plain) }
    }

    pub(super) fn map(fields: impl IntoIterator<Item = (&'static str, Self)>) -> Self {
        let entries = fields.into_iter().map(|(key, value)| Entry::new(key, value)).collect();
        Self { line: 0, kind: NodeKind::Map(entries) }
    }

    pub(super) fn list(items: impl IntoIterator<Item = Self>) -> Self {
        let entries = items.into_iter().map(|value| Entry::new("", value)).collect();
        Self { line: 0, kind: NodeKind::List(entries) }
    }

    /// Returns the fields of a map; empty for other kinds.
    pub(super) fn fields(&self) -> &[Entry] {
        match &self.kind {
            NodeKind::Map(entries) | NodeKind::FlowMap(entries) => entries,
            _ => &[],
        }
    }

    /// Returns the elements of a list; empty for other kinds.
    pub(super) fn items(&self) -> &[Entry] {
        match &self.kind {
            NodeKind::List(entries) | NodeKind::FlowList(entries) => entries,
            _ => &[],
        }
    }

    pub(super) fn items_mut(&mut self) -> &mut [Entry] {
        match &mut self.kind {
            NodeKind::List(entries) | NodeKind::FlowList(entries) => entries,
            _ => &mut [],
        }
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self.kind, NodeKind::Map(_) | NodeKind::FlowMap(_))
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self.kind, NodeKind::List(_) | NodeKind::FlowList(_))
    }

    /// Reports whether the value is null or empty.
    pub(super) fn is_null(&self) -> bool {
        matches!(&self.kind, NodeKind::Scalar(text, Style::Plain) if ["", "~", "null"].contains(&text.as_str()))
    }

    /// Returns the text of a scalar that is not null.
    pub(super) fn scalar(&self) -> Option<&str> {
        match &self.kind {
            NodeKind::Scalar(text, _) if !self.is_null() => Some(text),
            _ => None,
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        self.fields().iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// Returns the value at a path of fields, such as `["spec", "template"]`.
    pub(super) fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// Returns the scalar at a path of fields, or an empty string.
    pub(super) fn text_at(&self, path: &[&str]) -> &str {
        self.at(path).and_then(Self::scalar).unwrap_or_default()
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        match &mut self.kind {
            NodeKind::Map(entries) | NodeKind::FlowMap(entries) => {
                entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.value)
            }
            _ => None,
        }
    }

    pub(super) fn at_mut(&mut self, path: &[&str]) -> Option<&mut Self> {
        path.iter().try_fold(self, |node, key| node.get_mut(key))
    }

    /// Returns the map at a path; missing maps on the path are created.
    pub(super) fn enter(&mut self, path: &[&'static str]) -> &mut Self {
        let Some((first, rest)) = path.split_first() else { return self };
        if self.get(first).is_none_or(|node| !node.is_map()) {
            self.set(first, Self::map([]));
        }
        match self.kind {
            NodeKind::Map(ref mut entries) | NodeKind::FlowMap(ref mut entries) => {
                let place = entries.iter().position(|entry| entry.key == *first).unwrap_or_default();
                entries[place].value.enter(rest)
            }
            // `set` created a map, so this case cannot occur.
            _ => self,
        }
    }

    /// Sets a field; a new field comes last.
    pub(super) fn set(&mut self, key: &str, value: Self) {
        if let Some(known) = self.get_mut(key) {
            let line = known.line;
            *known = value;
            known.line = if known.line == 0 { line } else { known.line };
            return;
        }
        self.push(Entry::new(key, value));
    }

    /// Adds a field or an element with its comments.
    pub(super) fn push(&mut self, entry: Entry) {
        match &mut self.kind {
            NodeKind::Map(entries)
            | NodeKind::FlowMap(entries)
            | NodeKind::List(entries)
            | NodeKind::FlowList(entries) => {
                entries.push(entry);
            }
            NodeKind::Scalar(..) => self.kind = NodeKind::Map(vec![entry]),
        }
    }

    /// Adds the comments of a replaced field to the field that replaces it.
    pub(super) fn annotate(&mut self, key: &str, old: Entry) {
        if let NodeKind::Map(entries) | NodeKind::FlowMap(entries) = &mut self.kind
            && let Some(entry) = entries.iter_mut().find(|entry| entry.key == key)
        {
            entry.before.extend(old.before);
            entry
                .before
                .extend(old.value.fields().iter().flat_map(|inner| inner.before.iter().chain(&inner.behind)).cloned());
            entry.behind = entry.behind.take().or(old.behind);
        }
    }

    /// Removes and returns a field with its comments.
    pub(super) fn take(&mut self, key: &str) -> Option<Entry> {
        match &mut self.kind {
            NodeKind::Map(entries) | NodeKind::FlowMap(entries) => {
                let place = entries.iter().position(|entry| entry.key == key)?;
                Some(entries.remove(place))
            }
            _ => None,
        }
    }

    /// Removes and returns a field of the map at a path. Maps on the path that become empty are removed.
    pub(super) fn take_at(&mut self, path: &[&str]) -> Option<Entry> {
        match path {
            [] => None,
            [key] => self.take(key),
            [first, rest @ ..] => {
                let inner = self.get_mut(first)?;
                let taken = inner.take_at(rest)?;
                if inner.is_map() && inner.fields().is_empty() {
                    self.take(first);
                }
                Some(taken)
            }
        }
    }

    /// Reports whether two values are equal, regardless of their style.
    pub(super) fn is_equal(&self, other: &Self) -> bool {
        match (&self.kind, &other.kind) {
            (NodeKind::Scalar(mine, _), NodeKind::Scalar(theirs, _)) => mine == theirs,
            _ if self.is_map() && other.is_map() => {
                let same = |entry: &Entry| other.get(&entry.key).is_some_and(|value| entry.value.is_equal(value));
                self.fields().len() == other.fields().len() && self.fields().iter().all(same)
            }
            _ if self.is_list() && other.is_list() => {
                let (mine, theirs) = (self.items(), other.items());
                mine.len() == theirs.len() && mine.iter().zip(theirs).all(|(a, b)| a.value.is_equal(&b.value))
            }
            _ => false,
        }
    }

    /// Returns the line of a field by its path in errors, such as `spec.taints[0].key` or `metadata.labels[a/b]`. For a missing
    /// field, returns the line of the nearest parent; 0 if no file contains it.
    pub(super) fn line_of(&self, path: &str) -> usize {
        let (mut node, mut line) = (self, self.line);
        for step in steps(path) {
            let next = match step.parse::<usize>() {
                Ok(index) if node.is_list() => node.items().get(index).map(|entry| &entry.value),
                _ => node.get(&step),
            };
            let Some(next) = next else { break };
            node = next;
            line = if node.line == 0 { line } else { node.line };
        }
        line
    }
}

/// Splits a path into its fields and indices.
fn steps(path: &str) -> Vec<String> {
    let mut steps = Vec::new();
    for part in path.split('[') {
        let (inner, rest) = part.split_once(']').map_or((None, part), |(inner, rest)| (Some(inner), rest));
        steps.extend(inner.map(str::to_owned));
        // A key such as `a/b.c` is in brackets, so dots separate fields here.
        steps.extend(rest.split('.').filter(|step| !step.is_empty()).map(str::to_owned));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_finds_fields_by_the_path_of_an_error() {
        let text = "spec:\n  template:\n    metadata:\n      labels:\n        a.b/c: d\n  taints:\n    - key: x\n    - key: y\n";
        let tree = read(text, 1).unwrap();
        let rows = [
            ("spec.taints[1].key", 8),
            ("spec.template.metadata.labels[a.b/c]", 5),
            ("spec.taints[7].key", 6),
            ("", 1),
        ];
        for (path, line) in rows {
            assert_eq!(tree.root.line_of(path), line, "{path}");
        }
    }

    #[test]
    fn take_at_removes_the_map_when_its_last_field_is_taken() {
        let mut root = read("a:\n  b:\n    c: 1\nd: 2\n", 1).unwrap().root;
        assert_eq!(root.take_at(&["a", "b", "c"]).unwrap().value.scalar(), Some("1"));
        assert_eq!(root.fields().len(), 1);
        root.enter(&["e", "f"]).set("g", Node::plain(3));
        assert_eq!(root.text_at(&["e", "f", "g"]), "3");
    }
}
