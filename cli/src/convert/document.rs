//! Split of files into documents, and assembly of the output around changed documents.

use machine::document::REPEATED;

use super::monitoring::rules::{self, Placed};
use super::monitoring::{self, board};
use super::object::{Object, Remark, RemarkKind};
use super::retired;
use super::tree::{self, Entry, Node, NodeKind, Style, Tree};
use super::{Converted, values};
use crate::input::{self, File, InputError, Place};

/// A file.
pub(super) struct SourceText {
    documents: Vec<Document>,
    /// Prefix of the file: a byte order mark or nothing.
    mark: &'static str,
    /// Separator between two documents.
    between: &'static str,
    pub(super) errors: Vec<InputError>,
}

/// Kind of a document's content; one output must not mix kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DocumentKind {
    Manifest,
    Values,
    Rules,
    Board,
    Nothing,
}

/// Byte order mark, which some editors add at the start of a file.
const MARK: &str = "\u{feff}";

/// A document of a file.
pub(super) struct Document {
    place: Place,
    /// Text from the file, from the end of its `---` on, with retired names replaced.
    body: String,
    kind: DocumentKind,
    /// Parsed tree, if the document has objects that are converted.
    tree: Option<Tree>,
    pub(super) objects: Vec<Object>,
    /// Index in the List's items, for each object.
    items: Vec<Option<usize>>,
    /// Remarks about the document that belong to no object.
    remarks: Vec<Remark>,
}

impl SourceText {
    pub(super) fn read(file: &File) -> Self {
        let text = file.text.strip_prefix(MARK).unwrap_or(&file.text);
        let mark = if text.len() < file.text.len() { MARK } else { "" };
        let (pieces, between) = pieces(text);
        // Text before the first `---` counts as a document only if it is not blank.
        let skipped = usize::from(pieces.len() > 1 && between == "---" && input::is_blank(&pieces[0].1));
        let mut source = Self { documents: Vec::new(), mark, between, errors: Vec::new() };
        for (index, (line, body)) in pieces.into_iter().enumerate() {
            let place = Place::document(&file.name, (index + 1).saturating_sub(skipped).max(1));
            let mut document = Document::new(place, body);
            if !input::is_blank(&document.body)
                && let Err(errors) = document.classify(line + 1)
            {
                source.errors.extend(errors);
            }
            source.documents.push(document);
        }
        source
    }

    pub(super) fn objects(&mut self) -> impl Iterator<Item = &mut Object> {
        self.documents.iter_mut().flat_map(|document| document.objects.iter_mut())
    }

    /// Returns the Helm values in the file, each with its place; those of a subchart without the key of the subchart.
    pub(super) fn values_roots(&self) -> impl Iterator<Item = (String, &Node)> {
        let values = self.documents.iter().filter(|document| document.kind == DocumentKind::Values);
        values.filter_map(|document| Some((document.place.to_string(), values::own(&document.tree.as_ref()?.root))))
    }

    /// Returns a note for each document of Helm values that is read and not converted.
    pub(super) fn unconverted_values(&self) -> impl Iterator<Item = String> {
        let note =
            |place| format!("{place}: Helm values, used only for the EC2NodeClasses; convert them alone as well");
        self.values_roots().map(move |(place, _)| note(place))
    }

    /// Reports whether the file has documents of a kind.
    fn has(&self, kind: DocumentKind) -> bool {
        self.documents.iter().any(|document| document.kind == kind)
    }

    /// Adds the file to the output.
    pub(super) fn write(&self, out: &mut Converted) {
        let changed = self.documents.iter().any(Document::is_changed);
        let bodies: Vec<String> = self.documents.iter().enumerate().map(|(index, it)| it.text(index > 0)).collect();
        let text = match self.between {
            // JSON values need no separator, YAML documents do.
            "" if changed => bodies.iter().map(|body| format!("{}\n", body.trim())).collect::<Vec<_>>().join("---\n"),
            between => bodies.join(between),
        };
        if out.text.is_empty() {
            out.text.push_str(self.mark);
        } else {
            let ended = out.text.ends_with('\n');
            out.text.push_str(if ended { "" } else { "\n" });
            out.text.push_str(if text.starts_with("---") { "" } else { "---\n" });
        }
        out.text.push_str(&text);
        for document in &self.documents {
            document.remarks.iter().for_each(|remark| out.remark(remark.kind, &remark.text));
            document.write_remarks(out);
        }
    }
}

