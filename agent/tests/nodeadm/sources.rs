//! Sources of NodeConfigs: every encoding of user data, files and folders; tolerated input and errors.

use agent::nodeadm::chain::{MergedConfig, gather};
use agent::nodeadm::source::Source;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machine::nodeconfig::NodeConfig;

use super::fixture::{Fixture, base64, gzip, mime, node_config};
use crate::imds::Fault;

const CONFIG: &str = "application/node.eks.aws";
const SHELL: &str = "text/x-shellscript; charset=\"us-ascii\"";

async fn read(fixture: &Fixture, sources: &[&str]) -> anyhow::Result<MergedConfig> {
    let sources: Vec<Source> = sources.iter().map(|source| source.parse().unwrap()).collect();
    gather(&sources, &fixture.machine()).await
}

async fn config(fixture: &Fixture, sources: &[&str]) -> NodeConfig {
    read(fixture, sources).await.unwrap().into_config().unwrap()
}

#[tokio::test]
async fn gather_reads_user_data_in_every_encoding() {
    let first = node_config("{cluster: {name: one}, kubelet: {flags: [--a]}}");
    let second = node_config("{cluster: {name: two}, kubelet: {flags: [--b]}}");
    let both = mime(&[(CONFIG, first.as_bytes()), (SHELL, b"#!/bin/sh\nexit 1\n"), (CONFIG, second.as_bytes())]);
    let packed_part = mime(&[(CONFIG, first.as_bytes()), (CONFIG, &gzip(&second))]);
    let coded_part = mime(&[(CONFIG, first.as_bytes()), (CONFIG, &base64(gzip(&second)))]);
    for (packing, user_data) in [
        ("MIME", both.clone()),
        ("gzip of MIME", gzip(&both)),
        ("base64 of MIME", base64(&both)),
        ("base64 of gzip of MIME", base64(gzip(&both))),
        ("a part of gzip", packed_part),
        ("a part of base64 of gzip", coded_part),
    ] {
        let config = config(&Fixture::new(user_data).await, &["imds://user-data"]).await;
        assert_eq!((config.spec.cluster.name.as_str(), config.spec.kubelet.flags.len()), ("two", 2), "{packing}");
    }
    for user_data in [first.clone().into_bytes(), gzip(&first), base64(&first), base64(gzip(&first))] {
        assert_eq!(config(&Fixture::new(user_data).await, &["imds://user-data"]).await.spec.cluster.name, "one");
    }
}

#[tokio::test]
async fn gather_fails_only_when_user_data_is_damaged() {
    let mut damaged = gzip(node_config("{cluster: {name: one}}"));
    damaged.truncate(20);
    for (user_data, reason) in [
        (mime(&[(SHELL, b"#!/bin/sh\n")]), "has no application/node.eks.aws part, only text/x-shellscript"),
        (b"#!/bin/sh\necho hello\n".to_vec(), "this is no mapping of fields"),
        (b"#cloud-config\npackages: []\n".to_vec(), "a document without apiVersion and kind"),
        (b"apiVersion: v1\nkind: NodeConfig\n".to_vec(), "this is v1 NodeConfig"),
        (b"apiVersion: [\n".to_vec(), "line 1"),
        (vec![0xff, 0xfe, 0x00], "neither text nor gzip"),
        (b" \n".to_vec(), "empty"),
        (mime(&[(CONFIG, b"kind: {")]), "cannot use MIME part 1 (application/node.eks.aws): line 1"),
    ] {
        let gathered = read(&Fixture::new(user_data).await, &["imds://user-data"]).await.unwrap();
        assert!(gathered.config.is_none());
        assert!(gathered.nothing.len() == 1 && gathered.nothing[0].contains(reason), "{:?}", gathered.nothing);
    }
    for user_data in [damaged, b"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n--x\n\na\n".to_vec()] {
        let error = read(&Fixture::new(user_data).await, &["imds://user-data"]).await.unwrap_err();
        assert!(error.to_string().starts_with("cannot use imds://user-data"), "{error:#}");
    }
}

#[tokio::test]
async fn gather_reports_absent_user_data_only_after_identity() {
    let fixture = Fixture::new(node_config("{cluster: {name: late}}")).await;
    fixture.imds.fail("user-data", &[Fault::Status(404)]);
    fixture.imds.fail("dynamic/instance-identity/document", &[Fault::Status(404), Fault::Status(503)]);
    assert_eq!(config(&fixture, &["imds://user-data"]).await.spec.cluster.name, "late");
    fixture.imds.remove("user-data");
    let nothing = read(&fixture, &["imds://user-data"]).await.unwrap().nothing;
    assert_eq!(nothing, ["imds://user-data: the instance has no user data"]);
}

