//! Reader of a document into a tree. Aliases are expanded and merge keys are merged below their mappings, so that readers get
//! plain mappings. Duplicate keys and a second document are errors, unless the document is read as Go's `sigs.k8s.io/yaml` reads
//! it.

use std::collections::BTreeMap;

use granit_parser::{Event, Marker, Options, Parser, Span, StrInput, StructureStyle};

use super::fields::Fields;
use super::loss::{self, Loss};
use super::scalar::Scalar;
use super::tree::{Comment, Extent, Field, Key, Kind, Node};
use super::{Fault, Place};

/// Maximum number of nodes in a document, with those of anchors and aliases counted each time: far beyond user data of 16 KiB and any
/// manifest, so that aliases cannot exhaust the memory.
const LARGEST: usize = 200_000;
/// Maximum number of bytes of names and scalars in all copies for anchors and aliases.
const LARGEST_REPEATED: usize = 4 * 1024 * 1024;
/// Maximum number of levels of lists and mappings, with those of aliases. Readers call themselves once for each level.
const DEEPEST: usize = 100;
/// Message of the parser for a text with more levels than it reads at all.
const PARSER_LIMIT: &str = "recursion limit exceeded";

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

/// A value to which aliases refer, with its number of nodes, of bytes and of levels.
struct Anchor {
    node: Node,
    extent: Extent,
}

struct Reader<'a> {
    events: Parser<'a, StrInput<'a>>,
    comments: Vec<Comment>,
    anchors: BTreeMap<usize, Anchor>,
    /// Number of nodes so far, of bytes that aliases repeat, and of levels around the current node.
    nodes: usize,
    repeated: usize,
    depth: usize,
    /// `true` to keep each of several equal keys of a mapping, also those of merge keys, in their order.
    repeats: bool,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, with_comments: bool) -> Self {
        let mut options = Options::default();
        options.set_emit_comments(with_comments);
        let events = Parser::new_from_str_with_options(text, options);
        Self { events, comments: Vec::new(), anchors: BTreeMap::new(), nodes: 0, repeated: 0, depth: 0, repeats: false }
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
                Some(Err(error)) if error.info() == PARSER_LIMIT => return Err(too_deep(place(*error.marker()))),
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
                self.enter(1, at)?;
                let (items, end) = self.list()?;
                self.depth -= 1;
                (Node { at, one_line: is_one_line(style, span, end), kind: Kind::List(items) }, anchor)
            }
            Event::MappingStart(style, anchor, _) => {
                self.enter(1, at)?;
                let (fields, end) = self.map()?;
                self.depth -= 1;
                (Node { at, one_line: is_one_line(style, span, end), kind: Kind::Map(fields) }, anchor)
            }
            Event::Alias(anchor) => return self.alias(anchor, at),
            _ => return Err(Fault::new(at, "a value is missing")),
        };
        self.count(1, at)?;
        if anchor != 0 {
            let extent = node.extent();
            self.repeat(extent, at)?;
            self.anchors.insert(anchor, Anchor { extent, node: node.clone() });
        }
        Ok(node)
    }

    fn alias(&mut self, anchor: usize, at: Place) -> Result<Node, Fault> {
        let Some(known) = self.anchors.get(&anchor) else {
            return Err(Fault::new(at, "recursive alias"));
        };
        let extent = known.extent;
        self.enter(extent.depth, at)?;
        self.depth -= extent.depth;
        self.repeat(extent, at)?;
        Ok(self.anchors.get(&anchor).map_or_else(|| Node::null(at), |known| Node { at, ..known.node.clone() }))
    }

    /// Adds levels around the next node.
    fn enter(&mut self, levels: usize, at: Place) -> Result<(), Fault> {
        self.depth += levels;
        if self.depth > DEEPEST { Err(too_deep(at)) } else { Ok(()) }
    }

    /// Counts a copy of a value, for an alias or for its anchor.
    fn repeat(&mut self, extent: Extent, at: Place) -> Result<(), Fault> {
        self.count(extent.nodes, at)?;
        self.repeated += extent.bytes;
        if self.repeated > LARGEST_REPEATED { Err(too_large(at)) } else { Ok(()) }
    }

    fn count(&mut self, more: usize, at: Place) -> Result<(), Fault> {
        self.nodes += more;
        if self.nodes > LARGEST { Err(too_large(at)) } else { Ok(()) }
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

fn too_deep(at: Place) -> Fault {
    Fault::new(at, format!("more than {DEEPEST} levels of lists and mappings, with its aliases; nest less deeply"))
}

fn too_large(at: Place) -> Fault {
    Fault::new(at, "the document is too large with its aliases; shorten it, or write fewer aliases")
}

fn is_one_line(style: StructureStyle, begin: Span, end: Marker) -> bool {
    style == StructureStyle::Flow && begin.start.line() == end.line()
}

fn place(marker: Marker) -> Place {
    let number = |it: usize| u64::try_from(it).unwrap_or(u64::MAX);
    Place { line: number(marker.line()), column: number(marker.col()).saturating_add(1) }
}