/// Returns the documents of a file with the number of lines before each, and the separator between them.
fn pieces(text: &str) -> (Vec<(usize, String)>, &'static str) {
    if text.trim_start().starts_with('{') {
        let mut stream = serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>();
        let (mut pieces, mut start) = (Vec::new(), 0);
        while let Some(Ok(_)) = stream.next() {
            let end = stream.byte_offset();
            pieces.push((text[..start].matches('\n').count(), text[start..end].to_owned()));
            start = end;
        }
        if text[start..].trim().is_empty() {
            if let Some(last) = pieces.last_mut() {
                last.1.push_str(&text[start..]);
            }
            return (pieces, "");
        }
    }
    (input::pieces(text).into_iter().map(|(line, body)| (line, body.to_owned())).collect(), "---")
}

/// Removes and returns files with only Helm values, if other files contain manifests: values of old versions had settings that
/// belong to EC2NodeClasses now.
pub(super) fn take_values(sources: &mut Vec<SourceText>) -> Vec<SourceText> {
    if !sources.iter().any(|source| source.has(DocumentKind::Manifest)) {
        return Vec::new();
    }
    let others = [DocumentKind::Manifest, DocumentKind::Rules, DocumentKind::Board];
    let is_values =
        |source: &SourceText| source.has(DocumentKind::Values) && others.iter().all(|kind| !source.has(*kind));
    let (values, rest) = std::mem::take(sources).into_iter().partition(is_values);
    *sources = rest;
    values
}

/// Reports files of different kinds. Manifests are applied and values are passed to Helm, so one output cannot contain both.
pub(super) fn mixed(sources: &[SourceText]) -> Option<InputError> {
    let documents =
        || sources.iter().flat_map(|source| &source.documents).filter(|it| it.kind != DocumentKind::Nothing);
    let first = documents().next()?;
    let is_apart = |document: &&Document| document.kind != first.kind || document.kind == DocumentKind::Board;
    let other = documents().skip(1).find(is_apart)?;
    let name = |document: &Document| match document.kind {
        DocumentKind::Values => "Helm values",
        DocumentKind::Rules => "Prometheus rules",
        DocumentKind::Board => "a Grafana board",
        DocumentKind::Manifest | DocumentKind::Nothing => "manifests",
    };
    let problem = format!("it contains {}, and {} contains {}", name(other), first.place, name(first));
    Some(InputError::new(&other.place, problem, "convert each kind separately, and each board"))
}

impl Document {
    fn new(place: Place, body: String) -> Self {
        let (kind, objects) = (DocumentKind::Nothing, Vec::new());
        Self { place, body, kind, tree: None, objects, items: Vec::new(), remarks: Vec::new() }
    }

    /// Detects the document's kind and reads its objects; its first line is `line` of the file.
    fn classify(&mut self, line: usize) -> Result<(), Vec<InputError>> {
        let found = retired::names(&self.body);
        self.renamed(line, &found.hits);
        self.body = found.text;
        if board::read(&self.body).is_some() {
            self.kind = DocumentKind::Board;
            self.rename_metrics(line);
            let found = board::read(&self.body).map(|board| board::check(&board, &self.body, line));
            self.lose(found.unwrap_or_default());
            return Ok(());
        }
        let tree = tree::read(&self.body, line).map_err(|fault| {
            let problem = format!("line {}: not YAML: {}", fault.line, fault.problem);
            let cure = match fault.problem.ends_with(REPEATED) {
                true => "remove one of them; older names are treated as the current ones",
                false => "correct the line; a template must be rendered first",
            };
            vec![InputError::new(&self.place, problem, cure)]
        })?;
        let root = &tree.root;
        if root.is_null() {
            return Ok(());
        }
        let (api, kind) = (root.text_at(&["apiVersion"]), root.text_at(&["kind"]));
        self.kind = DocumentKind::Manifest;
        if rules::are_rules(root) {
            self.kind = if kind.is_empty() { DocumentKind::Rules } else { DocumentKind::Manifest };
            self.rename_metrics(line);
            return tree::read(&self.body, line).map_or(Ok(()), |tree| self.report(rules::check(&tree.root)));
        }
        if !embedded(root).is_empty() {
            self.rename_metrics(line);
            return tree::read(&self.body, line).map_or(Ok(()), |tree| self.embedded(&tree.root));
        }
        if api.is_empty() || kind.is_empty() {
            return self.values(tree);
        }
        self.kind = DocumentKind::Manifest;
        self.note_ineffective();
        if kind.ends_with("List") && root.get("items").is_some_and(Node::is_list) {
            self.list(tree);
        } else if is_of_karpenter(api) {
            self.objects.push(Object::new(self.place.clone(), root.clone()));
            self.items.push(None);
            self.tree = Some(tree);
        } else if kind == "ConfigMap" && SETTINGS.contains(&root.text_at(&["metadata", "name"])) {
            let name = root.text_at(&["metadata", "name"]);
            let text = format!("{}: ConfigMap {name}: obsolete; write Helm values under settings", self.place);
            self.remarks.push(Remark { kind: RemarkKind::Lost, text });
        }
        Ok(())
    }

