//! Laws of the merge of NodeConfigs, with random documents. An empty document is the neutral element. A second merge of the
//! same document changes nothing, except for flags, which append. The merge is associative if no field is an object in one
//! document and another type in another. Such a field would replace the first object in one order, and would be replaced itself
//! in the other order.

use machine::nodeconfig::{NodeConfig, merge_json, merge_toml, parse, parse_strict};
use machine::tables;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toml::Table;

/// Generates one of few names, so that documents have common fields.
fn key() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c"]).prop_map(str::to_owned)
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3_i64).prop_map(Value::from),
        prop::sample::select(vec!["", "x", "y"]).prop_map(Value::from),
        prop::collection::vec((0..3_i64).prop_map(Value::from), 0..3).prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop::collection::btree_map(key(), inner, 0..3).prop_map(|map| Value::Object(map.into_iter().collect()))
    })
}

fn object() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::btree_map(key(), json(), 0..3).prop_map(|map| map.into_iter().collect())
}

/// Generates a table without nulls, which TOML does not support.
fn table() -> impl Strategy<Value = Table> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(toml::Value::from),
        (0..3_i64).prop_map(toml::Value::from),
        prop::sample::select(vec!["", "x", "y"]).prop_map(toml::Value::from),
    ];
    let value = leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(toml::Value::Array),
            prop::collection::btree_map(key(), inner, 0..3)
                .prop_map(|map| toml::Value::Table(map.into_iter().collect())),
        ]
    });
    prop::collection::btree_map(key(), value, 0..3).prop_map(|map| map.into_iter().collect())
}

/// Renames fields so that objects and other values have different names.
fn distinct_types(fields: Map<String, Value>) -> Map<String, Value> {
    let named = |(key, value)| match value {
        Value::Object(inner) => (format!("object-{key}"), Value::Object(distinct_types(inner))),
        other => (key, other),
    };
    fields.into_iter().map(named).collect()
}

fn distinct_tables(table: Table) -> Table {
    let named = |(key, value)| match value {
        toml::Value::Table(inner) => (format!("table-{key}"), toml::Value::Table(distinct_tables(inner))),
        other => (key, other),
    };
    table.into_iter().map(named).collect()
}

/// Generates NodeConfigs whose free-form parts agree on which fields are objects.
fn agreeing() -> impl Strategy<Value = NodeConfig> {
    config().prop_map(|mut config| {
        config.spec.kubelet.config = distinct_types(config.spec.kubelet.config);
        config.spec.containerd.base_runtime_spec = distinct_types(config.spec.containerd.base_runtime_spec);
        let containerd: Table = config.spec.containerd.config.parse().unwrap_or_default();
        config.spec.containerd.config = tables::pretty(&distinct_tables(containerd));
        config
    })
}

/// Generates a table whose keys and strings need quotes.
fn odd_table() -> impl Strategy<Value = Table> {
    let odd = "[a-c.'\"\\\\ \t\n\u{1}é#=]{0,4}";
    let leaf = prop_oneof![
        any::<bool>().prop_map(toml::Value::from),
        any::<i64>().prop_map(toml::Value::from),
        (-8_i32..8).prop_map(|eighths| toml::Value::from(f64::from(eighths) / 8.0)),
        odd.prop_map(toml::Value::from),
    ];
    let value = leaf.prop_recursive(4, 16, 3, move |inner| {
        let table = prop::collection::btree_map(odd, inner.clone(), 0..3)
            .prop_map(|map| toml::Value::Table(map.into_iter().collect()));
        prop_oneof![
            prop::collection::vec(inner, 0..3).prop_map(toml::Value::Array),
            prop::collection::vec(table.clone(), 0..3).prop_map(toml::Value::Array),
            table,
        ]
    });
    prop::collection::btree_map(odd, value, 0..3).prop_map(|map| map.into_iter().collect())
}

fn text() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "one", "two"]).prop_map(str::to_owned)
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(text(), 0..3)
}

prop_compose! {
    fn config()(
        (name, outpost, gates) in (text(), prop::option::of(any::<bool>()), prop::collection::btree_map(key(), any::<bool>(), 0..3)),
        (kubelet, flags, expression) in (object(), texts(), text()),
        (containerd, spec) in (table(), object()),
        (domains, variables) in (texts(), prop::collection::btree_map(key(), prop::collection::btree_map(key(), text(), 0..3), 0..3)),
    ) -> NodeConfig {
        let mut config = NodeConfig::new();
        config.spec.cluster.name = name;
        config.spec.cluster.enable_outpost = outpost;
        config.spec.feature_gates = gates;
        config.spec.kubelet.config = kubelet;
        config.spec.kubelet.flags = flags;
        config.spec.kubelet.max_pods_expression = expression;
        config.spec.containerd.config = tables::pretty(&containerd);
        config.spec.containerd.base_runtime_spec = spec;
        config.spec.instance.network.domains = domains;
        config.spec.instance.environment = variables;
        config
    }
}

