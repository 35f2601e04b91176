//! A YAML document as a tree that remembers what people wrote around the values: comments, blank lines, quotes, lines. What is changed in
//! the tree can be written again without losing a word that someone left for the next reader.

mod read;
mod write;

pub(super) use read::{TWICE, read};

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// The line in the file, from 1; 0 for what no file holds.
    pub(super) line: usize,
    pub(super) kind: Kind,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A text as it reads, and how it is written.
    Scalar(String, Style),
    List(Vec<Entry>),
    Map(Vec<Entry>),
    /// A list or a map on one line, such as `[a, b]`.
    FlowList(Vec<Entry>),
    FlowMap(Vec<Entry>),
}

/// How a scalar is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Without quotes: its looks say whether it is a text, a number or nothing.
    Plain,
    Single,
    Double,
    /// A block behind `|`.
    Block,
}

/// A field of a map, or an element of a list, whose key is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Comments on lines of their own before it, an empty one for a blank line.
    pub(super) before: Vec<String>,
    pub(super) key: String,
    pub(super) value: Node,
    /// The comment behind it.
    pub(super) behind: Option<String>,
}

/// A document: its value, and the comments after everything.
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
    /// A text, in quotes where it might be taken for something else.
    pub(super) fn text(text: &str) -> Self {
        let style = if write::is_plain(text) { Style::Plain } else { Style::Double };
        Self { line: 0, kind: Kind::Scalar(text.to_owned(), style) }
    }

    /// A number or another word that means something by its looks.
    pub(super) fn plain(text: impl ToString) -> Self {
        Self { line: 0, kind: Kind::Scalar(text.to_string(), Style::Plain) }
    }

    pub(super) fn map(fields: impl IntoIterator<Item = (&'static str, Self)>) -> Self {
        let entries = fields.into_iter().map(|(key, value)| Entry::new(key, value)).collect();
        Self { line: 0, kind: Kind::Map(entries) }
    }

    pub(super) fn list(items: impl IntoIterator<Item = Self>) -> Self {
        let entries = items.into_iter().map(|value| Entry::new("", value)).collect();
        Self { line: 0, kind: Kind::List(entries) }
    }

    /// The fields of a map; none of anything else.
    pub(super) fn fields(&self) -> &[Entry] {
        match &self.kind {
            Kind::Map(entries) | Kind::FlowMap(entries) => entries,
            _ => &[],
        }
    }

    /// The elements of a list; none of anything else.
    pub(super) fn items(&self) -> &[Entry] {
        match &self.kind {
            Kind::List(entries) | Kind::FlowList(entries) => entries,
            _ => &[],
        }
    }

    pub(super) fn items_mut(&mut self) -> &mut [Entry] {
        match &mut self.kind {
            Kind::List(entries) | Kind::FlowList(entries) => entries,
            _ => &mut [],
        }
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self.kind, Kind::Map(_) | Kind::FlowMap(_))
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self.kind, Kind::List(_) | Kind::FlowList(_))
    }

    /// Whether nothing is said.
    pub(super) fn is_null(&self) -> bool {
        matches!(&self.kind, Kind::Scalar(text, Style::Plain) if ["", "~", "null"].contains(&text.as_str()))
    }

    /// The words of a scalar that says something.
    pub(super) fn scalar(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar(text, _) if !self.is_null() => Some(text),
            _ => None,
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        self.fields().iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// What stands at a path of fields, such as `["spec", "template"]`.
    pub(super) fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// A scalar at a path of fields; empty where there is none.
    pub(super) fn text_at(&self, path: &[&str]) -> &str {
        self.at(path).and_then(Self::scalar).unwrap_or_default()
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        match &mut self.kind {
            Kind::Map(entries) | Kind::FlowMap(entries) => {
                entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.value)
            }
            _ => None,
        }
    }

    pub(super) fn at_mut(&mut self, path: &[&str]) -> Option<&mut Self> {
        path.iter().try_fold(self, |node, key| node.get_mut(key))
    }

    /// The map at a path; maps that are missing on the way are made.
    pub(super) fn enter(&mut self, path: &[&'static str]) -> &mut Self {
        let Some((first, rest)) = path.split_first() else { return self };
        if self.get(first).is_none_or(|node| !node.is_map()) {
            self.set(first, Self::map([]));
        }
        match self.kind {
            Kind::Map(ref mut entries) | Kind::FlowMap(ref mut entries) => {
                let place = entries.iter().position(|entry| entry.key == *first).unwrap_or_default();
                entries[place].value.enter(rest)
            }
            // `set` made a map of it.
            _ => self,
        }
    }

    /// Gives a field a value; a new field comes last.
    pub(super) fn set(&mut self, key: &str, value: Self) {
        if let Some(known) = self.get_mut(key) {
            let line = known.line;
            *known = value;
            known.line = if known.line == 0 { line } else { known.line };
            return;
        }
        self.push(Entry::new(key, value));
    }

    /// Adds a field or an element as it is.
    pub(super) fn push(&mut self, entry: Entry) {
        match &mut self.kind {
            Kind::Map(entries) | Kind::FlowMap(entries) | Kind::List(entries) | Kind::FlowList(entries) => {
                entries.push(entry);
            }
            Kind::Scalar(..) => self.kind = Kind::Map(vec![entry]),
        }
    }

    /// Gives a field the comments of another one, which it stands for.
    pub(super) fn annotate(&mut self, key: &str, old: Entry) {
        if let Kind::Map(entries) | Kind::FlowMap(entries) = &mut self.kind
            && let Some(entry) = entries.iter_mut().find(|entry| entry.key == key)
        {
            entry.before.extend(old.before);
            entry
                .before
                .extend(old.value.fields().iter().flat_map(|inner| inner.before.iter().chain(&inner.behind)).cloned());
            entry.behind = entry.behind.take().or(old.behind);
        }
    }

    /// Takes a field out, with its comments.
    pub(super) fn take(&mut self, key: &str) -> Option<Entry> {
        match &mut self.kind {
            Kind::Map(entries) | Kind::FlowMap(entries) => {
                let place = entries.iter().position(|entry| entry.key == key)?;
                Some(entries.remove(place))
            }
            _ => None,
        }
    }

    /// Takes a field out of the map at a path, and the maps on the way that are empty then.
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

    /// Whether two values say the same, however they are written.
    pub(super) fn says_as(&self, other: &Self) -> bool {
        match (&self.kind, &other.kind) {
            (Kind::Scalar(mine, _), Kind::Scalar(theirs, _)) => mine == theirs,
            _ if self.is_map() && other.is_map() => {
                let same = |entry: &Entry| other.get(&entry.key).is_some_and(|value| entry.value.says_as(value));
                self.fields().len() == other.fields().len() && self.fields().iter().all(same)
            }
            _ if self.is_list() && other.is_list() => {
                let (mine, theirs) = (self.items(), other.items());
                mine.len() == theirs.len() && mine.iter().zip(theirs).all(|(a, b)| a.value.says_as(&b.value))
            }
            _ => false,
        }
    }

    /// The line of what stands at a path as errors write it, such as `spec.taints[0].key` or `metadata.labels[a/b]`; of the nearest
    /// thing around it where it is missing. 0 where no file holds it.
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

/// The fields and numbers of a path.
fn steps(path: &str) -> Vec<String> {
    let mut steps = Vec::new();
    for part in path.split('[') {
        let (inner, rest) = part.split_once(']').map_or((None, part), |(inner, rest)| (Some(inner), rest));
        steps.extend(inner.map(str::to_owned));
        // A key such as `a/b.c` stands in brackets, so dots part fields here.
        steps.extend(rest.split('.').filter(|step| !step.is_empty()).map(str::to_owned));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_errors_are_found() {
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
    fn taking_the_last_field_takes_the_map() {
        let mut root = read("a:\n  b:\n    c: 1\nd: 2\n", 1).unwrap().root;
        assert_eq!(root.take_at(&["a", "b", "c"]).unwrap().value.scalar(), Some("1"));
        assert_eq!(root.fields().len(), 1);
        root.enter(&["e", "f"]).set("g", Node::plain(3));
        assert_eq!(root.text_at(&["e", "f", "g"]), "3");
    }
}
