//! User data in every wrapping that EC2 tooling produces, bad input, and the round trip of what we render.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write as _;

use api::Taint;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use machine::mime::{self, Part};
use machine::userdata::{
    Al2023, LIMIT, NODE_CONFIG_TYPE, UNPACKED_LIMIT, UserData, UserDataError, check_size, encode, parse, render_al2023,
};
use proptest::prelude::{Strategy, any, prop, proptest};
use serde_json::{Value, json};

const HEAD: &str = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n";

fn named(name: &str) -> String {
    format!("{HEAD}spec: {{cluster: {{name: {name}}}, kubelet: {{flags: [--from={name}]}}}}\n")
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn chain(error: &dyn Error) -> String {
    let source = error.source().map(|source| format!(": {}", chain(source)));
    format!("{error}{}", source.unwrap_or_default())
}

#[test]
fn every_wrapping_reads_the_same() {
    let plain = named("one").into_bytes();
    let in_mime = |body: Vec<u8>| mime::render(&[Part::new(NODE_CONFIG_TYPE, body)]).unwrap();
    let expected = parse(&plain).unwrap();
    assert_eq!(expected.config.spec.cluster.name, "one");
    for (what, data) in [
        ("gzip", gzip(&plain)),
        ("base64", STANDARD.encode(&plain).into_bytes()),
        ("base64 of gzip", STANDARD.encode(gzip(&plain)).into_bytes()),
        ("MIME", in_mime(plain.clone())),
        ("MIME with a base64 part", in_mime(STANDARD.encode(&plain).into_bytes())),
        ("MIME with a base64 gzip part", in_mime(STANDARD.encode(gzip(&plain)).into_bytes())),
        ("gzip of MIME", gzip(&in_mime(plain.clone()))),
        ("base64 of gzip of MIME", STANDARD.encode(gzip(&in_mime(plain.clone()))).into_bytes()),
    ] {
        assert_eq!(parse(&data).unwrap(), expected, "{what}");
    }
}

#[test]
fn parts_merge_in_order_and_other_parts_are_left_alone() {
    let document = mime::render(&[
        Part::new(NODE_CONFIG_TYPE, named("one")),
        Part::new("text/x-shellscript", "#!/bin/bash\necho hello\n"),
        Part::new(machine::agent::MEDIA_TYPE, "units: [kubelet.service]\n"),
        Part::new(NODE_CONFIG_TYPE, named("two").replace("flags", "flagz")),
    ]);
    let UserData { config, agent, warnings } = parse(&document.unwrap()).unwrap();
    assert_eq!(config.spec.cluster.name, "two");
    assert_eq!(config.spec.kubelet.flags, ["--from=one"]);
    assert_eq!(agent.units, ["kubelet.service"]);
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].starts_with("MIME part 4 (application/node.eks.aws): line 3: spec.kubelet.flagz"),
        "{warnings:?}"
    );
}

#[test]
fn bad_input_says_what_is_wrong_and_where() {
    let noise: Vec<u8> = (0..LIMIT as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8 | 0x80).collect();
    let mut damaged = gzip(named("one").as_bytes());
    let last = damaged.len() - 12;
    damaged.truncate(last);
    let bomb = gzip(&vec![b' '; UNPACKED_LIMIT + 1]);
    let part = |kind: &str, body: &str| mime::render(&[Part::new("text/plain", "x"), Part::new(kind, body)]).unwrap();
    for (what, data, expected) in [
        ("nothing", Vec::new(), "user data is empty"),
        ("white space", b" \n".to_vec(), "user data is empty"),
        ("noise", noise, "user data is neither text nor gzip nor base64: byte 0"),
        ("damaged gzip", damaged, "user data begins like gzip but cannot be unpacked"),
        ("a bomb", bomb, "user data unpacks to more than"),
        ("a script", b"#!/bin/bash\necho hello\n".to_vec(), "user data cannot be used: this is no mapping of fields"),
        ("another kind", b"apiVersion: v1\nkind: Pod\n".to_vec(), "user data cannot be used: this is v1 Pod"),
        (
            "cut off",
            part("text/plain", "y")[..90].to_vec(),
            "user data begins like MIME but is not readable multipart: the closing line",
        ),
        (
            "no NodeConfig",
            part("text/x-shellscript", "echo"),
            "user data has no application/node.eks.aws part, only text/plain, text/x-shellscript",
        ),
        (
            "wrong type in a part",
            part(NODE_CONFIG_TYPE, &format!("{HEAD}spec: {{kubelet: {{flags: 1}}}}\n")),
            "MIME part 2 (application/node.eks.aws) cannot be used: line 3, column 25, spec.kubelet.flags: expected a list",
        ),
        (
            "unknown agent setting",
            part(machine::agent::MEDIA_TYPE, "unitz: []\n"),
            "MIME part 2 (application/kerf.sh-agent+yaml) cannot be used: line 1",
        ),
    ] {
        let error = chain(&parse(&data).unwrap_err());
        assert!(error.starts_with(expected), "{what}: {error}");
        assert!(!error.contains('\n'), "{what}: {error}");
    }
}

