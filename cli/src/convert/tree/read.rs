//! Reads a document into a tree. Aliases are expanded, because a part of a document may move into another document.

use std::collections::BTreeMap;

use granit_parser::{Event, Options, Parser, ScalarStyle, Span, StrInput, StructureStyle};

use super::{Entry, Node, NodeKind, Style, Tree};

/// Maximum number of values in a document, with those of aliases counted each time. The limit prevents that aliases exhaust the
/// memory.
const LARGEST: usize = 200_000;
/// Maximum nesting depth, far beyond any manifest.
const DEEPEST: usize = 100;

/// Error text for a key that a map contains twice.
pub(in crate::convert) const TWICE: &str = "is repeated";

/// Error for a document that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::convert) struct Unreadable {
    /// Line in the file, from 1.
    pub(in crate::convert) line: usize,
    pub(in crate::convert) problem: String,
}

/// Reads the one document of `text`, whose first line is `first_line` of its file.
pub(in crate::convert) fn read(text: &str, first_line: usize) -> Result<Tree, Unreadable> {
    let mut options = Options::default();
    options.set_emit_comments(true);
    let events = Parser::new_from_str_with_options(text, options);
    let mut reader = Reader { events, first_line, ..Reader::new(text) };
    let tree = reader.document();
    tree.map_err(|fault| Unreadable { line: fault.line + first_line - 1, ..fault })
}

