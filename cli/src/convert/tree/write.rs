//! Writes a tree as YAML: two spaces per level, elements of lists indented by one level, and all other style as in the input.

use std::fmt::Write as _;

use machine::yaml::{is_of_another_type, quoted};

use super::{Entry, Node, NodeKind, Style, Tree};

impl Tree {
    /// Returns the document; each line has a line end.
    pub(in crate::convert) fn write(&self) -> String {
        let mut out = String::new();
        match &self.root.kind {
            NodeKind::Map(fields) | NodeKind::FlowMap(fields) if !fields.is_empty() => map(&mut out, fields, 0, false),
            NodeKind::List(items) | NodeKind::FlowList(items) if !items.is_empty() => list(&mut out, items, 0),
            _ => value(&mut out, &self.root, 0, None),
        }
        self.after.iter().for_each(|comment| line(&mut out, 0, comment));
        out
    }
}

fn line(out: &mut String, depth: usize, text: &str) {
    if text.is_empty() {
        out.push('\n');
    } else {
        let _ = writeln!(out, "{}{text}", "  ".repeat(depth));
    }
}

/// Writes the fields of a map; `begun` if a dash already begins the line of the first field.
fn map(out: &mut String, fields: &[Entry], depth: usize, begun: bool) {
    for (index, entry) in fields.iter().enumerate() {
        if !(begun && index == 0) {
            entry.before.iter().for_each(|comment| line(out, depth, comment));
            out.push_str(&"  ".repeat(depth));
        }
        let _ = write!(out, "{}:", key(&entry.key));
        value(out, &entry.value, depth, entry.behind.as_deref());
    }
}

fn list(out: &mut String, items: &[Entry], depth: usize) {
    for entry in items {
        let fields = entry.value.fields();
        let is_block = matches!(entry.value.kind, NodeKind::Map(_)) && !fields.is_empty();
        let inner = if is_block { fields[0].before.as_slice() } else { &[] };
        let comments = entry.before.iter().chain(inner.iter().filter(|comment| !comment.is_empty()));
        comments.for_each(|comment| line(out, depth, comment));
        if is_block {
            entry.behind.iter().for_each(|comment| line(out, depth, comment));
            let _ = write!(out, "{}- ", "  ".repeat(depth));
            map(out, fields, depth + 1, true);
        } else {
            let _ = write!(out, "{}-", "  ".repeat(depth));
            value(out, &entry.value, depth, entry.behind.as_deref());
        }
    }
}

/// Writes the value after a colon or a dash, up to the end of its lines.
fn value(out: &mut String, node: &Node, depth: usize, behind: Option<&str>) {
    let end = behind.map_or_else(String::new, |comment| format!(" {comment}"));
    match &node.kind {
        NodeKind::Map(fields) if !fields.is_empty() => {
            let _ = writeln!(out, "{end}");
            map(out, fields, depth + 1, false);
        }
        NodeKind::List(items) if !items.is_empty() => {
            let _ = writeln!(out, "{end}");
            list(out, items, depth + 1);
        }
        NodeKind::Scalar(text, Style::Block) if can_be_block(text) => {
            let _ = writeln!(out, " {}{end}", head(text));
            text.trim_end_matches('\n').lines().for_each(|text| line(out, depth + 1, text));
            let kept = text.len() - text.trim_end_matches('\n').len();
            (1..kept).for_each(|_| out.push('\n'));
        }
        _ => {
            let text = flow(node, false);
            let space = if text.is_empty() { "" } else { " " };
            let _ = writeln!(out, "{space}{text}{end}");
        }
    }
}

/// Reports whether a text can be written as a block.
fn can_be_block(text: &str) -> bool {
    let is_odd = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
    text.contains('\n') && !text.trim().is_empty() && !text.contains(is_odd)
}