#[test]
fn a_yaml_bomb_is_refused() {
    let mut bomb = format!("{HEAD}a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let refs = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{refs}]\n"));
    }
    assert!(matches!(parse(bomb.as_bytes()), Err(UserDataError::Document { .. })));
}

fn input() -> Al2023 {
    Al2023 {
        cluster_name: "demo".to_owned(),
        cluster_endpoint: "https://127.0.0.1:6443".to_owned(),
        cluster_ca: "aGVsbG8=".to_owned(),
        cluster_cidr: "10.100.0.0/16".to_owned(),
        labels: [
            ("team", "a"),
            ("kubernetes.io/arch", "arm64"),
            ("karpenter.sh/nodepool", "default"),
            ("x.k8s.io/y", "z"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into(),
        taints: vec![Taint { value: Some("gpu".to_owned()), ..Taint::new("dedicated", "NoSchedule") }],
        max_pods: Some(29),
        cluster_dns: vec!["10.100.0.10".to_owned()],
        ..Al2023::default()
    }
}

#[test]
fn the_rendered_document() {
    let text =
        render_al2023(&Al2023 { user_data: Some("#!/bin/bash\r\necho hello\r\n".to_owned()), raid0: true, ..input() });
    let expected = include_str!("al2023.golden");
    assert_eq!(text.unwrap(), expected);
}

#[test]
fn user_content_is_recognised() {
    let mime = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"X\"\n\n--X\nContent-Type: text/cloud-config\nX-Own: 1\n\na: b\n--X--\n";
    for (user_data, types) in [
        (None, vec![]),
        (Some("  \n"), vec![]),
        (Some("#!/bin/bash\n"), vec!["text/x-shellscript"]),
        (Some(&*named("user")), vec![NODE_CONFIG_TYPE]),
        (Some(mime), vec!["text/cloud-config"]),
    ] {
        let text = render_al2023(&Al2023 { user_data: user_data.map(str::to_owned), ..input() }).unwrap();
        let parts = mime::parse(text.as_bytes()).unwrap();
        let found: Vec<String> = parts.iter().map(Part::media_type).collect();
        assert_eq!(found, [types, vec![NODE_CONFIG_TYPE]].concat(), "{user_data:?}");
        assert_eq!(parse(encode(&text).as_bytes()).unwrap().config.spec.cluster.name, "demo", "generated wins");
    }
}

#[test]
fn refusals_name_the_cure() {
    let refused = |input: Al2023| chain(&render_al2023(&input).unwrap_err());
    assert!(refused(Al2023 { cluster_cidr: String::new(), ..input() }).contains("service CIDR is not known"));
    let broken = Some("MIME-Version: 1.0\n\n".to_owned());
    assert!(
        refused(Al2023 { user_data: broken, ..input() })
            .starts_with("spec.userData of the EC2NodeClass begins like MIME")
    );
    let clash = Some("#!/bin/sh\n--//\n".to_owned());
    assert!(refused(Al2023 { user_data: clash, ..input() }).contains("part 1 contains the line `--//`"));
    let long = Some("#".repeat(LIMIT));
    assert!(refused(Al2023 { user_data: long, ..input() }).contains("EC2 takes 16384"));
    assert!(check_size(LIMIT).is_ok() && check_size(LIMIT + 1).is_err());
}

fn texts() -> impl Strategy<Value = String> {
    proptest::prop_oneof![
        "[a-zA-Z0-9./:_-]{1,20}",
        "[ -~]{0,30}",
        "\\PC{0,12}",
        prop::sample::select(vec![
            "yes",
            "no",
            "null",
            "~",
            "1e3",
            "0x10",
            "0o7",
            "-",
            "- a",
            "a: b",
            "# c",
            "",
            " ",
            "2001-01-01",
            "1_000",
            ".inf",
            "a\nb\n",
            "\t"
        ])
        .prop_map(str::to_owned),
    ]
}

fn json_values() -> impl Strategy<Value = Value> {
    let leaf = proptest::prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        texts().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        proptest::prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z0-9./_-]{1,12}", inner, 0..4).prop_map(|fields| json!(fields)),
        ]
    })
}

