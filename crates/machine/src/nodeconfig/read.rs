//! Parser of NodeConfigs with helpful errors. Types drop unknown fields, so unknown fields are searched in the document tree,
//! which has their places.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{API_VERSION, KIND, NodeConfig, NodeConfigError};
use crate::document::{self, Fault, Kind, Node, typed};
use crate::quote::{problem, quote};

/// A parsed NodeConfig, with warnings.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The document.
    pub config: NodeConfig,
    /// One warning for each unknown field, with its line.
    pub warnings: Vec<String>,
}

/// Parses one YAML or JSON document.
///
/// # Errors
/// Returns [`NodeConfigError::Unreadable`] with line, column and field; [`NodeConfigError::WrongKind`] for other documents.
pub fn parse(text: &str) -> Result<Parsed, NodeConfigError> {
    let (config, unknown) = read(text)?;
    Ok(Parsed { config, warnings: unknown.iter().map(NodeConfigError::to_string).collect() })
}

/// Parses one YAML or JSON document as [`parse`] does, but an unknown field is an error.
///
/// # Errors
/// Returns the same errors as [`parse`], and [`NodeConfigError::UnknownField`] for the first unknown field.
pub fn parse_strict(text: &str) -> Result<NodeConfig, NodeConfigError> {
    let (config, unknown) = read(text)?;
    unknown.into_iter().next().map_or(Ok(config), Err)
}

/// Returns the document, and its unknown fields.
fn read(text: &str) -> Result<(NodeConfig, Vec<NodeConfigError>), NodeConfigError> {
    let document = Node::read(text)?;
    check_kind(&document)?;
    let config: NodeConfig = typed(&document)?;
    let places = Place::all(&document);
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

fn check_kind(document: &Node) -> Result<(), NodeConfigError> {
    if !matches!(&document.kind, Kind::Map(fields) if !fields.is_empty()) {
        return Err(NodeConfigError::WrongKind { found: "no mapping of fields".to_owned() });
    }
    let meta: TypeMeta = typed(document)?;
    let found = match (meta.api_version.as_deref(), meta.kind.as_deref()) {
        (Some(API_VERSION), Some(KIND)) => return Ok(()),
        (None, None) => "a document without apiVersion and kind".to_owned(),
        (version, kind) => {
            format!("{} {}", quote(version.unwrap_or("(no apiVersion)")), quote(kind.unwrap_or("(no kind)")))
        }
    };
    Err(NodeConfigError::WrongKind { found })
}

/// Parses a document of any type; errors have line and field.
pub(crate) fn read_typed<T: DeserializeOwned>(text: &str) -> Result<T, NodeConfigError> {
    Ok(document::read(text)?)
}

impl From<Fault> for NodeConfigError {
    fn from(fault: Fault) -> Self {
        let document::Place { line, column } = fault.place();
        Self::Unreadable { line, column, field: quote(fault.field()), problem: problem(fault.problem()) }
    }
}

/// Place of a field or an element.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    /// Dotted path, such as `spec.kubelet.flags[0]`; empty for the document.
    path: String,
    /// 1-based line.
    line: u64,
}

impl Place {
    /// Returns the places of all fields of a document, in order.
    fn all(root: &Node) -> Vec<Self> {
        let mut places = Vec::new();
        collect(root, "", &mut places);
        places
    }
}

fn collect(node: &Node, path: &str, places: &mut Vec<Place>) {
    match &node.kind {
        Kind::Scalar(_) => {}
        Kind::Map(fields) => {
            let dot = if path.is_empty() { "" } else { "." };
            for (key, value) in fields {
                let path = format!("{path}{dot}{}", key.text);
                collect(value, &path, added(places, &path, key.at));
            }
        }
        Kind::List(items) => {
            for (index, item) in items.iter().enumerate() {
                let path = format!("{path}[{index}]");
                collect(item, &path, added(places, &path, item.at));
            }
        }
    }
}

fn added<'a>(places: &'a mut Vec<Place>, path: &str, at: document::Place) -> &'a mut Vec<Place> {
    places.push(Place { path: path.to_owned(), line: at.line });
    places
}

/// Returns the known fields below `path`; `None` if any field is permitted.
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

/// Returns a hint with the similar known field if there is one, else with all known fields.
fn hint(name: &str, known: &[&str]) -> String {
    api::similar::nearest(name, known)
        .map_or_else(|| format!("fields here are {}", known.join(", ")), |field| format!("write {field}"))
}
