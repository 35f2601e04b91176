//! User data that nodeadm and Karpenter accept is accepted with the same meaning. The inputs and the results of their libraries
//! are in `tests/user-data` of the workspace, with the program that makes the results.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machine::mime::{self, Part};
use machine::nodeconfig::{self, NodeConfig};
use machine::userdata::{self, AmiFamily, Bootstrap, NODE_CONFIG_TYPE, RenderError};
use serde::Deserialize;
use serde_json::Value;

/// Cases that nodeadm accepts and Kerf refuses or reads differently, with the reason.
const NODEADM_DIFFERS: [(&str, &str); 2] = [
    ("field-strategy-unknown", "refused before the setup program fails"),
    ("yaml-keys-of-other-types", "a key such as `yes` stays a text"),
];
/// Cases of which Kerf makes other parts than Karpenter, with the reason.
const KARPENTER_DIFFERS: [(&str, &str); 21] = [
    ("mime-other-header-first", "MIME by any header, as nodeadm"),
    ("mime-header-lower-case", "MIME by any header, as nodeadm"),
    ("mime-header-upper-case", "MIME by any header, as nodeadm"),
    ("mime-node-config-in-script-part", "a NodeConfig is never a script"),
    ("mime-part-without-type", "a NodeConfig is never a script"),
    ("mime-header-blank-before-colon", "the name of the header has no blank"),
    ("base64-of-mime", "decoded"),
    ("base64-in-lines", "decoded"),
    ("base64-of-gzip-of-mime", "decoded"),
    ("base64-of-yaml", "decoded"),
    ("base64-with-blank", "decoded"),
    ("yaml-directive-1.2", "a NodeConfig is never a script"),
    ("yaml-infinity", "a NodeConfig is never a script"),
    ("yaml-key-null", "a NodeConfig is never a script"),
    ("json-escapes", "a NodeConfig is never a script"),
    ("script-that-is-a-mapping", "a script by its first line"),
    ("cloud-config", "a format of cloud-init"),
    ("cloud-boothook", "a format of cloud-init"),
    ("include", "a format of cloud-init"),
    ("only-comments", "not a mapping"),
    ("blank", "no user data"),
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    text: String,
    base64: Option<String>,
}

/// Results of the libraries of nodeadm and Karpenter.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Results {
    name: String,
    /// NodeConfigs to merge.
    #[serde(default)]
    nodeadm: Vec<Value>,
    nodeadm_error: Option<String>,
    /// Parts before Karpenter's own.
    #[serde(default)]
    karpenter: Vec<UpstreamPart>,
    karpenter_error: Option<String>,
}

#[derive(Debug, Deserialize)]
struct UpstreamPart {
    r#type: String,
    content: String,
}

impl Case {
    fn data(&self) -> Vec<u8> {
        self.base64.as_ref().map_or_else(|| self.text.clone().into_bytes(), |packed| STANDARD.decode(packed).unwrap())
    }
}

fn cases() -> Vec<(Case, Results)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/user-data");
    let read = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
    let cases: Vec<Case> = serde_saphyr::from_str(&read("cases.yaml")).unwrap();
    let results: Vec<Results> = serde_json::from_str(&read("results.json")).unwrap();
    assert!(cases.len() >= 200);
    assert!(cases.iter().map(|case| &case.name).eq(results.iter().map(|results| &results.name)), "run main.go again");
    cases.into_iter().zip(results).collect()
}

