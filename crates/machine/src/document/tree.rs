//! A document as a tree in which each node has its place. Aliases are expanded and merge keys are merged below their mappings,
//! so that readers get plain mappings. Duplicate keys are errors.

use std::collections::{BTreeMap, BTreeSet};

use granit_parser::{Event, Marker, Options, Parser, Span, StrInput, StructureStyle};

use super::scalar::Scalar;
use super::{Fault, Place};

/// Maximum number of nodes in a document, with those of aliases counted each time: far beyond user data of 16 KiB and any
/// manifest, so that aliases cannot exhaust the memory. The parser limits the depth.
const LARGEST: usize = 200_000;

/// End of the problem of a key that a mapping has twice.
pub const REPEATED: &str = "is repeated";

/// A value and its place: for an alias, the place of its use.
#[derive(Clone, Debug)]
pub struct Node {
    /// Place in the document.
    pub at: Place,
    /// `true` for a list such as `[a, b]` or a mapping such as `{a: b}` on one line.
    pub one_line: bool,
    /// The value itself.
    pub kind: Kind,
}

/// A value.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A string, a number, a boolean or null.
    Scalar(Scalar),
    /// Elements of a list.
    List(Vec<Node>),
    /// Fields in the order of the document; merged fields last.
    Map(Vec<(Key, Node)>),
}

/// Name of a field.
#[derive(Clone, Debug)]
pub struct Key {
    /// Place in the document.
    pub at: Place,
    /// Name without quotes.
    pub text: String,
}

/// A comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// Line, from 1.
    pub line: u64,
    /// Text after the number sign.
    pub text: String,
}

impl Default for Node {
    fn default() -> Self {
        Self::null(Place::default())
    }
}

