//! NodeConfig documents: fields, merge rules, and errors with line and field.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use machine::nodeconfig::{NodeConfig, NodeConfigError, is_node_config, merge_json, parse};
use proptest::prelude::{Strategy, any, prop, proptest};
use serde_json::{Map, Value, json};

const HEAD: &str = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n";

fn config(body: &str) -> NodeConfig {
    parse(&format!("{HEAD}{body}")).unwrap().config
}

fn spec(config: &NodeConfig) -> Value {
    serde_json::to_value(&config.spec).unwrap()
}

#[test]
fn parse_reads_the_same_from_yaml_and_json() {
    let yaml = config(
        "spec:\n  cluster: {name: a, enableOutpost: false}\n  kubelet:\n    config:\n      maxPods: 7\n    flags: [--v=2]\n  featureGates: {InstanceIdNodeName: true}\n  containerd:\n",
    );
    let json = parse(
        r#"{"apiVersion":"node.eks.aws/v1alpha1","kind":"NodeConfig","spec":{"cluster":{"name":"a","enableOutpost":false},
        "kubelet":{"config":{"maxPods":7},"flags":["--v=2"]},"featureGates":{"InstanceIdNodeName":true}}}"#,
    );
    assert_eq!(yaml, json.unwrap().config);
    assert!(yaml.gate("InstanceIdNodeName") && !yaml.gate("FastImagePull"));
    assert_eq!(yaml.spec.kubelet.config.get("maxPods"), Some(&json!(7)));
}

#[test]
fn parse_warns_with_the_line_when_a_field_is_unknown() {
    let text = format!(
        "{HEAD}spec:\n  kubelet:\n    flag: [--v=2]\n    config:\n      anything: goes\n  featureGates:\n    InstanceIDNodeName: true\n"
    );
    let warnings = parse(&text).unwrap().warnings;
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].starts_with("line 5: spec.kubelet.flag is not a NodeConfig field"), "{}", warnings[0]);
    assert!(warnings[1].starts_with("line 9: spec.featureGates.InstanceIDNodeName is not"), "{}", warnings[1]);
}

/// Paths of all values below a long key would need gigabytes.
#[test]
fn parse_limits_warnings_when_a_long_key_has_many_values() {
    let key = |indent: usize| format!("? {}\n{}: ", "k".repeat(400_000), " ".repeat(indent));
    let items =
        |count: usize, text: &str| (0..count).map(|number| text.replace('#', &number.to_string())).collect::<String>();
    let config = |text: &str| parse(&format!("{HEAD}spec:\n  kubelet:\n    {text}\n")).unwrap();
    let free = config(&format!("config:\n      {} [{}]", key(6), items(50_000, "{a#: 1},")));
    assert_eq!((free.warnings.len(), free.losses.len()), (0, 0));
    let unknown = config(&format!("{} [{}]\n{}", key(4), items(50_000, "#,"), items(1000, "    x#: 1\n")));
    let repeated = config(&format!("config:\n      {} {{{}}}", key(6), items(50_000, "a: #,")));
    for warnings in [unknown.warnings, repeated.warnings] {
        assert_eq!(warnings.len(), 64);
        assert!(warnings.iter().all(|warning| warning.len() < 300), "{}", warnings[0]);
    }
}

#[test]
fn validate_refuses_an_api_server_without_tls() {
    let at = |endpoint: &str| {
        let cluster =
            format!("{{name: a, apiServerEndpoint: '{endpoint}', certificateAuthority: YQ==, cidr: 10.0.0.0/16}}");
        config(&format!("spec: {{cluster: {cluster}}}\n")).validate().map_err(|error| error.to_string())
    };
    assert_eq!(at("https://a.example"), Ok(()));
    assert_eq!(at("http://127.0.0.1:8080"), Ok(()));
    let error = at("http://a.example").unwrap_err();
    assert!(error.starts_with("spec.cluster.apiServerEndpoint is `http://a.example`; write https://HOST"), "{error}");
}

#[test]
fn parse_reports_line_and_field_when_a_value_is_invalid() {
    for (body, line, field) in [
        ("spec:\n  kubelet:\n    flags: --v=2\n", 5, "spec.kubelet.flags"),
        ("spec:\n  cluster:\n    name: a\n    enableOutpost: maybe\n", 6, "spec.cluster.enableOutpost"),
        ("spec:\n  instance:\n    localStorage:\n      strategy: RAID5\n", 6, "spec.instance.localStorage.strategy"),
        ("spec:\n  kubelet:\n    flags:\n    - a\n    - [b]\n", 7, "spec.kubelet.flags[1]"),
        ("spec:\n  cluster: {\n", 4, ""),
    ] {
        let error = parse(&format!("{HEAD}{body}")).unwrap_err();
        let NodeConfigError::Unreadable { line: found_line, field: found, problem, .. } = &error else {
            unreachable!("{error}");
        };
        assert_eq!((*found_line, found.as_str()), (line, field), "{error}");
        assert!(!problem.is_empty() && !problem.contains('\n'), "{problem:?}");
    }
}

