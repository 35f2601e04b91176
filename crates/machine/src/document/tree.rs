//! A document as a tree in which each node has its place. Aliases are expanded and merge keys are merged below their mappings,
//! so that readers get plain mappings. Duplicate keys are errors.

use std::collections::{BTreeMap, BTreeSet};

use granit_parser::{Event, Marker, Options, Parser, Span, StrInput};

use super::scalar::Scalar;
use super::{Fault, Place};

/// Maximum number of nodes in a document, with those of aliases counted each time. User data has 16 KiB, and aliases must not
/// exhaust the memory.
const LARGEST: usize = 100_000;

/// A value and its place: for an alias, the place of its use.
#[derive(Clone, Debug)]
pub struct Node {
    pub(crate) at: Place,
    pub(crate) kind: Kind,
}

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Scalar(Scalar),
    List(Vec<Node>),
    /// Fields in the order of the document; merged fields last.
    Map(Vec<(Key, Node)>),
}

/// Name of a field.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) at: Place,
    pub(crate) text: String,
}

impl Default for Node {
    fn default() -> Self {
        Self { at: Place::default(), kind: Kind::Scalar(Scalar::null()) }
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
        let mut options = Options::default();
        options.set_emit_comments(false);
        let events = Parser::new_from_str_with_options(text, options);
        Reader { events, anchors: BTreeMap::new(), nodes: 0 }.document()
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
    anchors: BTreeMap<usize, Node>,
    nodes: usize,
}

impl<'a> Reader<'a> {
    fn document(mut self) -> Result<Node, Fault> {
        let mut root = None;
        loop {
            let (event, at) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentEnd => {}
                Event::DocumentStart(..) if root.is_none() => {}
                Event::DocumentStart(..) => return Err(Fault::new(at, "a second document begins; write only one")),
                Event::StreamEnd => {
                    return Ok(root.unwrap_or(Node { at, kind: Kind::Scalar(Scalar::null()) }));
                }
                event => root = Some(self.node(event, at)?),
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'a>, Place), Fault> {
        match self.events.next_event() {
            Some(Ok((event, Span { start, .. }))) => Ok((event, place(start))),
            Some(Err(error)) => Err(Fault::new(place(*error.marker()), error.info())),
            None => Err(Fault::new(Place::default(), "the document breaks off")),
        }
    }

    fn node(&mut self, event: Event<'a>, at: Place) -> Result<Node, Fault> {
        let (kind, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let scalar = Scalar::new(text.into_owned(), style, tag.as_deref());
                (Kind::Scalar(scalar.map_err(|problem| Fault::new(at, problem))?), anchor)
            }
            Event::SequenceStart(_, anchor, _) => (self.list()?, anchor),
            Event::MappingStart(_, anchor, _) => (self.map()?, anchor),
            Event::Alias(anchor) => return self.alias(anchor, at),
            _ => return Err(Fault::new(at, "a value is missing")),
        };
        self.count(1, at)?;
        let node = Node { at, kind };
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
        let kind = self.anchors.get(&anchor).map(|known| known.kind.clone());
        Ok(Node { at, kind: kind.unwrap_or(Kind::Scalar(Scalar::null())) })
    }

    fn count(&mut self, more: usize, at: Place) -> Result<(), Fault> {
        self.nodes += more;
        if self.nodes > LARGEST { Err(Fault::new(at, "the document is too large with its aliases")) } else { Ok(()) }
    }

    fn list(&mut self) -> Result<Kind, Fault> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Kind::List(items)),
                (event, at) => items.push(self.node(event, at)?),
            }
        }
    }

    fn map(&mut self) -> Result<Kind, Fault> {
        let mut fields = Vec::new();
        let mut below = Vec::new();
        let mut known = BTreeSet::new();
        loop {
            let (event, at) = self.next()?;
            if event == Event::MappingEnd {
                break;
            }
            let Kind::Scalar(key) = self.node(event, at)?.kind else {
                return Err(Fault::new(at, "expected a string as field name"));
            };
            let (event, value_at) = self.next()?;
            let value = self.node(event, value_at)?;
            if key.merges() {
                below.extend(merged(value)?);
            } else if known.insert(key.text.clone()) {
                fields.push((Key { at, text: key.text }, value));
            } else {
                return Err(Fault::new(at, format!("`{}` is repeated", key.text)));
            }
        }
        fields.extend(below.into_iter().filter(|(key, _)| known.insert(key.text.clone())));
        Ok(Kind::Map(fields))
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

fn place(marker: Marker) -> Place {
    let number = |it: usize| u64::try_from(it).unwrap_or(u64::MAX);
    Place { line: number(marker.line()), column: number(marker.col()).saturating_add(1) }
}