/// Returns the header of a block: the indentation indicator, if the first line begins with a space, and the number of line ends
/// to keep.
fn head(text: &str) -> String {
    let first = text.lines().find(|line| !line.is_empty()).unwrap_or_default();
    let indent = if first.starts_with([' ', '\t']) || text.starts_with('\n') { "2" } else { "" };
    let kept = text.len() - text.trim_end_matches('\n').len();
    let end = ["-", ""].get(kept).copied().unwrap_or("+");
    format!("|{indent}{end}")
}

/// Returns a value on one line.
fn flow(node: &Node, inside: bool) -> String {
    let all = |entries: &[Entry], one: fn(&Entry) -> String| entries.iter().map(one).collect::<Vec<_>>().join(", ");
    match &node.kind {
        NodeKind::Scalar(text, style) => scalar(text, *style, inside),
        NodeKind::List(items) | NodeKind::FlowList(items) => {
            format!("[{}]", all(items, |entry| flow(&entry.value, true)))
        }
        NodeKind::Map(fields) | NodeKind::FlowMap(fields) => {
            let one = |entry: &Entry| {
                let value = flow(&entry.value, true);
                let space = if value.is_empty() { "" } else { " " };
                format!("{}:{space}{value}", key(&entry.key))
            };
            format!("{{{}}}", all(fields, one))
        }
    }
}

fn scalar(text: &str, style: Style, inside: bool) -> String {
    match style {
        Style::Plain if text.contains('\n') => quoted(text),
        Style::Plain if inside && text.contains([',', '[', ']', '{', '}']) => quoted(text),
        Style::Plain => text.to_owned(),
        Style::Single if !text.contains('\n') => format!("'{}'", text.replace('\'', "''")),
        _ => quoted(text),
    }
}

fn key(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { quoted(text) }
}

/// Reports whether a text needs no quotes in any position.
pub(super) fn is_plain(text: &str) -> bool {
    let known = |letter: char| letter.is_ascii_alphanumeric() || "._/-@".contains(letter);
    let is_duration = text.len() > 1
        && text.strip_suffix(['s', 'm', 'h']).is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_digit()));
    is_duration
        || text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/')
            && text.chars().all(known)
            && !is_of_another_type(text)
}

#[cfg(test)]
mod tests {
    use super::super::read;

    /// The written document has the same values as the input, and a second write gives the same text.
    #[test]
    fn write_keeps_values_and_is_idempotent() {
        let texts = [
            "# head\na: 1 # one\n\n# two\nb:\n  - c: [x, \"y\"] # list\n    d: |\n      # no comment\n      text\n  - 'it''s'\n# end\n",
            "a: {b: c, d: [1, 2]}\ne: \"\\u0007 bell\"\nf: |+\n  x\n\n\ng: |2-\n    in\n  out\n",
            "a:\n- b\n- - c\n  - d\ne:\n    f: null\n    g:\n",
            "a: &x\n  b: 1\nc: *x\nd:\n  <<: *x\n  e: 2\n",
            "{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}\n",
            "a: >-\n  folded\n  line\n",
            "metadata: {annotations: {karpenter.sh/x: \"true\", n: \"4\"}}\n",
        ];
        for text in texts {
            let tree = read(text, 1).unwrap();
            let written = tree.write();
            let again = read(&written, 1).unwrap_or_else(|fault| panic!("{fault:?}: {written}"));
            assert!(again.root.is_equal(&tree.root), "{written}");
            assert_eq!(again.write(), written, "{text}");
            let values = |text: &str| serde_saphyr::from_str::<serde_json::Value>(text).unwrap();
            assert_eq!(values(&written), values(text), "{written}");
        }
    }

    #[test]
    fn write_keeps_comments_and_blank_lines() {
        let text = "# head\nkind: X # what\n\n# about\nspec:\n  # inner\n  a: 1\n  list: # of things\n    # first\n    - b: 2 # two\n      c: 3\n# end\n";
        assert_eq!(read(text, 1).unwrap().write(), text);
    }
}
