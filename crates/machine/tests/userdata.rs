//! User data in every encoding that EC2 tools produce, and invalid input.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::error::Error;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use machine::mime::{self, Part};
use machine::userdata::{LIMIT, NODE_CONFIG_TYPE, UNPACKED_LIMIT, UserData, UserDataError, parse};
use proptest::prelude::{any, prop, proptest};

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
fn parse_reads_the_same_from_every_encoding() {
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
fn parse_merges_parts_in_order_and_ignores_other_parts() {
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
fn parse_reports_problem_and_place_when_input_is_invalid() {
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
        ("damaged gzip", damaged, "user data is invalid gzip"),
        ("a bomb", bomb, "user data unpacks to more than"),
        ("a script", b"#!/bin/bash\necho hello\n".to_vec(), "cannot use user data: this is no mapping of fields"),
        ("another kind", b"apiVersion: v1\nkind: Pod\n".to_vec(), "cannot use user data: this is v1 Pod"),
        ("cut off", part("text/plain", "y")[..90].to_vec(), "user data is invalid MIME multipart: the closing line"),
        (
            "no NodeConfig",
            part("text/x-shellscript", "echo"),
            "user data has no application/node.eks.aws part, only text/plain, text/x-shellscript",
        ),
        (
            "wrong type in a part",
            part(NODE_CONFIG_TYPE, &format!("{HEAD}spec: {{kubelet: {{flags: 1}}}}\n")),
            "cannot use MIME part 2 (application/node.eks.aws): line 3, column 25, spec.kubelet.flags: expected a list",
        ),
        (
            "unknown agent setting",
            part(machine::agent::MEDIA_TYPE, "unitz: []\n"),
            "cannot use MIME part 2 (application/kerf.sh-agent+yaml): line 1",
        ),
    ] {
        let error = chain(&parse(&data).unwrap_err());
        assert!(error.starts_with(expected), "{what}: {error}");
        assert!(!error.contains('\n'), "{what}: {error}");
    }
}

#[test]
fn parse_limits_the_size_of_all_parts_together() {
    let config = named("one");
    let large = gzip(format!("{config}# {}\n", "x".repeat(UNPACKED_LIMIT / 2)).as_bytes());
    let document =
        |parts: usize| mime::render(&vec![Part::new(NODE_CONFIG_TYPE, STANDARD.encode(&large)); parts]).unwrap();
    assert_eq!(parse(&document(1)).map(|read| read.config.spec.cluster.name).as_deref(), Ok("one"));
    let error = parse(&document(2)).unwrap_err().to_string();
    assert!(error.starts_with("MIME part 2 (application/node.eks.aws) unpacks to more than"), "{error}");
}

#[test]
fn parse_returns_an_error_when_yaml_aliases_exceed_the_limit() {
    let mut bomb = format!("{HEAD}a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let refs = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{refs}]\n"));
    }
    assert!(matches!(parse(bomb.as_bytes()), Err(UserDataError::Document { .. })));
}

proptest! {
    #[test]
    fn parse_does_not_panic_when_data_is_random(data in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(&data);
        let _ = parse(&gzip(&data));
    }
}