#[tokio::test]
async fn gather_merges_documents_of_a_folder_by_name() {
    let fixture = Fixture::new("").await;
    for (name, cluster, flag) in
        [("a.yaml", "a", "1"), ("c.json", "c", "3"), ("b.YML", "b", "2"), (".z.yaml", "z", "4")]
    {
        let text = match name.ends_with("json") {
            true => format!(
                r#"{{"apiVersion":"node.eks.aws/v1alpha1","kind":"NodeConfig","spec":{{"cluster":{{"name":"{cluster}"}},"kubelet":{{"flags":["{flag}"]}}}}}}"#
            ),
            false => node_config(&format!("{{cluster: {{name: {cluster}}}, kubelet: {{flags: ['{flag}']}}}}")),
        };
        fixture.test_host.write(&format!("etc/eks/nodeadm.d/{name}"), &text);
    }
    fixture.test_host.write("etc/eks/nodeadm.d/deeper/d.yaml", &node_config("{cluster: {name: d}}"));
    fixture.test_host.write("etc/eks/nodeadm.d/notes.txt", "not a NodeConfig");
    for source in ["file:///etc/eks/nodeadm.d", "file:///etc/eks/nodeadm.d/"] {
        let spec = config(&fixture, &[source]).await.spec;
        assert_eq!(
            (spec.cluster.name.as_str(), spec.kubelet.flags),
            ("c", ["4", "1", "2", "3"].map(str::to_owned).to_vec())
        );
    }
    let one = config(&fixture, &["file:///etc/eks/nodeadm.d/a.yaml"]).await;
    assert_eq!(one.spec.cluster.name, "a");
}

/// Every case of `tests/user-data` that nodeadm accepts, as a file.
#[tokio::test]
async fn gather_reads_the_same_from_a_file_as_from_user_data() {
    let fixture = Fixture::new("").await;
    for case in user_data_cases() {
        let data = match &case.base64 {
            Some(packed) => STANDARD.decode(packed).unwrap(),
            None => case.text.into_bytes(),
        };
        let Ok(expected) = machine::userdata::parse(&data) else { continue };
        let path = fixture.test_host.root().join("config.yaml");
        std::fs::write(&path, &data).unwrap();
        let gathered = read(&fixture, &["file:///config.yaml"]).await.unwrap();
        assert_eq!(gathered.config, Some(expected.config), "{}", case.name);
        let ends = gathered
            .warnings
            .iter()
            .zip(&expected.warnings)
            .all(|(found, expected)| found.ends_with(expected.trim_start_matches("user data: ")));
        assert!(ends && gathered.warnings.len() == expected.warnings.len(), "{}: {:?}", case.name, gathered.warnings);
    }
}

#[derive(Debug, serde::Deserialize)]
struct UserDataCase {
    name: String,
    #[serde(default)]
    text: String,
    base64: Option<String>,
}

fn user_data_cases() -> Vec<UserDataCase> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/user-data/cases.yaml");
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[tokio::test]
async fn gather_names_the_file_when_it_is_not_a_node_config() {
    let fixture = Fixture::new("").await;
    for (name, text, reason) in [
        ("broken.yaml", "kind: {", "line 1"),
        ("other.yaml", "apiVersion: v1\nkind: Pod\n", "this is v1 Pod"),
        ("typed.yaml", &node_config("{cluster: {name: [a]}}"), "spec.cluster.name"),
    ] {
        fixture.test_host.write(name, text);
        let source = format!("file:///{name}");
        let error = format!("{:#}", read(&fixture, &[&source]).await.unwrap_err());
        assert!(
            error.starts_with(&format!("cannot use {source}")) && error.contains(name) && error.contains(reason),
            "{error}"
        );
    }
    let error = format!("{:#}", read(&fixture, &["file:///nowhere"]).await.unwrap_err());
    assert!(error.contains("nowhere: No such file"), "{error}");
}

#[tokio::test]
async fn gather_prefers_later_sources_and_ignores_empty_ones() {
    let fixture =
        Fixture::new(node_config("{cluster: {name: user-data, cidr: 10.1.0.0/16}, kubelet: {flags: [--u]}}")).await;
    fixture.test_host.write("drop-ins/a.yaml", &node_config("{cluster: {name: folder}, kubelet: {flags: [--f]}}"));
    fixture.test_host.write("empty/readme.md", "");
    fixture.test_host.write("config.yaml", &node_config("{cluster: {name: file}}"));
    let (user_data, file) = ("imds://user-data", "file:///config.yaml");
    let (folder, empty) = ("file:///drop-ins", "file:///empty");
    for (sources, name, flags) in [
        (vec![file, empty], "file", vec![]),
        (vec![folder], "folder", vec!["--f"]),
        (vec![file, folder], "folder", vec!["--f"]),
        (vec![folder, file], "file", vec!["--f"]),
        (vec![user_data, folder], "folder", vec!["--u", "--f"]),
        (vec![empty, user_data], "user-data", vec!["--u"]),
    ] {
        let spec = config(&fixture, &sources).await.spec;
        assert_eq!(
            (spec.cluster.name.as_str(), spec.kubelet.flags),
            (name, flags.iter().map(|flag| (*flag).to_owned()).collect())
        );
    }
    let gathered = read(&fixture, &[user_data, folder]).await.unwrap();
    assert_eq!(gathered.config.unwrap().spec.cluster.cidr, "10.1.0.0/16");
    let none = read(&fixture, &[empty]).await.unwrap().into_config().unwrap_err().to_string();
    assert!(none.contains("file:///empty: ") && none.contains("holds no .yaml"), "{none}");
}