struct Reader<'a> {
    events: Parser<'a, StrInput<'a>>,
    lines: Vec<&'a str>,
    first_line: usize,
    /// Comments that no entry has taken yet, by line: `own` on separate lines, `behind` at the end of a line.
    own: BTreeMap<usize, String>,
    behind: BTreeMap<usize, String>,
    anchors: BTreeMap<usize, Node>,
    nodes: usize,
    depth: usize,
    /// `true` if blank lines belong to the last scalar, a block that keeps them.
    keeps_blank: bool,
    /// Event that was peeked.
    ahead: Option<(Event<'a>, Span)>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            events: Parser::new_from_str(text),
            lines: text.lines().collect(),
            first_line: 1,
            own: BTreeMap::new(),
            behind: BTreeMap::new(),
            anchors: BTreeMap::new(),
            nodes: 0,
            depth: 0,
            keeps_blank: false,
            ahead: None,
        }
    }

    fn document(&mut self) -> Result<Tree, Unreadable> {
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentEnd | Event::DocumentStart(..) => {}
                Event::StreamEnd => break,
                event => root = Some(self.node(event, span)?),
            }
        }
        let own = std::mem::take(&mut self.own);
        let after = own.into_values().chain(std::mem::take(&mut self.behind).into_values()).collect();
        let nothing = Node { line: self.first_line, kind: NodeKind::Scalar(String::new(), Style::Plain) };
        Ok(Tree { root: root.unwrap_or(nothing), after })
    }

    /// Returns the next event that is not a comment.
    fn next(&mut self) -> Result<(Event<'a>, Span), Unreadable> {
        if let Some(ahead) = self.ahead.take() {
            return Ok(ahead);
        }
        loop {
            match self.events.next_event() {
                Some(Ok((Event::Comment(text, _), span))) => self.comment(&text, span.start.line()),
                Some(Ok(found)) => return Ok(found),
                Some(Err(error)) => return Err(fault(error.marker().line(), error.info())),
                None => return Err(fault(1, "the document breaks off")),
            }
        }
    }

    fn comment(&mut self, text: &str, line: usize) {
        let comment = format!("#{}", text.trim_end());
        let is_own = self.lines.get(line - 1).is_none_or(|line| line.trim_start().starts_with('#'));
        let list = if is_own { &mut self.own } else { &mut self.behind };
        list.insert(line, comment);
    }

    fn node(&mut self, event: Event<'a>, span: Span) -> Result<Node, Unreadable> {
        let line = span.start.line();
        let (kind, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.keeps_blank = style == ScalarStyle::Literal && text.ends_with("\n\n");
                let is_text = tag.is_some_and(|tag| tag.suffix() == "str");
                (NodeKind::Scalar(text.into_owned(), written(style, is_text)), anchor)
            }
            Event::SequenceStart(style, anchor, _) => {
                let (items, one_line) = self.list(style, line)?;
                (if one_line { NodeKind::FlowList(items) } else { NodeKind::List(items) }, anchor)
            }
            Event::MappingStart(style, anchor, _) => {
                let (fields, one_line) = self.map(style, line)?;
                (if one_line { NodeKind::FlowMap(fields) } else { NodeKind::Map(fields) }, anchor)
            }
            Event::Alias(anchor) => {
                let known = self.anchors.get(&anchor).cloned();
                let node = known.ok_or_else(|| fault(line, "recursive alias"))?;
                self.count(size(&node), line)?;
                return Ok(node);
            }
            _ => return Err(fault(line, "a value is missing")),
        };
        self.count(1, line)?;
        let node = Node { line: line + self.first_line - 1, kind };
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn count(&mut self, more: usize, line: usize) -> Result<(), Unreadable> {
        self.nodes += more;
        if self.nodes > LARGEST { Err(fault(line, "the document is too large with its aliases")) } else { Ok(()) }
    }

    fn deeper(&mut self, line: usize) -> Result<(), Unreadable> {
        self.depth += 1;
        if self.depth > DEEPEST { Err(fault(line, "nested too deeply")) } else { Ok(()) }
    }

    /// Returns the elements of a list, and whether they are on one line.
    fn list(&mut self, style: StructureStyle, line: usize) -> Result<(Vec<Entry>, bool), Unreadable> {
        self.deeper(line)?;
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                self.depth -= 1;
                return Ok((items, style == StructureStyle::Flow && span.end.line() == line));
            }
            let before = self.before(span.start.line());
            let at = span.start.line();
            let value = self.node(event, span)?;
            let behind = self.behind(style, at)?;
            items.push(Entry { before, key: String::new(), value, behind });
        }
    }

    fn map(&mut self, style: StructureStyle, line: usize) -> Result<(Vec<Entry>, bool), Unreadable> {
        self.deeper(line)?;
        let (mut fields, mut below): (Vec<Entry>, Vec<Entry>) = (Vec::new(), Vec::new());
        loop {
            let (event, span) = self.next()?;
            let at = span.start.line();
            if event == Event::MappingEnd {
                let one_line = style == StructureStyle::Flow && span.end.line() == line;
                self.depth -= 1;
                for entry in below {
                    if fields.iter().all(|own| own.key != entry.key) {
                        fields.push(entry);
                    }
                }
                return Ok((fields, one_line));
            }
            let before = self.before(at);
            let NodeKind::Scalar(key, key_style) = self.node(event, span)?.kind else {
                return Err(fault(at, "expected a string as field name"));
            };
            let (event, span) = self.next()?;
            let mut value = self.node(event, span)?;
            // Errors about a field refer to the line of its key.
            value.line = at + self.first_line - 1;
            let behind = self.behind(style, at)?;
            if key == "<<" && key_style == Style::Plain {
                below.extend(
                    value.fields().iter().chain(value.items().iter().flat_map(|it| it.value.fields())).cloned(),
                );
            } else if fields.iter().any(|known| known.key == key) {
                return Err(fault(at, format!("`{key}` {TWICE}")));
            } else {
                fields.push(Entry { before, key, value, behind });
            }
        }
    }

    /// Returns the comments and the blank line before an entry that begins on `line`.
    fn before(&mut self, line: usize) -> Vec<String> {
        let later = self.own.split_off(&line);
        let comments = std::mem::replace(&mut self.own, later);
        let first = comments.keys().next().copied().unwrap_or(line);
        let blank = first > 1 && self.lines.get(first - 2).is_some_and(|line| line.trim().is_empty());
        let blank = (blank && self.nodes > 0 && !self.keeps_blank).then(String::new);
        blank.into_iter().chain(comments.into_values()).collect()
    }

    /// Returns the comment at the end of the line of an entry that began on `line`. The parser emits the comment with the next
    /// event.
    fn behind(&mut self, style: StructureStyle, line: usize) -> Result<Option<String>, Unreadable> {
        if style == StructureStyle::Flow {
            return Ok(None);
        }
        if self.ahead.is_none() {
            let next = self.next()?;
            self.ahead = Some(next);
        }
        Ok(self.behind.remove(&line))
    }
}

fn written(style: ScalarStyle, is_text: bool) -> Style {
    match style {
        ScalarStyle::Plain if is_text => Style::Double,
        ScalarStyle::Plain => Style::Plain,
        ScalarStyle::SingleQuoted => Style::Single,
        ScalarStyle::DoubleQuoted => Style::Double,
        ScalarStyle::Literal | ScalarStyle::Folded => Style::Block,
    }
}

fn size(node: &Node) -> usize {
    let inner = node.fields().iter().chain(node.items());
    1 + inner.map(|entry| size(&entry.value)).sum::<usize>()
}

fn fault(line: usize, problem: impl Into<String>) -> Unreadable {
    Unreadable { line, problem: problem.into() }
}