    fn renamed(&mut self, line: usize, hits: &[retired::Hit]) {
        for hit in hits {
            let text = format!("{}: line {}: {} is now {}", self.place, line + hit.line, hit.old, hit.new);
            self.remarks.push(Remark { kind: RemarkKind::Changed, text });
        }
    }

    /// Adds notes about keys without effect in objects that are not of Karpenter's groups.
    fn note_ineffective(&mut self) {
        let file = File { name: self.place.file.clone(), text: self.body.clone() };
        let (values, _) = input::values(&file);
        for (_, value) in values {
            let items = value["items"].as_array().cloned().unwrap_or_else(|| vec![value]);
            for item in items.iter().filter(|item| !is_of_karpenter(item["apiVersion"].as_str().unwrap_or_default())) {
                let kind = item["kind"].as_str().unwrap_or_default();
                let name = item["metadata"]["name"].as_str().unwrap_or_default();
                let texts = input::ineffective_settings(kind, item).into_iter();
                let note = |setting| format!("{}: {kind} {name}: {setting}", self.place);
                let remarks = texts.map(note).map(|text| Remark { kind: RemarkKind::Note, text });
                self.remarks.extend(remarks.collect::<Vec<_>>());
            }
        }
    }

    /// Replaces retired metrics.
    fn rename_metrics(&mut self, line: usize) {
        let found = monitoring::metrics(&self.body);
        self.renamed(line, &found.hits);
        self.body = found.text;
    }

    /// Checks the boards and rules in an object that carries them as texts.
    fn embedded(&mut self, root: &Node) -> Result<(), Vec<InputError>> {
        let mut found = Vec::new();
        for node in embedded(root) {
            let text = node.scalar().unwrap_or_default();
            let first = node.line + usize::from(matches!(node.kind, NodeKind::Scalar(_, Style::Block)));
            match (board::read(text), tree::read(text, first)) {
                (Some(board), _) => self.lose(board::check(&board, text, first)),
                (None, Ok(tree)) => found.extend(rules::check(&tree.root)),
                (None, Err(_)) => {}
            }
        }
        self.report(found)
    }

    /// Returns an error for each rule that can never fire, and reports other findings as lost.
    fn report(&mut self, found: Vec<Placed>) -> Result<(), Vec<InputError>> {
        let (fatal, others): (Vec<Placed>, Vec<Placed>) = found.into_iter().partition(|placed| placed.finding.is_fatal);
        self.lose(others);
        let error = |placed: &Placed| {
            let problem = format!("line {}: {}: {}", placed.line, placed.name, placed.finding.problem);
            InputError::new(&self.place, problem, placed.finding.fix.clone())
        };
        if fatal.is_empty() { Ok(()) } else { Err(fatal.iter().map(error).collect()) }
    }

    /// Reports findings that prevent nothing else.
    fn lose(&mut self, found: Vec<Placed>) {
        for Placed { line, name, finding } in found {
            let text = format!("{}: line {line}: {name}: {}; {}", self.place, finding.problem, finding.fix);
            let remark = Remark { kind: RemarkKind::Lost, text };
            // A label of both a grouping and a legend is one finding.
            if !self.remarks.contains(&remark) {
                self.remarks.push(remark);
            }
        }
    }