fn reason(table: &'static [(&str, &str)], name: &str) -> Option<&'static str> {
    table.iter().find(|(case, _)| *case == name).map(|(_, reason)| *reason)
}

/// Returns the spec with floats for all numbers, because YAML and JSON write the same number in several ways.
fn spec(config: &NodeConfig) -> Value {
    fn plain(value: Value) -> Value {
        match value {
            Value::Number(number) => Value::from(number.as_f64().unwrap()),
            Value::Array(items) => items.into_iter().map(plain).collect(),
            Value::Object(fields) => fields.into_iter().map(|(key, value)| (key, plain(value))).collect(),
            other => other,
        }
    }
    plain(serde_json::to_value(&config.spec).unwrap())
}

#[test]
fn parse_returns_the_node_config_that_nodeadm_reads() {
    let mut differences = Vec::new();
    for (case, results) in cases() {
        let found = userdata::parse(&case.data());
        if results.nodeadm_error.is_some() {
            continue;
        }
        let mut expected = NodeConfig::new();
        for config in &results.nodeadm {
            expected.merge(nodeconfig::parse(&config.to_string()).map(|parsed| parsed.config).unwrap_or_default());
        }
        let equal = found.as_ref().is_ok_and(|found| spec(&found.config) == spec(&expected));
        if equal == reason(&NODEADM_DIFFERS, &case.name).is_some() {
            differences.push(format!("{}: {found:?}, nodeadm: {}", case.name, spec(&expected)));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn render(data: &[u8]) -> Option<Result<userdata::Document, RenderError>> {
    let text = String::from_utf8(data.to_vec()).ok()?;
    let bootstrap = Bootstrap {
        cluster_name: "shop".to_owned(),
        cluster_cidr: "10.100.0.0/16".to_owned(),
        user_data: Some(text),
        ..Bootstrap::default()
    };
    Some(userdata::render(AmiFamily::Al2023, &bootstrap))
}

/// Returns the user's parts, which stand before the generated one.
fn user_parts(document: &str) -> Vec<Part> {
    let mut parts = mime::parse(document.as_bytes()).unwrap();
    parts.pop();
    parts
}

fn is_same(parts: &[Part], upstream: &[UpstreamPart]) -> bool {
    // Karpenter decodes quoted-printable, and a document has no carriage returns.
    let plain = |content: &[u8]| content.iter().copied().filter(|byte| *byte != b'\r').collect::<Vec<u8>>();
    let same_type = |part: &Part, other: &UpstreamPart| part.header("Content-Type").unwrap_or_default() == other.r#type;
    parts.len() == upstream.len()
        && parts
            .iter()
            .zip(upstream)
            .all(|(part, other)| same_type(part, other) && plain(&part.content()) == plain(other.content.as_bytes()))
}

#[test]
fn render_returns_the_parts_that_karpenter_sends() {
    let mut differences = Vec::new();
    for (case, results) in cases() {
        let Some(found) = render(&case.data()) else { continue };
        if results.karpenter_error.is_some() {
            continue;
        }
        let parts = found.map(|document| user_parts(&document.text));
        let equal = parts.as_ref().is_ok_and(|parts| is_same(parts, &results.karpenter));
        // Karpenter sends what nodeadm refuses.
        let refused = parts.is_err() && results.nodeadm_error.is_some();
        if equal == reason(&KARPENTER_DIFFERS, &case.name).is_some() && !refused {
            differences.push(format!("{}: {parts:?}, Karpenter: {:?}", case.name, results.karpenter));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Returns the NodeConfigs of rendered user data without their encodings.
fn node_configs(parts: &[Part]) -> Vec<String> {
    let configs = parts.iter().filter(|part| part.media_type() == NODE_CONFIG_TYPE);
    configs.map(|part| String::from_utf8_lossy(&part.content()).into_owned()).collect()
}

#[test]
fn render_never_sends_a_node_config_as_a_script() {
    for (case, results) in cases() {
        let Some(Ok(document)) = render(&case.data()) else { continue };
        let parts = user_parts(&document.text);
        for part in parts.iter().filter(|part| part.media_type() == "text/x-shellscript") {
            let content = String::from_utf8_lossy(&part.content()).into_owned();
            assert!(!nodeconfig::is_node_config(&content), "{}: {content}", case.name);
        }
        // What nodeadm follows on a machine of its own is followed behind a class too, or there is a warning.
        let follows = results.nodeadm.iter().any(|config| config.get("spec").is_some());
        let kept = !node_configs(&parts).is_empty() || !document.warnings.is_empty();
        assert!(!follows || kept, "{}: {}", case.name, document.text);
    }
}

/// Returns the warnings of a case, except for those about unknown fields.
fn losses(case: &Case) -> Vec<String> {
    let mut warnings = userdata::parse(&case.data()).unwrap().warnings;
    warnings.retain(|warning| !warning.contains("is not a NodeConfig field"));
    warnings
}

#[test]
fn parse_and_render_report_ignored_content() {
    for (name, expected) in [
        ("yaml-two-documents", "line 7: the document that begins here has no effect"),
        ("yaml-node-config-and-script", "the document that begins here has no effect"),
        ("yaml-node-config-and-broken-text", "the document that begins here has no effect"),
        ("yaml-duplicate-key", "line 3: spec has no effect, because line 6 sets it again"),
        ("yaml-duplicate-nested-key", "spec.kubelet.config.maxPods has no effect, because line 7 sets it again"),
        ("yaml-merge-key-last", "spec.kubelet.config.maxPods has no effect"),
        ("field-disabled-mount-unknown", "spec.instance.localStorage.disabledMounts[0] is `Kubelet`"),
        ("mime-nested", "nested multipart document"),
    ] {
        let (case, _) = cases().into_iter().find(|(case, _)| case.name == name).unwrap();
        let read = losses(&case);
        assert!(read.len() == 1 && read[0].contains(expected), "{name}: {read:?}");
        let rendered: Vec<String> =
            render(&case.data()).unwrap().unwrap().warnings.iter().map(ToString::to_string).collect();
        assert!(rendered.len() == 1 && rendered[0].contains(expected), "{name}: {rendered:?}");
    }
    for name in ["yaml-trailing-separator", "yaml-trailing-separator-and-comment", "yaml-merge-key", "mime-closed"] {
        let (case, _) = cases().into_iter().find(|(case, _)| case.name == name).unwrap();
        assert_eq!(losses(&case), [""; 0], "{name}");
        assert_eq!(render(&case.data()).unwrap().unwrap().warnings, [], "{name}");
    }
}
