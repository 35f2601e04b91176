//! Reads a document into a tree. The values are those of the one YAML reader, [`machine::document`]; comments and blank lines
//! are added to the entry that follows them. Aliases are expanded, because a part of a document may move into another document;
//! a comment stays at the anchor.

use std::collections::BTreeMap;

use machine::document::{self, Comment, Fault, Kind, Style};

use super::{Entry, Node, NodeKind, Tree};

/// Error for a document that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::convert) struct Unreadable {
    /// Line in the file, from 1.
    pub(in crate::convert) line: usize,
    pub(in crate::convert) problem: String,
}

/// Reads the one document of `text`, whose first line is `first_line` of its file.
pub(in crate::convert) fn read(text: &str, first_line: usize) -> Result<Tree, Unreadable> {
    let (root, comments) = document::read_with_comments(text).map_err(|fault| unreadable(&fault, first_line))?;
    let mut annotator = Annotator::new(text, first_line, comments);
    let root = annotator.node(&root, line(root.at));
    let after = annotator.own.into_values().chain(annotator.behind.into_values()).collect();
    Ok(Tree { root, after })
}

fn unreadable(fault: &Fault, first_line: usize) -> Unreadable {
    Unreadable { line: line(fault.place()).max(1) + first_line - 1, problem: fault.problem().to_owned() }
}

fn line(at: document::Place) -> usize {
    usize::try_from(at.line).unwrap_or(usize::MAX)
}

/// Converts the values of a document in their order, and gives each comment to an entry.
struct Annotator<'a> {
    lines: Vec<&'a str>,
    first_line: usize,
    /// Comments that no entry has taken yet, by line: `own` on separate lines, `behind` at the end of a line.
    own: BTreeMap<usize, String>,
    behind: BTreeMap<usize, String>,
    /// `true` after the first value or key.
    begun: bool,
    /// `true` if blank lines belong to the last scalar, a block that keeps them.
    keeps_blank: bool,
}

impl<'a> Annotator<'a> {
    fn new(text: &'a str, first_line: usize, comments: Vec<Comment>) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let with_lines = comments.into_iter().map(|comment| {
            let number = usize::try_from(comment.line).unwrap_or(usize::MAX);
            (number, format!("#{}", comment.text.trim_end()))
        });
        let is_own = |number: usize| lines.get(number - 1).is_none_or(|line| line.trim_start().starts_with('#'));
        let (own, behind) = with_lines.partition(|(number, _)| is_own(*number));
        Self { lines, first_line, own, behind, begun: false, keeps_blank: false }
    }

    /// Converts a value whose errors refer to `line`.
    fn node(&mut self, node: &document::Node, line: usize) -> Node {
        let kind = match &node.kind {
            Kind::Scalar(scalar) => {
                self.keeps_blank = scalar.style == Style::Block && scalar.text.ends_with("\n\n");
                NodeKind::Scalar(scalar.text.clone(), scalar.style)
            }
            Kind::List(items) => {
                let items = items.iter().map(|item| self.item(item, node.one_line)).collect();
                if node.one_line { NodeKind::FlowList(items) } else { NodeKind::List(items) }
            }
            Kind::Map(fields) => {
                let fields = fields.iter().map(|(key, value)| self.field(key, value, node.one_line)).collect();
                if node.one_line { NodeKind::FlowMap(fields) } else { NodeKind::Map(fields) }
            }
        };
        self.begun = true;
        Node { line: line + self.first_line - 1, kind }
    }

    fn item(&mut self, item: &document::Node, one_line: bool) -> Entry {
        let line = line(item.at);
        let before = self.before(line);
        let value = self.node(item, line);
        Entry { before, key: String::new(), value, behind: self.behind(line, one_line) }
    }

    /// Converts a field. Errors about its value refer to the line of the key.
    fn field(&mut self, key: &document::Key, value: &document::Node, one_line: bool) -> Entry {
        let line = line(key.at);
        let before = self.before(line);
        (self.begun, self.keeps_blank) = (true, false);
        let value = self.node(value, line);
        Entry { before, key: key.text.clone(), value, behind: self.behind(line, one_line) }
    }

    /// Returns the comments and the blank line before an entry that begins on `line`.
    fn before(&mut self, line: usize) -> Vec<String> {
        let later = self.own.split_off(&line);
        let comments = std::mem::replace(&mut self.own, later);
        let first = comments.keys().next().copied().unwrap_or(line);
        let blank = first > 1 && self.lines.get(first - 2).is_some_and(|line| line.trim().is_empty());
        let blank = (blank && self.begun && !self.keeps_blank).then(String::new);
        blank.into_iter().chain(comments.into_values()).collect()
    }

    /// Returns the comment at the end of the line of an entry, unless the line has several entries.
    fn behind(&mut self, line: usize, one_line: bool) -> Option<String> {
        if one_line { None } else { self.behind.remove(&line) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_keeps_each_comment_once_when_aliases_are_expanded() {
        let text =
            "a: &x # anchor\n  # inner\n  b: 1 # one\n# before\nc: *x # alias\nd:\n  # merged\n  <<: *x\n  e: 2\n";
        let written = read(text, 1).unwrap().write();
        let expected =
            "a: # anchor\n  # inner\n  b: 1 # one\n# before\nc: # alias\n  b: 1\nd:\n  # merged\n  e: 2\n  b: 1\n";
        assert_eq!(written, expected);
    }

    #[test]
    fn read_keeps_comments_of_flows_on_several_lines() {
        let written = read("a: {\n  b: 1, # one\n  # two\n  c: [2, 3] # list\n}\n", 1).unwrap().write();
        assert_eq!(written, "a:\n  b: 1 # one\n  # two\n  c: [2, 3] # list\n");
    }

    #[test]
    fn read_reports_the_line_of_the_file() {
        let rows = [
            ("a: 1\na: 2\n", 12, "`a` is repeated"),
            ("[a]: b", 11, "expected a string as field name"),
            ("a: *b", 11, ""),
        ];
        for (text, line, problem) in rows {
            let fault = read(text, 11).unwrap_err();
            assert!(fault.line == line && fault.problem.starts_with(problem), "{text}: {fault:?}");
        }
    }
}