fn merged(first: &NodeConfig, later: &NodeConfig) -> NodeConfig {
    let mut first = first.clone();
    first.merge(later.clone());
    first
}

proptest! {
    #[test]
    fn merge_is_associative_when_fields_agree_on_types(one in agreeing(), two in agreeing(), three in agreeing()) {
        prop_assert_eq!(merged(&merged(&one, &two), &three), merged(&one, &merged(&two, &three)));
    }

    #[test]
    fn merge_with_an_empty_document_changes_nothing(one in config()) {
        prop_assert_eq!(&merged(&one, &NodeConfig::new()), &one);
        prop_assert_eq!(&merged(&NodeConfig::new(), &one), &one);
    }

    #[test]
    fn merge_is_idempotent_except_for_flags(one in config(), two in config()) {
        let once = merged(&one, &two);
        let mut twice = merged(&once, &two);
        let appended = [one.spec.kubelet.flags, two.spec.kubelet.flags.clone(), two.spec.kubelet.flags].concat();
        prop_assert_eq!(&twice.spec.kubelet.flags, &appended);
        twice.spec.kubelet.flags.clone_from(&once.spec.kubelet.flags);
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn parse_reads_a_serialized_node_config(one in config()) {
        let text = serde_json::to_string(&one).unwrap();
        let read = parse(&text).unwrap();
        prop_assert_eq!(read.config, one);
    }

    #[test]
    fn pretty_writes_tables_that_parse_into_the_same_value(one in odd_table()) {
        let text = tables::pretty(&one);
        let read: Table = text.parse().map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert_eq!(read, one);
    }

    #[test]
    fn merge_json_prefers_values_of_the_later_object(one in object(), two in object()) {
        let mut both = one.clone();
        merge_json(&mut both, two.clone());
        check_json(&both, &one, &two)?;
    }

    #[test]
    fn merge_toml_gives_the_same_result_as_merge_json(one in table(), two in table()) {
        let as_json = |table: &Table| match serde_json::to_value(table) {
            Ok(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        let (mut by_toml, mut by_json) = (one.clone(), as_json(&one));
        merge_toml(&mut by_toml, two.clone());
        merge_json(&mut by_json, as_json(&two));
        prop_assert_eq!(as_json(&by_toml), by_json);
    }
}

/// Asserts the origin of every key of both objects, independently of the merge.
fn check_json(
    both: &Map<String, Value>,
    one: &Map<String, Value>,
    two: &Map<String, Value>,
) -> Result<(), TestCaseError> {
    for key in one.keys().chain(two.keys()) {
        match (one.get(key), two.get(key)) {
            (Some(Value::Object(one)), Some(Value::Object(two))) => match both.get(key) {
                Some(Value::Object(both)) => check_json(both, one, two)?,
                other => prop_assert!(false, "{} is {:?}", key, other),
            },
            (_, Some(later)) => prop_assert_eq!(both.get(key), Some(later)),
            (first, None) => prop_assert_eq!(both.get(key), first),
        }
    }
    prop_assert!(both.keys().all(|key| one.contains_key(key) || two.contains_key(key)));
    Ok(())
}

const HEAD: &str = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n";

#[test]
fn merge_prefers_the_user_over_an_orchestrator() {
    let orchestrator = "spec:
  cluster: {name: my-cluster, apiServerEndpoint: https://example.com, certificateAuthority: YQ==, cidr: 10.100.0.0/16}
  containerd:
    config: |
      version = 2
      [plugins.'io.containerd.grpc.v1.cri'.containerd]
      discard_unpacked_layers = true
  kubelet:
    config: {maxPods: 110, registerWithTaints: [{key: a, effect: NoSchedule}], evictionHard: {memory.available: 5%}}
    flags: [--node-labels=example.com/orchestrator=yes]
";
    let user = "spec:
  containerd:
    config: |
      [plugins.'io.containerd.grpc.v1.cri'.containerd]
      snapshotter = 'native'
  kubelet:
    config: {maxPods: 0, registerWithTaints: [], evictionHard: {nodefs.available: 9%}}
    flags: [--node-labels=example.com/user=yes]
";
    let mut config = parse(&format!("{HEAD}{orchestrator}")).unwrap().config;
    config.merge(parse(&format!("{HEAD}{user}")).unwrap().config);
    assert_eq!(
        config.spec.kubelet.flags,
        ["--node-labels=example.com/orchestrator=yes", "--node-labels=example.com/user=yes"]
    );
    let expected = json!({
        "maxPods": 0, "registerWithTaints": [], "evictionHard": {"memory.available": "5%", "nodefs.available": "9%"},
    });
    assert_eq!(Value::Object(config.spec.kubelet.config), expected);
    let toml: Table = config.spec.containerd.config.parse().unwrap();
    let cri = &toml["plugins"]["io.containerd.grpc.v1.cri"]["containerd"];
    assert_eq!(toml["version"].as_integer(), Some(2));
    assert_eq!(cri["discard_unpacked_layers"].as_bool(), Some(true));
    assert_eq!(cri["snapshotter"].as_str(), Some("native"));
}

#[test]
fn parse_reports_both_lines_when_containerd_config_is_invalid() {
    let text = format!("{HEAD}spec:\n  containerd:\n    config: |\n      version = 2\n      [grpc\n");
    let error = parse(&text).unwrap_err().to_string();
    assert!(error.starts_with("line 5, spec.containerd.config: invalid TOML in line 2: "), "{error}");
}

#[test]
fn parse_strict_returns_an_error_when_a_field_is_unknown() {
    for (field, expected) in [
        (
            "spec:\n  kubelet:\n    flag: []\n",
            "line 5: spec.kubelet.flag is not a NodeConfig field and has no effect; write flags",
        ),
        ("spec:\n  Cluster: {}\n", "line 4: spec.Cluster is not a NodeConfig field and has no effect; write cluster"),
        (
            "spec:\n  cluster:\n    apiEndpoint: x\n",
            "line 5: spec.cluster.apiEndpoint is not a NodeConfig field and has no effect; fields here are name, ",
        ),
        (
            "spec:\n  featureGates: {InstanceIDNodeName: true}\n",
            "line 4: spec.featureGates.InstanceIDNodeName is not a NodeConfig field and has no effect; write InstanceIdNodeName",
        ),
    ] {
        let text = format!("{HEAD}{field}");
        let error = parse_strict(&text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
        assert_eq!(parse(&text).unwrap().warnings, [error]);
    }
    let good = format!("{HEAD}spec:\n  kubelet: {{config: {{anything: goes}}}}\n");
    assert_eq!(parse_strict(&good).unwrap(), parse(&good).unwrap().config);
}

#[test]
fn parse_reports_the_field_when_an_enum_value_is_unknown() {
    let storage = |fields: &str| format!("{HEAD}spec:\n  instance: {{localStorage: {{{fields}}}}}\n");
    let error = parse(&storage("strategy: RAID5")).unwrap_err().to_string();
    assert!(error.starts_with("line 4, column 39, spec.instance.localStorage.strategy: unknown strategy"), "{error}");
    let parsed = parse(&storage("strategy: raid10, disabledMounts: [Soci, SOCI]")).unwrap();
    let known = parse(&storage("strategy: RAID10, disabledMounts: [SOCI]")).unwrap();
    assert_eq!(parsed.config, known.config);
    let expected = "line 4: spec.instance.localStorage.disabledMounts[0] is `Soci`, which has no effect; write one of \
                    Containerd, PodLogs, SOCI";
    assert_eq!((parsed.warnings, known.warnings), (vec![expected.to_owned()], Vec::new()));
}

#[test]
fn merge_replaces_volumes_and_nulls_are_defaults() {
    let instance = |fields: &str| parse(&format!("{HEAD}spec:\n  instance: {{{fields}}}\n")).unwrap().config;
    let mut sum =
        instance("storage: {volumes: [{device: /dev/xvdb, mountTarget: /a}, {device: /dev/xvdc, mountTarget: /b}]}");
    sum.merge(instance("storage: {volumes: }, environment: {default: {A: , B: c}, kubelet: }"));
    assert_eq!(sum.spec.instance.storage.volumes.len(), 2);
    let volumes = "storage: {volumes: [{device: /dev/xvdd, mountTarget: /c, mountTargets: [/d]}]}";
    sum.merge(instance(volumes));
    let targets: Vec<&str> = sum.spec.instance.storage.volumes.iter().flat_map(|volume| volume.targets()).collect();
    assert_eq!(targets, ["/c", "/d"]);
    assert_eq!(json!(sum.spec.instance.environment), json!({"default": {"A": "", "B": "c"}, "kubelet": {}}));
}

#[test]
fn pretty_writes_sorted_keys_and_table_headers() {
    let table: Table = "
        version = 2
        list = ['a', 1, [true]]
        [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc]
        path = \"it's\"
        [plugins.'io.containerd.grpc.v1.cri']
        empty = ''
        [grpc]
        [[steps]]
        a = 1
        [[steps]]
        b = 2
    "
    .parse()
    .unwrap();
    let expected = "list = ['a', 1, [true]]
version = 2

[grpc]

[plugins]
[plugins.'io.containerd.grpc.v1.cri']
empty = ''

[plugins.'io.containerd.grpc.v1.cri'.containerd]
[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes]
[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc]
path = \"it's\"

[[steps]]
a = 1

[[steps]]
b = 2
";
    assert_eq!(tables::pretty(&table), expected);
}