impl Node {
    /// Returns the value of a field of a mapping.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<&Self> {
        match &self.kind {
            Kind::Map(fields) => fields.iter().find(|(key, _)| key.text == field).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Returns the text of a nested field, such as `metadata`, `uid`, or an empty string.
    #[must_use]
    pub fn text_at(&self, path: &[&str]) -> &str {
        let found = path.iter().try_fold(self, |node, field| node.get(field));
        match found.map(|node| &node.kind) {
            Some(Kind::Scalar(scalar)) => &scalar.text,
            _ => "",
        }
    }

    /// Parses the single document of a text; an empty text is null.
    pub(crate) fn read(text: &str) -> Result<Self, Fault> {
        Reader::new(text, false).document()
    }

    /// Parses the single document of a text, and its comments in their order.
    ///
    /// # Errors
    /// Returns a [`Fault`] with its place.
    pub fn read_with_comments(text: &str) -> Result<(Self, Vec<Comment>), Fault> {
        let mut reader = Reader::new(text, true);
        let root = reader.document()?;
        Ok((root, reader.comments))
    }

    fn null(at: Place) -> Self {
        Self { at, one_line: false, kind: Kind::Scalar(Scalar::null()) }
    }

    fn size(&self) -> usize {
        1 + match &self.kind {
            Kind::Scalar(_) => 0,
            Kind::List(items) => items.iter().map(Self::size).sum(),
            Kind::Map(fields) => fields.iter().map(|(_, value)| value.size()).sum(),
        }
    }
}

struct Reader<'a> {
    events: Parser<'a, StrInput<'a>>,
    comments: Vec<Comment>,
    anchors: BTreeMap<usize, Node>,
    nodes: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, with_comments: bool) -> Self {
        let mut options = Options::default();
        options.set_emit_comments(with_comments);
        let events = Parser::new_from_str_with_options(text, options);
        Self { events, comments: Vec::new(), anchors: BTreeMap::new(), nodes: 0 }
    }

    fn document(&mut self) -> Result<Node, Fault> {
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            let at = place(span.start);
            match event {
                Event::StreamStart | Event::DocumentEnd => {}
                Event::DocumentStart(..) if root.is_none() => {}
                Event::DocumentStart(..) => return Err(Fault::new(at, "a second document begins; write only one")),
                Event::StreamEnd => return Ok(root.unwrap_or(Node::null(at))),
                event => root = Some(self.node(event, span)?),
            }
        }
    }

    /// Returns the next event that is not a comment.
    fn next(&mut self) -> Result<(Event<'a>, Span), Fault> {
        loop {
            match self.events.next_event() {
                Some(Ok((Event::Comment(text, _), span))) => {
                    self.comments.push(Comment { line: place(span.start).line, text: text.into_owned() });
                }
                Some(Ok(found)) => return Ok(found),
                Some(Err(error)) => return Err(Fault::new(place(*error.marker()), error.info())),
                None => return Err(Fault::new(Place::default(), "the document breaks off")),
            }
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span) -> Result<Node, Fault> {
        let at = place(span.start);
        let (node, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let scalar = Scalar::new(text.into_owned(), style, tag.as_deref());
                let kind = Kind::Scalar(scalar.map_err(|problem| Fault::new(at, problem))?);
                (Node { at, one_line: false, kind }, anchor)
            }
            Event::SequenceStart(style, anchor, _) => {
                let (items, end) = self.list()?;
                (Node { at, one_line: is_one_line(style, span, end), kind: Kind::List(items) }, anchor)
            }
            Event::MappingStart(style, anchor, _) => {
                let (fields, end) = self.map()?;
                (Node { at, one_line: is_one_line(style, span, end), kind: Kind::Map(fields) }, anchor)
            }
            Event::Alias(anchor) => return self.alias(anchor, at),
            _ => return Err(Fault::new(at, "a value is missing")),
        };
        self.count(1, at)?;
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn alias(&mut self, anchor: usize, at: Place) -> Result<Node, Fault> {
        let Some(known) = self.anchors.get(&anchor) else {
            return Err(Fault::new(at, "recursive alias"));
        };
        let size = known.size();
        self.count(size, at)?;
        Ok(self.anchors.get(&anchor).map_or_else(|| Node::null(at), |known| Node { at, ..known.clone() }))
    }

    fn count(&mut self, more: usize, at: Place) -> Result<(), Fault> {
        self.nodes += more;
        if self.nodes > LARGEST { Err(Fault::new(at, "the document is too large with its aliases")) } else { Ok(()) }
    }

    /// Returns the elements of a list, and its end.
    fn list(&mut self) -> Result<(Vec<Node>, Marker), Fault> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, span) => return Ok((items, span.end)),
                (event, span) => items.push(self.node(event, span)?),
            }
        }
    }

    /// Returns the fields of a mapping, and its end.
    fn map(&mut self) -> Result<(Vec<(Key, Node)>, Marker), Fault> {
        let mut fields = Vec::new();
        let mut below = Vec::new();
        let mut known = BTreeSet::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                fields.extend(below.into_iter().filter(|(key, _): &(Key, Node)| known.insert(key.text.clone())));
                return Ok((fields, span.end));
            }
            let at = place(span.start);
            let Kind::Scalar(key) = self.node(event, span)?.kind else {
                return Err(Fault::new(at, "expected a string as field name"));
            };
            let (event, span) = self.next()?;
            let value = self.node(event, span)?;
            if key.merges() {
                below.extend(merged(value)?);
            } else if known.insert(key.text.clone()) {
                fields.push((Key { at, text: key.text }, value));
            } else {
                return Err(Fault::new(at, format!("`{}` {REPEATED}", key.text)));
            }
        }
    }
}

/// Returns the fields of a merge key: of one mapping, or of several, of which earlier ones take precedence.
fn merged(value: Node) -> Result<Vec<(Key, Node)>, Fault> {
    match value.kind {
        Kind::Map(fields) => Ok(fields),
        Kind::List(items) => {
            let several: Result<Vec<_>, Fault> = items.into_iter().map(merged).collect();
            Ok(several?.into_iter().flatten().collect())
        }
        Kind::Scalar(scalar) if scalar.is_null() => Ok(Vec::new()),
        Kind::Scalar(_) => Err(Fault::new(value.at, "expected a mapping behind <<")),
    }
}

fn is_one_line(style: StructureStyle, begin: Span, end: Marker) -> bool {
    style == StructureStyle::Flow && begin.start.line() == end.line()
}

fn place(marker: Marker) -> Place {
    let number = |it: usize| u64::try_from(it).unwrap_or(u64::MAX);
    Place { line: number(marker.line()), column: number(marker.col()).saturating_add(1) }
}
