//! For any class and NodePool, the instance reads the values that the controller wrote. NodeConfigs are read by the agent's own
//! parser, which merges as nodeadm does, scripts word by word, and settings as TOML.

use std::collections::BTreeMap;

use api::nodeclass::KubeletConfiguration;
use api::{DurationText, Quantity, Taint};
use machine::mime::{self, Part};
use machine::userdata::{AmiFamily, Bootstrap, NODE_CONFIG_TYPE, encode, parse, parse_agent};
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};
use serde_json::{Value, json};
use toml::Table;

use super::support::{document, input};

const AGENT: &str = "units: [kubelet.service]\ngates: {csiDrivers: [ebs.csi.aws.com]}\n";
const SHELL: &str = "text/x-shellscript";

fn names() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zA-Z0-9./:_-]{1,20}", "[ -~]{1,30}", "\\PC{1,12}", "(yes|null|~|1e3|0x10|- a|a: b|'|\"|`)"]
}

fn texts_by_key(value: &'static str) -> impl Strategy<Value = Option<BTreeMap<String, String>>> {
    option::of(prop::collection::btree_map("(cpu|memory|nodefs)(\\.available)?", value, 1..3))
}

fn kubelets() -> impl Strategy<Value = KubeletConfiguration> {
    let quantities = || texts_by_key("[1-9][0-9]{0,2}(m|Mi|Gi)");
    let eviction = || texts_by_key("[1-9]{1,2}(%|Mi)");
    let number = || option::of(1..100_i32);
    let maps = (quantities(), quantities(), eviction(), eviction(), texts_by_key("[1-9]m[1-9]s"));
    let numbers = (number(), number(), number(), number(), option::of(any::<bool>()));
    let dns = option::of(prop::collection::vec("10\\.0\\.0\\.[1-9]", 0..3));
    (maps, numbers, dns).prop_map(|((system, kube, hard, soft, grace), (per_core, longest, high, low, quota), dns)| {
        let quantities = |all: Option<BTreeMap<String, String>>| {
            all.map(|all| all.into_iter().map(|(key, text)| (key, Quantity(text))).collect())
        };
        KubeletConfiguration {
            cluster_dns: dns,
            max_pods: None,
            pods_per_core: per_core,
            system_reserved: quantities(system),
            kube_reserved: quantities(kube),
            eviction_hard: hard,
            eviction_soft: soft,
            eviction_soft_grace_period: grace
                .map(|all| all.into_iter().map(|(key, text)| (key, DurationText(text))).collect()),
            eviction_max_pod_grace_period: longest,
            image_gc_high_threshold_percent: high,
            image_gc_low_threshold_percent: low,
            cpu_cfs_quota: quota,
        }
    })
}

fn inputs() -> impl Strategy<Value = Bootstrap> {
    let labels = prop::collection::btree_map(
        "[a-z]{1,5}(\\.k8s\\.io|\\.io|kubernetes\\.io)?/[a-z]{1,5}",
        "[a-zA-Z0-9._-]{0,8}",
        0..5,
    );
    let taint = ("[a-z./]{1,8}", option::of("[a-z0-9]{0,4}"), prop::sample::select(api::taint::EFFECTS.to_vec()))
        .prop_map(|(key, value, effect)| Taint { value, ..Taint::new(&key, effect) });
    let taints = prop::collection::vec(taint, 0..4);
    (labels, taints, kubelets(), names(), any::<bool>(), option::of(1..500_u32)).prop_map(
        |(labels, taints, kubelet, cluster_name, raid0, max_pods)| Bootstrap {
            cluster_name,
            labels,
            taints,
            kubelet,
            raid0,
            max_pods,
            ..input()
        },
    )
}

