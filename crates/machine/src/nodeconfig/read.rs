//! Reading a NodeConfig so that whoever wrote it can repair it: the document is read twice, once for the place of
//! each field (serde errors know a line but no path, and unknown fields vanish), once into the types.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::{API_VERSION, KIND, NodeConfig, NodeConfigError};
use crate::quote::{problem, quote};

/// A NodeConfig as read, with what was read over.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The document.
    pub config: NodeConfig,
    /// One sentence for each unknown field, with its line.
    pub warnings: Vec<String>,
}

/// Reads one YAML or JSON document.
///
/// # Errors
/// [`NodeConfigError::Unreadable`] with line, column and field; [`NodeConfigError::WrongKind`] for other documents.
pub fn parse(text: &str) -> Result<Parsed, NodeConfigError> {
    let (config, unknown) = read(text)?;
    Ok(Parsed { config, warnings: unknown.iter().map(NodeConfigError::to_string).collect() })
}

/// Reads one YAML or JSON document as [`parse`] does, and takes an unknown field for an error.
///
/// # Errors
/// As [`parse`], and [`NodeConfigError::UnknownField`] for the first of them.
pub fn parse_strict(text: &str) -> Result<NodeConfig, NodeConfigError> {
    let (config, unknown) = read(text)?;
    unknown.into_iter().next().map_or(Ok(config), Err)
}

/// The document, and its unknown fields.
fn read(text: &str) -> Result<(NodeConfig, Vec<NodeConfigError>), NodeConfigError> {
    let places = Place::read(text)?;
    check_kind(text, &places)?;
    let config: NodeConfig = typed(text, &places)?;
    check_toml(&config.spec.containerd.config, &places)?;
    Ok((config, unknown_fields(&places)))
}

fn check_toml(text: &str, places: &[Place]) -> Result<(), NodeConfigError> {
    const FIELD: &str = "spec.containerd.config";
    let Err(error) = text.parse::<toml::Table>() else { return Ok(()) };
    let line = places.iter().find(|place| place.path == FIELD).map_or(1, |place| place.line);
    let start = error.span().map_or(0, |span| span.start);
    let inner_line = text.bytes().take(start).filter(|byte| *byte == b'\n').count() + 1;
    Err(NodeConfigError::NotToml { line, field: FIELD, inner_line, problem: problem(error.message()) })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TypeMeta {
    api_version: Option<String>,
    kind: Option<String>,
}

fn check_kind(text: &str, places: &[Place]) -> Result<(), NodeConfigError> {
    if places.iter().all(|place| place.path.is_empty()) {
        return Err(NodeConfigError::WrongKind { found: "no mapping of fields".to_owned() });
    }
    let meta: TypeMeta = typed(text, places)?;
    let found = match (meta.api_version.as_deref(), meta.kind.as_deref()) {
        (Some(API_VERSION), Some(KIND)) => return Ok(()),
        (None, None) => "a document without apiVersion and kind".to_owned(),
        (version, kind) => {
            format!("{} {}", quote(version.unwrap_or("(no apiVersion)")), quote(kind.unwrap_or("(no kind)")))
        }
    };
    Err(NodeConfigError::WrongKind { found })
}

/// Reads a document of any type; errors say line and field.
pub(crate) fn read_typed<T: DeserializeOwned>(text: &str) -> Result<T, NodeConfigError> {
    typed(text, &Place::read(text)?)
}

fn typed<T: DeserializeOwned>(text: &str, places: &[Place]) -> Result<T, NodeConfigError> {
    serde_saphyr::from_str(text).map_err(|error| unreadable(&error, places))
}

fn unreadable(error: &serde_saphyr::Error, places: &[Place]) -> NodeConfigError {
    let (line, column) = error.location().map_or((1, 1), |at| (at.line(), at.column()));
    let field = places
        .iter()
        .filter(|place| (place.line, place.column) <= (line, column))
        .max_by_key(|place| (place.line, place.column, place.path.len()))
        .map(|place| quote(&place.path))
        .unwrap_or_default();
    let problem = problem(&without_place(&error.without_snippet().to_string()));
    NodeConfigError::Unreadable { line, column, field, problem }
}

/// The first line of a reader's message, without the place (which we name ourselves) and in a user's words.
fn without_place(message: &str) -> String {
    let line = message.lines().next().unwrap_or(message).trim();
    let line = line.strip_prefix("error: ").unwrap_or(line);
    let end = line.rfind(" at line ").unwrap_or(line.len());
    let start = if line.starts_with("line ") { line.find(": ").map_or(0, |at| at + 2) } else { 0 };
    let problem = line.get(start..end.max(start)).unwrap_or(line);
    problem.replace("sequence start", "a list").replace("mapping start", "a mapping")
}

/// Where a field or an element stands.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    /// Dotted path, such as `spec.kubelet.flags[0]`; empty for the document.
    path: String,
    /// 1-based line.
    line: u64,
    /// 1-based column.
    column: u64,
}