fn inputs() -> impl Strategy<Value = Al2023> {
    let labels = prop::collection::btree_map(
        "[a-z]{1,5}(\\.k8s\\.io|\\.io|kubernetes\\.io)?/[a-z]{1,5}",
        "[a-zA-Z0-9._-]{0,8}",
        0..5,
    );
    let taint = ("[a-z./]{1,8}", prop::option::of("[a-z0-9]{0,4}"), prop::sample::select(api::taint::EFFECTS.to_vec()))
        .prop_map(|(key, value, effect)| Taint { value, ..Taint::new(&key, effect) });
    let kubelet = prop::collection::btree_map("[a-z][a-zA-Z]{0,10}", json_values(), 0..5);
    let cluster = (texts().prop_filter("a name", |name| !name.is_empty()), any::<bool>(), prop::option::of(0..500_u32));
    (labels, prop::collection::vec(taint, 0..4), kubelet, cluster).prop_map(
        |(labels, taints, kubelet, (name, raid0, max_pods))| Al2023 {
            cluster_name: name,
            labels,
            taints,
            kubelet: kubelet.into_iter().collect(),
            raid0,
            max_pods,
            ..input()
        },
    )
}

proptest! {
    #[test]
    fn the_machine_reads_what_the_controller_wrote(input in inputs()) {
        let text = render_al2023(&input).unwrap();
        let read = parse(encode(&text).as_bytes()).unwrap();
        assert_eq!(read.warnings, Vec::<String>::new());
        let spec = read.config.spec;
        assert_eq!(spec.cluster.name, input.cluster_name);
        assert_eq!(spec.cluster.certificate_authority, input.cluster_ca);
        assert_eq!(spec.instance.local_storage.strategy.is_some(), input.raid0);

        let mut config = spec.kubelet.config;
        let taints: Vec<Taint> = serde_json::from_value(config.remove("registerWithTaints").unwrap()).unwrap();
        assert_eq!(&taints[..input.taints.len()], &input.taints[..]);
        assert!(taints.iter().any(|taint| taint.key == "karpenter.sh/unregistered" && taint.effect == "NoExecute"));
        if let Some(max_pods) = input.max_pods {
            assert_eq!(config.remove("maxPods"), Some(json!(max_pods)));
        }
        assert_eq!(config.remove("clusterDNS"), Some(json!(input.cluster_dns)));
        assert_eq!(config, input.kubelet);

        let [flag] = &spec.kubelet.flags[..] else { unreachable!("one flag") };
        let pairs = flag.strip_prefix("--node-labels=\"").and_then(|rest| rest.strip_suffix('"')).unwrap();
        let labels: BTreeMap<&str, &str> = pairs.split(',').map(|pair| pair.split_once('=').unwrap()).collect();
        assert_eq!(labels.get("karpenter.sh/do-not-sync-taints"), Some(&"true"));
        for (key, value) in &input.labels {
            let domain = key.split('/').next().unwrap();
            let restricted = domain.ends_with(".k8s.io") || domain == "kubernetes.io";
            assert_eq!(labels.get(key.as_str()), (!restricted).then_some(&value.as_str()), "{key}");
        }
    }

    #[test]
    fn noise_never_panics(data in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(&data);
        let _ = parse(&gzip(&data));
    }
}