/// Generates user data for Amazon Linux, with the number of its kubelet flags that the result must contain.
fn user_parts() -> impl Strategy<Value = (Option<String>, usize)> {
    let config = |flags: usize| {
        let flags: Vec<String> = (0..flags).map(|number| format!("--v={number}")).collect();
        let config = json!({"maxPods": 1, "podPidsLimit": 7, "systemReserved": {"pid": "9"}});
        let spec = json!({"cluster": {"name": "user"}, "kubelet": {"flags": flags, "config": config}});
        json!({"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}).to_string()
    };
    let parts = prop::collection::vec(option::of(0..3_usize), 1..4).prop_map(move |all| {
        let part = |flags: &Option<usize>| match flags {
            Some(flags) => Part::new(NODE_CONFIG_TYPE, config(*flags)),
            None => Part::new(SHELL, "#!/bin/sh\ntrue\n"),
        };
        let document = mime::render(&all.iter().map(part).collect::<Vec<_>>()).unwrap();
        (Some(String::from_utf8(document).unwrap()), all.into_iter().flatten().sum())
    });
    prop_oneof![
        Just((None, 0)),
        "#!/bin/[ -+/-~\n]{0,40}".prop_map(|script| (Some(script), 0)),
        (0..3_usize).prop_map(move |flags| (Some(config(flags)), flags)),
        parts,
    ]
}

/// Returns the labels that kubelet must set, by Kubernetes' admission rules.
fn expected_labels(input: &Bootstrap) -> BTreeMap<String, String> {
    let mut labels = input.labels.clone();
    labels.insert("karpenter.sh/do-not-sync-taints".to_owned(), "true".to_owned());
    labels.retain(|key, _| {
        let domain = key.split('/').next().unwrap();
        !["k8s.io", "kubernetes.io"].iter().any(|own| domain == *own || domain.ends_with(&format!(".{own}")))
    });
    labels
}

/// Returns the initial taints of the Node, in the format of kubelet's command line.
fn expected_taints(input: &Bootstrap) -> Vec<String> {
    let taint_text = |taint: &Taint| match taint.value.as_deref().unwrap_or_default() {
        "" => format!("{}:{}", taint.key, taint.effect),
        value => format!("{}={value}:{}", taint.key, taint.effect),
    };
    let mut all: Vec<String> = input.taints.iter().map(taint_text).collect();
    all.push("karpenter.sh/unregistered:NoExecute".to_owned());
    all
}

/// Splits a line as POSIX shells do: white space between words, no escapes inside single quotes.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), None::<String>, false);
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '\\' if !quoted => word.get_or_insert_default().extend(characters.next().filter(|next| *next != '\n')),
            ' ' | '\n' if !quoted => words.extend(word.take().filter(|word| !word.is_empty())),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

/// Returns kubelet's arguments by name, without the quotes around lists.
fn arguments(text: &str) -> BTreeMap<&str, &str> {
    let pairs = text.split(" --").map(|argument| argument.trim_start_matches("--").split_once('=').unwrap());
    pairs.map(|(name, value)| (name, value.trim_matches('"'))).collect()
}

fn holds_arguments(text: &str, input: &Bootstrap) {
    let found = arguments(text);
    let labels: Vec<String> = expected_labels(input).iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(found["node-labels"], labels.join(","));
    assert_eq!(found["register-with-taints"], expected_taints(input).join(","));
    assert_eq!(found.get("max-pods").map(|pods| pods.parse().unwrap()), input.max_pods);
    let kubelet = &input.kubelet;
    let reserved = kubelet
        .kube_reserved
        .as_ref()
        .map(|all| all.iter().map(|(key, amount)| format!("{key}={}", amount.0)).collect::<Vec<_>>().join(","));
    assert_eq!(found.get("kube-reserved").map(ToString::to_string), reserved);
    assert_eq!(found.get("cpu-cfs-quota").map(|value| value.parse().unwrap()), kubelet.cpu_cfs_quota);
    assert_eq!(found.get("pods-per-core").map(|value| value.parse().unwrap()), kubelet.pods_per_core);
}

proptest! {
    #[test]
    fn al2023_merges_user_data_below_the_generated_config(
        input in inputs(),
        (user_data, flags) in user_parts(),
    ) {
        let input = Bootstrap { user_data, agent: Some(AGENT.to_owned()), ..input };
        let read = parse(encode(&document(AmiFamily::Al2023, &input).text).as_bytes()).unwrap();
        assert_eq!(read.warnings, Vec::<String>::new());
        assert_eq!(read.agent, machine::agent::parse(AGENT).unwrap());
        let spec = read.config.spec;
        assert_eq!(spec.cluster.name, input.cluster_name);
        assert_eq!(spec.cluster.certificate_authority, input.cluster_ca);
        assert_eq!(spec.instance.local_storage.strategy.is_some(), input.raid0);

        let mut config = spec.kubelet.config;
        let taints: Vec<Taint> = serde_json::from_value(config.remove("registerWithTaints").unwrap()).unwrap();
        assert_eq!(&taints[..input.taints.len()], &input.taints[..]);
        assert_eq!(taints.len(), input.taints.len() + 1);
        let of_user = config.remove("podPidsLimit").is_some();
        match (input.max_pods, config.remove("maxPods")) {
            (Some(ours), found) => assert_eq!(found, Some(json!(ours))),
            (None, found) => assert_eq!(found, of_user.then(|| json!(1))),
        }
        let dns = input.kubelet.cluster_dns.clone().filter(|all| !all.is_empty()).unwrap_or(input.cluster_dns.clone());
        assert_eq!(config.remove("clusterDNS"), Some(json!(dns)));
        if of_user {
            let reserved = config.get_mut("systemReserved").and_then(Value::as_object_mut).unwrap();
            assert_eq!(reserved.remove("pid"), Some(json!("9")), "mappings are merged");
            if reserved.is_empty() {
                config.remove("systemReserved");
            }
        }
        let expected = serde_json::to_value(KubeletConfiguration { cluster_dns: None, ..input.kubelet.clone() }).unwrap();
        assert_eq!(Value::Object(config), expected);

        let (last, users) = spec.kubelet.flags.split_last().unwrap();
        assert_eq!(users.len(), flags);
        let pairs = last.strip_prefix("--node-labels=\"").and_then(|rest| rest.strip_suffix('"')).unwrap();
        let labels = pairs.split(',').map(|pair| pair.split_once('=').unwrap());
        let labels: BTreeMap<String, String> = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        assert_eq!(labels, expected_labels(&input));
    }

    #[test]
    fn al2_calls_its_bootstrap_script_with_all_settings(input in inputs(), (user_data, _) in user_parts()) {
        // A NodeConfig without MIME is left out.
        let is_script = user_data.as_ref().is_some_and(|text| text.starts_with("#!"));
        let parts = user_data.as_ref().and_then(|text| mime::parse(text.as_bytes()).ok());
        let before = parts.map_or(usize::from(is_script), |parts| parts.len());
        let input = Bootstrap { user_data, ..input };
        let text = document(AmiFamily::Al2, &input).text;
        assert_eq!(parse_agent(text.as_bytes()), Ok(None));
        let parts = mime::parse(text.as_bytes()).unwrap();
        assert_eq!(parts.len(), before + 1);
        let script = String::from_utf8(parts.last().unwrap().body.clone()).unwrap();
        let call = script.split_once("/etc/eks/bootstrap.sh ").unwrap().1;
        let words = words(call);
        let after = |flag: &str| words.iter().position(|word| word == flag).map(|at| words[at + 1].as_str());
        assert_eq!(words[0], input.cluster_name);
        assert_eq!(after("--apiserver-endpoint"), Some(&*input.cluster_endpoint));
        assert_eq!(after("--b64-cluster-ca"), Some(&*input.cluster_ca));
        assert_eq!(after("--use-max-pods"), input.max_pods.map(|_| "false"));
        assert_eq!(after("--local-disks"), input.raid0.then_some("raid0"));
        holds_arguments(after("--kubelet-extra-args").unwrap(), &input);
    }

    #[test]
    fn windows_calls_its_bootstrap_script_with_all_settings(input in inputs(), commands in "[ -;=-~]{0,30}") {
        let text = document(AmiFamily::Windows2022, &Bootstrap { user_data: Some(commands.clone()), ..input.clone() }).text;
        let block = text.strip_prefix("<powershell>\n").and_then(|rest| rest.strip_suffix("\n</powershell>\n")).unwrap();
        assert_eq!(block.lines().count(), 2 + usize::from(!commands.trim().is_empty()));
        assert!(commands.trim().is_empty() || block.starts_with(&format!("{commands}\n")));
        // PowerShell doubles a quote inside quotes.
        let quotes = |text: &str| text.replace('\'', "''");
        let call = block.lines().last().unwrap();
        let name = format!(" -EKSClusterName '{}' -APIServerEndpoint '", quotes(&input.cluster_name));
        assert!(call.contains(&name), "{call}");
        let arguments = call.split_once(" -KubeletExtraArgs '").unwrap().1.split_once('\'').unwrap().0;
        holds_arguments(arguments, &input);
    }

    #[test]
    fn bottlerocket_merges_generated_settings_over_user_settings(
        input in inputs(),
        labels in prop::collection::btree_map("(team|rack|[a-z]{1,3}\\.io/[a-z])", "[a-z]{0,4}", 0..3),
        motd in names(),
        agent in option::of(Just(AGENT)),
    ) {
        let mut user = Table::new();
        user.insert("motd".to_owned(), motd.clone().into());
        let kubernetes: Table = [
            ("node-labels".to_owned(), toml::Value::try_from(&labels).unwrap()),
            ("pod-pids-limit".to_owned(), 7.into()),
            ("max-pods".to_owned(), 1.into()),
            ("cpu-cfs-quota-enforced".to_owned(), true.into()),
        ]
        .into_iter()
        .collect();
        user.insert("kubernetes".to_owned(), kubernetes.into());
        let source = "[settings.host-containers.kerf-agent]\nsource = 'example.com/agent:1'\n";
        let user: Table = [("settings".to_owned(), user.into())].into_iter().collect();
        let user_data = Some(format!("{source}{}", machine::tables::pretty(&user)));
        let input = Bootstrap { user_data, agent: agent.map(str::to_owned), ..input };
        let text = document(AmiFamily::Bottlerocket, &input).text;

        assert_eq!(parse_agent(encode(&text).as_bytes()), Ok(agent.map(|agent| machine::agent::parse(agent).unwrap())));
        let whole: Table = text.parse().unwrap();
        let settings = whole["settings"].as_table().unwrap();
        assert_eq!(settings["motd"].as_str(), Some(&*motd));
        assert_eq!(settings["host-containers"]["kerf-agent"]["source"].as_str(), Some("example.com/agent:1"));
        assert_eq!(settings.contains_key("bootstrap-commands"), input.raid0);
        let found = settings["kubernetes"].as_table().unwrap();
        assert_eq!(found["cluster-name"].as_str(), Some(&*input.cluster_name));
        assert_eq!(found["pod-pids-limit"].as_integer(), Some(7));
        assert_eq!(found["max-pods"].as_integer(), Some(input.max_pods.unwrap_or(1).into()));
        assert_eq!(found["cpu-cfs-quota-enforced"].as_bool(), input.kubelet.cpu_cfs_quota.or(Some(true)));
        assert_eq!(found.contains_key("kube-reserved"), input.kubelet.kube_reserved.is_some());
        let mut expected = labels;
        expected.extend(expected_labels(&input));
        let expected: Table = expected.into_iter().map(|(key, value)| (key, value.into())).collect();
        assert_eq!(found["node-labels"].as_table(), Some(&expected));
        let mut taints: Vec<String> = Vec::new();
        for (key, values) in found["node-taints"].as_table().unwrap() {
            let each = values.as_array().unwrap().iter().map(|value| value.as_str().unwrap().split_once(':').unwrap());
            taints.extend(each.map(|(value, effect)| match value {
                "" => format!("{key}:{effect}"),
                value => format!("{key}={value}:{effect}"),
            }));
        }
        let mut expected = expected_taints(&input);
        taints.sort();
        expected.sort();
        assert_eq!(taints, expected);
    }
}