impl Place {
    /// The places of all fields of a document, in order.
    fn read(text: &str) -> Result<Vec<Self>, NodeConfigError> {
        let root: Spanned<Node> = serde_saphyr::from_str(text).map_err(|error| unreadable(&error, &[]))?;
        let mut places = Vec::new();
        collect(&root, String::new(), &mut places);
        Ok(places)
    }
}

fn collect(node: &Spanned<Node>, path: String, places: &mut Vec<Place>) {
    let child = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match &node.value {
        Node::Scalar => {}
        Node::Map(fields) => {
            for (key, value) in fields {
                places.push(place(child(&key.value), key));
                collect(value, child(&key.value), places);
            }
        }
        Node::List(items) => {
            for (index, item) in items.iter().enumerate() {
                places.push(place(format!("{path}[{index}]"), item));
                collect(item, format!("{path}[{index}]"), places);
            }
        }
    }
}

fn place<T>(path: String, at: &Spanned<T>) -> Place {
    Place { path, line: at.referenced.line(), column: at.referenced.column() }
}

/// The shape of a document without its values.
enum Node {
    Scalar,
    Map(Vec<(Spanned<String>, Spanned<Self>)>),
    List(Vec<Spanned<Self>>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_any(Shape)
    }
}

struct Shape;

impl<'de> Visitor<'de> for Shape {
    type Value = Node;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a YAML document")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Node::Map(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_some<D: Deserializer<'de>>(self, input: D) -> Result<Node, D::Error> {
        Node::deserialize(input)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, input: D) -> Result<Node, D::Error> {
        IgnoredAny::deserialize(input).map(|_| Node::Scalar)
    }
}

/// The fields below `path`; `None` where anything may stand.
fn known_fields(path: &str) -> Option<&'static [&'static str]> {
    Some(match path {
        "" => &["apiVersion", "kind", "metadata", "spec"],
        "spec" => &["cluster", "containerd", "instance", "kubelet", "featureGates"],
        "spec.cluster" => &["name", "apiServerEndpoint", "certificateAuthority", "cidr", "enableOutpost", "id"],
        "spec.containerd" => &["config", "baseRuntimeSpec"],
        "spec.instance" => &["localStorage", "environment", "network"],
        "spec.instance.localStorage" => &["strategy", "mountPath", "disabledMounts"],
        "spec.instance.network" => &["nameservers", "domains"],
        "spec.kubelet" => &["config", "flags", "maxPodsExpression"],
        "spec.featureGates" => &["InstanceIdNodeName", "FastImagePull"],
        _ => return None,
    })
}

fn unknown_fields(places: &[Place]) -> Vec<NodeConfigError> {
    let mut unknown = Vec::new();
    for place in places.iter().filter(|place| !place.path.ends_with(']')) {
        let (parent, name) = place.path.rsplit_once('.').unwrap_or(("", &place.path));
        if let Some(known) = known_fields(parent)
            && !known.contains(&name)
        {
            let (line, path) = (place.line, quote(&place.path));
            unknown.push(NodeConfigError::UnknownField { line, path, hint: hint(name, known) });
        }
    }
    unknown
}

/// The field that was meant where one is spelt nearly alike, else all that there are.
fn hint(name: &str, known: &[&str]) -> String {
    let near = known.iter().map(|field| (distance(&name.to_lowercase(), &field.to_lowercase()), field));
    match near.min() {
        Some((0..=2, field)) => format!("write {field}"),
        _ => format!("fields here are {}", known.join(", ")),
    }
}

/// How many characters have to be put in, taken out or changed to make one name of the other.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (i, left) in one.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, right) in other.chars().enumerate() {
            let changed = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}
