//! Parser of NodeConfigs with helpful errors. Types drop unknown fields, so unknown fields are searched in the document tree,
//! which has their places.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{API_VERSION, DisabledMount, GROUP, KIND, NodeConfig, NodeConfigError};
use crate::document::{self, Fault, Key, Kind, Loss, Node, Trail, typed};
use crate::quote::{problem, quote};
use crate::tables;

/// A parsed NodeConfig, with warnings.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The document.
    pub config: NodeConfig,
    /// One warning for each unknown field or value and for each loss, with its line.
    pub warnings: Vec<String>,
    /// Repeated keys and later documents, which are ignored.
    pub losses: Vec<NodeConfigError>,
}

/// Parses a YAML or JSON text with the rules of nodeadm: the first document counts, and the last of repeated keys.
///
/// # Errors
/// Returns [`NodeConfigError::Unreadable`] with line, column and field; [`NodeConfigError::WrongKind`] for other documents.
pub fn parse(text: &str) -> Result<Parsed, NodeConfigError> {
    let (config, ignored) = read(text)?;
    let warnings = ignored.iter().map(NodeConfigError::to_string).collect();
    let losses = ignored.into_iter().filter(NodeConfigError::is_loss).collect();
    Ok(Parsed { config, warnings, losses })
}

/// Parses a text as [`parse`] does, but ignored content is an error.
///
/// # Errors
/// Returns the same errors as [`parse`], and one for the first unknown field or value, repeated key or later document.
pub fn parse_strict(text: &str) -> Result<NodeConfig, NodeConfigError> {
    let (config, ignored) = read(text)?;
    ignored.into_iter().next().map_or(Ok(config), Err)
}

/// Fields of free form. Their numbers reach kubelet and containerd, so they are written as nodeadm writes them.
const FREE_FORM: [&[&str]; 2] = [&["spec", "kubelet", "config"], &["spec", "containerd", "baseRuntimeSpec"]];

/// Returns the document, and what is ignored in it.
fn read(text: &str) -> Result<(NodeConfig, Vec<NodeConfigError>), NodeConfigError> {
    let (mut document, losses) = document::read_like_go(text)?;
    check_kind(&document)?;
    for path in FREE_FORM {
        document.at_mut(path).into_iter().for_each(Node::convert_numbers_like_go);
    }
    let config: NodeConfig = typed(&document)?;
    check_toml(&config.spec.containerd.config, &document)?;
    let mut ignored = Vec::new();
    unknown_fields(&document, &Trail::ROOT, &mut ignored);
    ignored.extend(unknown_mounts(&document));
    ignored.extend(losses.into_iter().map(NodeConfigError::from));
    Ok((config, ignored))
}

/// Maximum number of unknown fields that are reported.
const REPORTED: usize = 64;
/// Field with the version of the API.
const FIELD: &str = "apiVersion";

/// Checks that the first document of a text can be parsed.
///
/// # Errors
/// Returns [`NodeConfigError::Unreadable`] with line and column.
pub fn check_syntax(text: &str) -> Result<(), NodeConfigError> {
    document::read_like_go(text).map(|_| ()).map_err(NodeConfigError::from)
}

/// Reports whether the first document of a text is a mapping of fields.
#[must_use]
pub fn is_mapping(text: &str) -> bool {
    document::read_like_go(text).is_ok_and(|(document, _)| matches!(document.kind, Kind::Map(_)))
}

/// Reports whether a text is a NodeConfig by its `apiVersion`, in any version of the API. A text that cannot be parsed is one if
/// it begins with a field and has such an `apiVersion`; a script may contain one.
#[must_use]
pub fn is_node_config(text: &str) -> bool {
    if text.trim_start().starts_with("#!") {
        return false;
    }
    match document::read_like_go(text) {
        Ok((document, _)) => document.text_at(&["apiVersion"]).starts_with(GROUP),
        Err(_) => {
            begins_with_field(text) && text.match_indices(FIELD).any(|(at, _)| is_of_group(&text[at + FIELD.len()..]))
        }
    }
}