    fn values(&mut self, tree: Tree) -> Result<(), Vec<InputError>> {
        if !values::are_values(&tree.root) {
            let problem = format!(
                "line {}: neither a Kubernetes object nor Helm values nor Prometheus rules nor a Grafana board",
                tree.root.line
            );
            let is_group = ["AutoScalingGroups", "nodegroup"].iter().any(|key| tree.root.get(key).is_some());
            let cure = match is_group {
                true => "convert node groups of AWS with `kerf convert --from cluster-autoscaler`",
                false => "add apiVersion and kind, or remove the file",
            };
            return Err(vec![InputError::new(&self.place, problem, cure)]);
        }
        self.kind = DocumentKind::Values;
        self.objects.push(Object { label: String::new(), ..Object::new(self.place.clone(), tree.root.clone()) });
        self.items.push(None);
        self.tree = Some(tree);
        Ok(())
    }

    /// Reads the items of a List that belong to Karpenter's groups. Items of a typed list may omit `apiVersion` and `kind`.
    fn list(&mut self, tree: Tree) {
        let (api, kind) = (tree.root.text_at(&["apiVersion"]), tree.root.text_at(&["kind"]));
        let own = kind.strip_suffix("List").filter(|own| !own.is_empty());
        for (index, entry) in tree.root.get("items").map(Node::items).unwrap_or_default().iter().enumerate() {
            let mut item = entry.value.clone();
            if let Some(own) = own.filter(|_| item.is_map() && is_of_karpenter(api)) {
                for (field, value) in [("apiVersion", api), ("kind", own)] {
                    if item.get(field).is_none() {
                        item.set(field, Node::text(value));
                    }
                }
            }
            if is_of_karpenter(item.text_at(&["apiVersion"])) {
                self.objects.push(Object::new(self.place.item(index + 1), item));
                self.items.push(Some(index));
            }
        }
        self.tree = Some(tree);
    }

    fn is_changed(&self) -> bool {
        self.objects.iter().any(|object| object.edited)
    }

    /// Returns the document's output text; `marked` if a `---` precedes it.
    fn text(&self, marked: bool) -> String {
        let (Some(tree), true) = (&self.tree, self.is_changed()) else { return self.body.clone() };
        let mut tree = tree.clone();
        let mut split_offs = String::new();
        for (object, item) in self.objects.iter().zip(&self.items) {
            match item {
                None => {
                    tree.root = object.root.clone();
                    let more =
                        object.split_offs.iter().map(|it| Tree { root: it.root.clone(), after: Vec::new() }.write());
                    more.for_each(|text| split_offs.push_str(&format!("---\n{text}")));
                }
                Some(index) => {
                    let Some(items) = tree.root.get_mut("items") else { continue };
                    items.items_mut()[*index].value = object.root.clone();
                    object.split_offs.iter().for_each(|it| items.push(Entry::new("", it.root.clone())));
                }
            }
        }
        if !self.items.iter().all(Option::is_none) {
            make_plain_list(&mut tree.root);
        }
        format!("{}{}{split_offs}", if marked { "\n" } else { "" }, tree.write())
    }
}

/// Returns the texts in an object that are boards or rules: values of a ConfigMap, and the JSON of a GrafanaDashboard.
fn embedded(root: &Node) -> Vec<&Node> {
    let texts: Vec<&Node> = match root.text_at(&["kind"]) {
        "ConfigMap" => {
            root.get("data").map(Node::fields).unwrap_or_default().iter().map(|entry| &entry.value).collect()
        }
        "GrafanaDashboard" => root.at(&["spec", "json"]).into_iter().collect(),
        _ => Vec::new(),
    };
    let is_watched = |node: &&Node| {
        let text = node.scalar().unwrap_or_default();
        let has_rules =
            || text.contains("rules:") && tree::read(text, 1).is_ok_and(|tree| rules::are_rules(&tree.root));
        board::read(text).is_some() || has_rules()
    };
    texts.into_iter().filter(is_watched).collect()
}

/// Names of the ConfigMaps that versions before v1beta1 read.
const SETTINGS: [&str; 2] = ["karpenter-global-settings", "config-logging"];

fn is_of_karpenter(api_version: &str) -> bool {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    ["karpenter.sh", "karpenter.k8s.aws"].contains(&group) && api_version != "karpenter.sh/v1alpha1"
}

/// Changes a typed list into a plain List, because its items have another kind after the conversion.
fn make_plain_list(root: &mut Node) {
    if root.text_at(&["kind"]) != "List" {
        root.set("kind", Node::text("List"));
        root.set("apiVersion", Node::text("v1"));
    }
}