#[test]
fn parse_reports_the_kind_of_other_documents() {
    for (text, expected) in [
        ("apiVersion: v1\nkind: Pod\n", "this is v1 Pod, not a node.eks.aws/v1alpha1 NodeConfig"),
        ("kind: NodeConfig\n", "this is (no apiVersion) NodeConfig, not"),
        ("apiVersion: node.eks.aws/v1beta9\nkind: NodeConfig\n", "this is node.eks.aws/v1beta9 NodeConfig, not"),
        ("a: 1\n", "this is a document without apiVersion and kind, not"),
        ("#!/bin/bash\necho hello\n", "this is no mapping of fields, not"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn merge_follows_the_rules_of_nodeadm() {
    for (what, first, later, merged) in [
        (
            "a value replaces",
            "cluster: {name: a, cidr: x}",
            "cluster: {name: b}",
            json!({"cluster": {"name": "b", "cidr": "x"}}),
        ),
        (
            "zero does not",
            "cluster: {enableOutpost: true, name: a}",
            "cluster: {enableOutpost: false, name: ''}",
            json!({"cluster": {"enableOutpost": true, "name": "a"}}),
        ),
        (
            "flags append",
            "kubelet: {flags: [a, b]}",
            "kubelet: {flags: [a, c]}",
            json!({"kubelet": {"flags": ["a", "b", "a", "c"]}}),
        ),
        (
            "kubelet.config merges deeply, arrays replace, zero overrides",
            "kubelet: {config: {a: {x: 1, y: 2}, list: [1, 2], on: true}}",
            "kubelet: {config: {a: {y: 0, z: {}}, list: [3], on: false}}",
            json!({"kubelet": {"config": {"a": {"x": 1, "y": 0, "z": {}}, "list": [3], "on": false}}}),
        ),
        (
            "baseRuntimeSpec merges likewise",
            "containerd: {baseRuntimeSpec: {process: {a: 1}}, config: version = 2}",
            "containerd: {baseRuntimeSpec: {process: {b: ''}}}",
            json!({"containerd": {"baseRuntimeSpec": {"process": {"a": 1, "b": ""}}, "config": "version = 2"}}),
        ),
        (
            "containerd.config merges deeply as TOML, arrays replace, zero overrides",
            r#"containerd: {config: "version = 2\nlist = [1, 2]\n[grpc]\nuid = 1\naddress = 'a'"}"#,
            r#"containerd: {config: "list = [3]\n[grpc]\nuid = 0\n[debug]\nlevel = 'info'"}"#,
            json!({"containerd": {"config": "list = [3]\nversion = 2\n\n[debug]\nlevel = 'info'\n\n[grpc]\naddress = 'a'\nuid = 0\n"}}),
        ),
        (
            "environment merges by service and variable",
            "instance: {environment: {default: {A: '1', B: '2'}}}",
            "instance: {environment: {default: {B: '3'}, kubelet: {C: '4'}}}",
            json!({"instance": {"environment": {"default": {"A": "1", "B": "3"}, "kubelet": {"C": "4"}}}}),
        ),
        (
            "other lists replace when not empty",
            "instance: {localStorage: {strategy: RAID0, disabledMounts: [SOCI]}, network: {domains: [a]}}",
            "instance: {localStorage: {disabledMounts: [PodLogs]}, network: {domains: []}}",
            json!({"instance": {"localStorage": {"strategy": "RAID0", "disabledMounts": ["PodLogs"]}, "network": {"domains": ["a"]}}}),
        ),
        (
            "gates: false overrides",
            "featureGates: {FastImagePull: true}",
            "featureGates: {FastImagePull: false}",
            json!({"featureGates": {"FastImagePull": false}}),
        ),
    ] {
        let mut config_first = config(&format!("spec: {{{first}}}\n"));
        config_first.merge(config(&format!("spec: {{{later}}}\n")));
        let mut expected = spec(&NodeConfig::new());
        let fill = expected.as_object_mut().unwrap();
        for (key, value) in merged.as_object().unwrap() {
            let base = fill.entry(key).or_insert_with(|| json!({}));
            base.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
        }
        assert_eq!(spec(&config_first), expected, "{what}");
    }
}

#[test]
fn validate_reports_the_field_when_it_is_missing_or_invalid() {
    let full = "name: a, apiServerEndpoint: 'https://a', certificateAuthority: aGVsbG8=, cidr: 10.100.0.0/16";
    let check = |fields: &str| config(&format!("spec: {{cluster: {{{fields}}}}}\n")).validate();
    assert_eq!(check(full), Ok(()));
    for (fields, field) in [
        ("name: a", "spec.cluster.apiServerEndpoint is missing"),
        ("cidr: 10.0.0.0/16", "spec.cluster.name is missing"),
        (&full.replace("aGVsbG8=", "'%%'"), "spec.cluster.certificateAuthority is `%%`"),
        (&full.replace("10.100.0.0/16", "10.100.0.0"), "spec.cluster.cidr is `10.100.0.0`"),
        (&full.replace("/16", "/33"), "spec.cluster.cidr is"),
        (&format!("{full}, enableOutpost: true"), "spec.cluster.id is missing"),
    ] {
        let error = check(fields).unwrap_err().to_string();
        assert!(error.starts_with(field), "{error}");
    }
}

#[test]
fn dns_ip_returns_the_tenth_address_of_the_service_cidr() {
    for (cidr, expected) in [
        ("10.100.0.0/16", "10.100.0.10"),
        ("172.20.0.0/16", "172.20.0.10"),
        ("fc00::/7", "fc00::a"),
        ("fd12:3456:789a::/108", "fd12:3456:789a::a"),
    ] {
        let cluster = config(&format!("spec: {{cluster: {{cidr: '{cidr}'}}}}\n")).spec.cluster;
        assert_eq!(cluster.dns_ip().unwrap().to_string(), expected);
    }
}

fn objects() -> impl Strategy<Value = Map<String, Value>> {
    let leaf = proptest::prop_oneof![
        any::<bool>().prop_map(Value::from),
        (0..9).prop_map(Value::from),
        prop::collection::vec(0..9, 0..3).prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(3, 24, 4, |inner| fields(inner).prop_map(Value::Object));
    fields(value)
}

fn fields(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::btree_map("[a-d]", value, 0..4).prop_map(|fields| fields.into_iter().collect())
}

/// Returns the path and value of every field that is not an object.
fn leaves(object: &Map<String, Value>, path: &str) -> Vec<(String, Value)> {
    let leaf = |(key, value): (&String, &Value)| match value {
        Value::Object(inner) if !inner.is_empty() => leaves(inner, &format!("{path}/{key}")),
        value => vec![(format!("{path}/{key}"), value.clone())],
    };
    object.iter().flat_map(leaf).collect()
}

proptest! {
    #[test]
    fn merge_json_keeps_all_later_values_and_adds_none(base in objects(), later in objects()) {
        let mut merged = base.clone();
        merge_json(&mut merged, later.clone());
        let all = Value::Object(merged.clone());
        for (path, value) in leaves(&later, "") {
            let empty_object = value == json!({});
            assert!(all.pointer(&path) == Some(&value) || empty_object && all.pointer(&path).unwrap().is_object(), "{path}");
        }
        let (base, later) = (Value::Object(base), Value::Object(later.clone()));
        for (path, value) in leaves(&merged, "") {
            assert!([&base, &later].into_iter().any(|side| side.pointer(&path) == Some(&value)), "{path}");
        }
        let mut again = merged.clone();
        merge_json(&mut again, later.as_object().unwrap().clone());
        assert_eq!(again, merged, "merging twice changes nothing");
    }
}

#[test]
fn is_node_config_recognizes_unreadable_documents_but_no_scripts() {
    for (text, expected) in [
        (HEAD.to_owned(), true),
        (HEAD.replace("v1alpha1", "v9"), true),
        (format!("# mine\n---\n{HEAD}spec: [\n"), true),
        (format!("{HEAD}spec: {{{{ .Values.x }}}}\n"), true),
        ("{\"apiVersion\" : \"node.eks.aws/v1alpha1\", \"spec\": [".to_owned(), true),
        (format!("#!/bin/bash\ncat <<EOF\n{HEAD}EOF\n"), false),
        (format!("cat <<EOF\n{HEAD}spec: [\nEOF\n"), false),
        ("apiVersion: v1\nkind: Pod\n".to_owned(), false),
        ("spec: {apiVersion: node.eks.aws/v1alpha1}\n".to_owned(), false),
        ("echo hello\n".to_owned(), false),
    ] {
        assert_eq!(is_node_config(&text), expected, "{text}");
    }
}