/// Reports whether the first line that is no comment, directive or separator begins a mapping.
fn begins_with_field(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim_start);
    let first = lines.find(|line| !line.is_empty() && !["#", "---", "%"].iter().any(|begin| line.starts_with(begin)));
    first.is_some_and(|line| {
        let name = line.split(':').next().unwrap_or_default().trim_matches(['"', '\'', ' ']);
        line.starts_with('{') || name.len() < line.len() && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// Reports whether a field's value, after its name, is a version of the API's group.
fn is_of_group(after_name: &str) -> bool {
    let after_colon = after_name.trim_start_matches(['"', '\'']).trim_start().strip_prefix(':');
    after_colon.is_some_and(|value| value.trim_start().trim_start_matches(['"', '\'']).starts_with(GROUP))
}

fn unknown_mounts(document: &Node) -> Vec<NodeConfigError> {
    const FIELD: [&str; 4] = ["spec", "instance", "localStorage", "disabledMounts"];
    let mounts = FIELD.iter().try_fold(document, |node, field| node.get(field)).map(|node| &node.kind);
    let Some(Kind::List(mounts)) = mounts else { return Vec::new() };
    let unknown = |(index, mount): (usize, &Node)| {
        let name = mount.text_at(&[]);
        (!DisabledMount::NAMES.contains(&name)).then(|| NodeConfigError::UnknownValue {
            line: mount.at.line,
            path: format!("{}[{index}]", FIELD.join(".")),
            value: quote(name),
            known: &DisabledMount::NAMES,
        })
    };
    mounts.iter().enumerate().filter_map(unknown).collect()
}

impl From<Loss> for NodeConfigError {
    fn from(loss: Loss) -> Self {
        match loss {
            Loss::Key { at, by, path } => Self::Repeated { line: at.line, path: quote(&path), by: by.line },
            Loss::Document { at } => Self::LaterDocument { line: at.line },
        }
    }
}

fn check_toml(text: &str, document: &Node) -> Result<(), NodeConfigError> {
    const FIELD: &str = "spec.containerd.config";
    let Err(error) = tables::parse(text) else { return Ok(()) };
    let line = key_at(document, &["spec", "containerd", "config"]).map_or(1, |key| key.at.line);
    let start = error.span().map_or(0, |span| span.start);
    let inner_line = text.bytes().take(start).filter(|byte| *byte == b'\n').count() + 1;
    Err(NodeConfigError::NotToml { line, field: FIELD, inner_line, problem: problem(error.message()) })
}

/// Returns the key of a nested field.
fn key_at<'a>(document: &'a Node, path: &[&str]) -> Option<&'a Key> {
    let (last, parents) = path.split_last()?;
    let parent = parents.iter().try_fold(document, |node, field| node.get(field))?;
    match &parent.kind {
        Kind::Map(fields) => fields.iter().map(|(key, _)| key).find(|key| key.text == *last),
        _ => None,
    }
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

/// Returns the known fields below `path`; `None` if any field is permitted.
fn known_fields(path: &str) -> Option<&'static [&'static str]> {
    Some(match path {
        "" => &["apiVersion", "kind", "metadata", "spec"],
        "spec" => &["cluster", "containerd", "instance", "kubelet", "featureGates"],
        "spec.cluster" => &["name", "apiServerEndpoint", "certificateAuthority", "cidr", "enableOutpost", "id"],
        "spec.containerd" => &["config", "baseRuntimeSpec"],
        "spec.instance" => &["localStorage", "storage", "environment", "network"],
        "spec.instance.storage" => &["volumes"],
        path if is_volume(path) => &["device", "mountTarget", "mountTargets", "fsType"],
        "spec.instance.localStorage" => &["strategy", "mountPath", "disabledMounts"],
        "spec.instance.network" => &["nameservers", "domains"],
        "spec.kubelet" => &["config", "flags", "maxPodsExpression"],
        "spec.featureGates" => &["InstanceIdNodeName", "FastImagePull"],
        _ => return None,
    })
}

/// Reports whether the path is an element of `spec.instance.storage.volumes`.
fn is_volume(path: &str) -> bool {
    path.strip_prefix("spec.instance.storage.volumes[").is_some_and(|rest| rest.ends_with(']') && !rest.contains('.'))
}

/// Adds an error for each unknown field. Only mappings with known fields are searched, which are few and have short paths.
fn unknown_fields(node: &Node, trail: &Trail<'_>, unknown: &mut Vec<NodeConfigError>) {
    match &node.kind {
        Kind::Scalar(_) => {}
        Kind::List(items) => {
            items.iter().enumerate().for_each(|(index, item)| unknown_fields(item, &trail.item(index), unknown));
        }
        Kind::Map(fields) => {
            let Some(known) = known_fields(&trail.path()) else { return };
            for (key, value) in fields {
                let trail = trail.field(&key.text);
                if known.contains(&key.text.as_str()) {
                    unknown_fields(value, &trail, unknown);
                } else if unknown.len() < REPORTED {
                    let (line, path) = (key.at.line, quote(&trail.path()));
                    unknown.push(NodeConfigError::UnknownField { line, path, hint: hint(&key.text, known) });
                }
            }
        }
    }
}

/// Returns a hint with the similar known field if there is one, else with all known fields.
fn hint(name: &str, known: &[&str]) -> String {
    api::similar::nearest(name, known)
        .map_or_else(|| format!("fields here are {}", known.join(", ")), |field| format!("write {field}"))
}
