//! Writes a tree as YAML for people: two spaces a level, elements of lists one level in, everything else as it was written.

use std::fmt::Write as _;

use super::{Entry, Kind, Node, Style, Tree};

/// Words that YAML, in one of its versions, takes for something else than a text.
const TAKEN: [&str; 11] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n", ".inf", ".nan"];

impl Tree {
    /// The document, each line ended.
    pub(in crate::convert) fn write(&self) -> String {
        let mut out = String::new();
        match &self.root.kind {
            Kind::Map(fields) | Kind::FlowMap(fields) if !fields.is_empty() => map(&mut out, fields, 0, false),
            Kind::List(items) | Kind::FlowList(items) if !items.is_empty() => list(&mut out, items, 0),
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

/// Fields of a map; `begun` when the first one's line has begun behind a dash.
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
        let is_block = matches!(entry.value.kind, Kind::Map(_)) && !fields.is_empty();
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

/// What stands behind a colon or a dash, to the end of its lines.
fn value(out: &mut String, node: &Node, depth: usize, behind: Option<&str>) {
    let end = behind.map_or_else(String::new, |comment| format!(" {comment}"));
    match &node.kind {
        Kind::Map(fields) if !fields.is_empty() => {
            let _ = writeln!(out, "{end}");
            map(out, fields, depth + 1, false);
        }
        Kind::List(items) if !items.is_empty() => {
            let _ = writeln!(out, "{end}");
            list(out, items, depth + 1);
        }
        Kind::Scalar(text, Style::Block) if can_be_block(text) => {
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

/// Whether a text can stand in a block as it is.
fn can_be_block(text: &str) -> bool {
    let is_odd = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
    text.contains('\n') && !text.trim().is_empty() && !text.contains(is_odd)
}

/// The head of a block: whether its first line begins with a space, and how many line ends belong to it.
fn head(text: &str) -> String {
    let first = text.lines().find(|line| !line.is_empty()).unwrap_or_default();
    let indent = if first.starts_with([' ', '\t']) || text.starts_with('\n') { "2" } else { "" };
    let kept = text.len() - text.trim_end_matches('\n').len();
    let end = ["-", ""].get(kept).copied().unwrap_or("+");
    format!("|{indent}{end}")
}

/// A value on one line.
fn flow(node: &Node, inside: bool) -> String {
    let all = |entries: &[Entry], one: fn(&Entry) -> String| entries.iter().map(one).collect::<Vec<_>>().join(", ");
    match &node.kind {
        Kind::Scalar(text, style) => scalar(text, *style, inside),
        Kind::List(items) | Kind::FlowList(items) => {
            format!("[{}]", all(items, |entry| flow(&entry.value, true)))
        }
        Kind::Map(fields) | Kind::FlowMap(fields) => {
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
        Style::Plain if text.contains('\n') => double(text),
        Style::Plain if inside && text.contains([',', '[', ']', '{', '}']) => double(text),
        Style::Plain => text.to_owned(),
        Style::Single if !text.contains('\n') => format!("'{}'", text.replace('\'', "''")),
        _ => double(text),
    }
}

fn key(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { double(text) }
}

/// Whether a text needs no quotes anywhere: it cannot be taken for anything but itself.
pub(super) fn is_plain(text: &str) -> bool {
    let known = |letter: char| letter.is_ascii_alphanumeric() || "._/-@".contains(letter);
    let is_duration = text.len() > 1
        && text.strip_suffix(['s', 'm', 'h']).is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_digit()));
    is_duration
        || text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/')
            && text.chars().all(known)
            && !TAKEN.iter().any(|taken| text.eq_ignore_ascii_case(taken))
}

/// In double quotes, as JSON has them, which YAML reads alike.
fn double(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        let _ = match letter {
            '"' | '\\' => write!(out, "\\{letter}"),
            '\n' => write!(out, "\\n"),
            '\t' => write!(out, "\\t"),
            '\u{2028}' | '\u{2029}' | '\u{feff}' => write!(out, "\\u{:04x}", u32::from(letter)),
            letter if letter.is_control() => write!(out, "\\u{:04x}", u32::from(letter)),
            letter => write!(out, "{letter}"),
        };
    }
    out + "\""
}

#[cfg(test)]
mod tests {
    use super::super::read;

    /// What is written reads as what was read, and is written the same again.
    #[test]
    fn what_is_written_reads_the_same() {
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
            assert!(again.root.says_as(&tree.root), "{written}");
            assert_eq!(again.write(), written, "{text}");
            let values = |text: &str| serde_saphyr::from_str::<serde_json::Value>(text).unwrap();
            assert_eq!(values(&written), values(text), "{written}");
        }
    }

    #[test]
    fn words_around_values_stay() {
        let text = "# head\nkind: X # what\n\n# about\nspec:\n  # inner\n  a: 1\n  list: # of things\n    # first\n    - b: 2 # two\n      c: 3\n# end\n";
        assert_eq!(read(text, 1).unwrap().write(), text);
    }
}
