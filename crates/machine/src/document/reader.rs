//! Reader of a document into a tree. Aliases are expanded and merge keys are merged below their mappings, so that readers get
//! plain mappings. Duplicate keys and a second document are errors, unless the document is read as Go's `sigs.k8s.io/yaml` reads
//! it.

use std::collections::BTreeMap;

use granit_parser::{Event, Marker, Options, Parser, Span, StrInput, StructureStyle};

use super::fields::Fields;
use super::loss::{self, Loss};
use super::scalar::Scalar;
use super::tree::{Comment, Field, Key, Kind, Node};
use super::{Fault, Place};

/// Maximum number of nodes in a document, with those of aliases counted each time: far beyond user data of 16 KiB and any
/// manifest, so that aliases cannot exhaust the memory. The parser limits the depth.
const LARGEST: usize = 200_000;

/// Parses the single document of a text; an empty text is null. Further documents without content are permitted.
pub(crate) fn read_single(text: &str) -> Result<Node, Fault> {
    Reader::new(text, false).single_document()
}

/// Parses the first document of a text that has content, with the rules of Go's `sigs.k8s.io/yaml`: of a repeated key, the
/// last one counts. Returns what was ignored.
pub(crate) fn read_like_go(text: &str) -> Result<(Node, Vec<Loss>), Fault> {
    let mut reader = Reader { repeats: true, ..Reader::new(text, false) };
    let (mut root, mut losses) = reader.first_document()?;
    loss::keep_last(&mut root, text.trim_start().starts_with('{'), &mut losses);
    Ok((root, losses))
}

/// Parses the single document of a text, and its comments in their order.
///
/// # Errors
/// Returns a [`Fault`] with its place.
pub fn read_with_comments(text: &str) -> Result<(Node, Vec<Comment>), Fault> {
    let mut reader = Reader::new(text, true);
    let root = reader.single_document()?;
    Ok((root, reader.comments))
}

struct Reader<'a> {
    events: Parser<'a, StrInput<'a>>,
    comments: Vec<Comment>,
    anchors: BTreeMap<usize, Node>,
    nodes: usize,
    /// `true` to keep each of several equal keys of a mapping, also those of merge keys, in their order.
    repeats: bool,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, with_comments: bool) -> Self {
        let mut options = Options::default();
        options.set_emit_comments(with_comments);
        let events = Parser::new_from_str_with_options(text, options);
        Self { events, comments: Vec::new(), anchors: BTreeMap::new(), nodes: 0, repeats: false }
    }

    /// Returns the only document with content; null without one.
    fn single_document(&mut self) -> Result<Node, Fault> {
        let mut root: Option<Node> = None;
        while let Some(found) = self.next_document()? {
            match &root {
                Some(first) if !first.is_null() && !found.is_null() => {
                    return Err(Fault::new(found.at, "a second document begins; write only one"));
                }
                Some(first) if !first.is_null() => {}
                _ => root = Some(found),
            }
        }
        Ok(root.unwrap_or_default())
    }

    /// Returns the first document with content, and the place of a later one with content. Later documents need not be YAML.
    fn first_document(&mut self) -> Result<(Node, Vec<Loss>), Fault> {
        let mut root = Node::default();
        while root.is_null() {
            let Some(found) = self.next_document()? else { return Ok((root, Vec::new())) };
            root = found;
        }
        loop {
            match self.next_document() {
                Ok(None) => return Ok((root, Vec::new())),
                Ok(Some(later)) if later.is_null() => {}
                Ok(Some(later)) => return Ok((root, vec![Loss::Document { at: later.at }])),
                Err(fault) => return Ok((root, vec![Loss::Document { at: fault.place() }])),
            }
        }
    }

    /// Returns the next document; `None` at the end.
    fn next_document(&mut self) -> Result<Option<Node>, Fault> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
                Event::StreamEnd => return Ok(None),
                event => return self.node(event, span).map(Some),
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
    fn map(&mut self) -> Result<(Vec<Field>, Marker), Fault> {
        let mut fields = Fields::new(self.repeats);
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                return Ok((fields.finish(), span.end));
            }
            let at = place(span.start);
            let Kind::Scalar(key) = self.node(event, span)?.kind else {
                return Err(Fault::new(at, "expected a string as field name"));
            };
            let (event, span) = self.next()?;
            let value = self.node(event, span)?;
            if key.merges() {
                fields.merge(value)?;
            } else {
                fields.add(Key { at, text: key.text }, value)?;
            }
        }
    }
}

fn is_one_line(style: StructureStyle, begin: Span, end: Marker) -> bool {
    style == StructureStyle::Flow && begin.start.line() == end.line()
}

fn place(marker: Marker) -> Place {
    let number = |it: usize| u64::try_from(it).unwrap_or(u64::MAX);
    Place { line: number(marker.line()), column: number(marker.col()).saturating_add(1) }
}
