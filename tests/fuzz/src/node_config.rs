//! NodeConfigs, and the plans of bootstrap for them.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use agent::aws::imds::IdentityDocument;
use agent::bootstrap::facts::{Facts, Hardware, Software};
use agent::bootstrap::plan::credentials::DEFAULT_PROVIDER;
use agent::bootstrap::plan::environment::MANAGER_DROP_IN;
use agent::bootstrap::plan::{BootstrapPlan, PlannedFile, plan};
use agent::host::{ContainerdVersion, KubeletVersion};
use machine::agent::AgentSettings;
use machine::nodeconfig::{self, NodeConfig, NodeConfigError};
use machine::userdata::UserData;
use serde::Serialize;

use crate::ParseResult;
use crate::sentence;

pub(crate) fn check(bytes: &[u8]) -> ParseResult {
    let Ok(text) = std::str::from_utf8(bytes) else { return ParseResult::Refused("no text".to_owned()) };
    let strict = nodeconfig::parse_strict(text);
    match nodeconfig::parse(text) {
        Ok(read) => {
            read.warnings.iter().for_each(|warning| sentence::hold(warning));
            assert_eq!(strict.is_ok(), read.warnings.is_empty(), "only ignored content makes a difference: {strict:?}");
            survives(&read.config);
            followed(&read.config)
        }
        Err(error) => {
            assert_eq!(strict, Err(error.clone()), "who is strict finds no other error first");
            named(&error, text);
            sentence::refused(&error)
        }
    }
}

/// Asserts that a config is unchanged after writing and reading, and after a merge into an empty config.
fn survives(config: &NodeConfig) {
    for text in [yaml(config), json(config)] {
        let again = nodeconfig::parse(&text).map(|read| read.config);
        assert_eq!(again.as_ref(), Ok(config), "{text}");
    }
    let mut sum = NodeConfig::new();
    sum.merge(config.clone());
    assert_eq!(&sum, config);
}

/// Asserts that an error names a position in this document, or a field.
fn named(error: &NodeConfigError, text: &str) {
    // YAML ends lines at a carriage return too.
    let lines = text.split(['\n', '\r']).count() as u64;
    match error {
        NodeConfigError::Unreadable { line, column, .. } => assert!((1..=lines).contains(line) && *column > 0),
        NodeConfigError::UnknownField { line, .. }
        | NodeConfigError::UnknownValue { line, .. }
        | NodeConfigError::Repeated { line, .. }
        | NodeConfigError::LaterDocument { line }
        | NodeConfigError::NotToml { line, .. } => {
            assert!((1..=lines).contains(line));
        }
        NodeConfigError::Missing { field, .. } | NodeConfigError::Invalid { field, .. } => {
            assert!(field.starts_with("spec."));
        }
        NodeConfigError::WrongKind { .. } => {}
    }
}

/// Plans the bootstrap on a current machine and on an old one.
fn followed(config: &NodeConfig) -> ParseResult {
    let mut result = ParseResult::Accepted;
    for facts in [today(config), long_ago(config)] {
        match plan(&facts) {
            Ok(planned) => {
                assert_eq!(plan(&facts).as_ref(), Ok(&planned), "the same facts, the same plan");
                sound(&planned, config);
            }
            Err(error) => {
                named(&error, "");
                result = sentence::refused(&error);
            }
        }
    }
    result
}

/// Asserts that a plan is valid: its files are in permitted places, and each has the syntax of its format.
fn sound(plan: &BootstrapPlan, config: &NodeConfig) {
    let paths: BTreeSet<&str> = plan.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths.len(), plan.files.len(), "no path twice");
    plan.warnings.iter().for_each(|warning| sentence::hold(warning));
    for file in &plan.files {
        assert!(file.path.starts_with('/') && !file.path.split('/').any(|part| part == ".."), "{}", file.path);
        assert!(file.path.len() < 512 && !file.path.contains(char::is_control), "{}", file.path);
        in_its_syntax(file, config);
    }
}

fn in_its_syntax(file: &PlannedFile, config: &NodeConfig) {
    let text = String::from_utf8_lossy(&file.content);
    let path = file.path.as_str();
    if path.ends_with(".json") || path.ends_with(".conf") && path.contains(".json.d/") {
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{path}: {text}");
    } else if path.ends_with(".toml") {
        assert!(text.parse::<toml::Table>().is_ok(), "{path}: {text}");
    } else if path.ends_with("kubeconfig") {
        let read: Result<serde_json::Value, _> = serde_saphyr::from_str(&text);
        let server = read.map(|read| read["clusters"][0]["cluster"]["server"].clone());
        assert_eq!(server.ok().as_ref().and_then(|it| it.as_str()), Some(&*config.spec.cluster.api_server_endpoint));
    } else if path.starts_with("/etc/systemd/") || path == MANAGER_DROP_IN {
        one_entry_a_line(path, &text, |line| line.starts_with('[') || line.contains('='));
    } else if path.starts_with("/run/systemd/") {
        one_entry_a_line(path, &text, |line| {
            line == "[Resolve]" || line.starts_with("DNS=") || line.starts_with("Domains=")
        });
    } else if path == "/etc/eks/kubelet/environment" {
        one_entry_a_line(path, &text, |line| {
            line.starts_with("NODEADM_KUBELET_ARGS=\"") || line.starts_with("KUBELET_")
        });
    }
}

/// Asserts that no value reaches into the next line, where it would be a setting.
fn one_entry_a_line(path: &str, text: &str, is_entry: impl Fn(&str) -> bool) {
    let lines: Vec<&str> = text.trim_end_matches('\n').split('\n').collect();
    assert!(lines.iter().all(|line| is_entry(line) && !line.contains(char::is_control)), "{path}: {text:?}");
}

/// Returns the facts of a current machine with a GPU.
fn today(config: &NodeConfig) -> Facts {
    Facts {
        identity: IdentityDocument {
            instance_id: "i-1234567890abcdef0".to_owned(),
            instance_type: "g5.xlarge".to_owned(),
            region: "us-west-2".to_owned(),
            availability_zone: "us-west-2f".to_owned(),
        },
        hostname: "ip-172-16-34-43.us-west-2.compute.internal".to_owned(),
        node_ip: "172.16.34.43".to_owned(),
        interface_limits: None,
        api_addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        hardware: Hardware { cpus: 4, memory_bytes: 16 << 30, nvidia: true },
        software: Software {
            kubelet: KubeletVersion { major: 1, minor: 36 },
            containerd: Some(ContainerdVersion { major: 2, minor: 4 }),
            nvidia_runtime: true,
            client_certificate: false,
            sandbox_archive: true,
            credential_provider: Some(DEFAULT_PROVIDER.to_owned()),
            hosts: "127.0.0.1 localhost\n".to_owned(),
        },
        user_data: UserData { config: config.clone(), agent: AgentSettings::default(), warnings: Vec::new() },
    }
}

/// Returns the facts of an old machine of an unknown instance type.
fn long_ago(config: &NodeConfig) -> Facts {
    let now = today(config);
    Facts {
        identity: IdentityDocument { instance_type: "x9.huge".to_owned(), ..now.identity },
        hardware: Hardware { cpus: 1, memory_bytes: 1 << 30, nvidia: false },
        software: Software {
            kubelet: KubeletVersion { major: 1, minor: 27 },
            containerd: Some(ContainerdVersion { major: 1, minor: 7 }),
            nvidia_runtime: false,
            client_certificate: true,
            credential_provider: None,
            ..now.software
        },
        ..now
    }
}

/// Returns YAML as the controller and `config dump` write it.
pub(crate) fn yaml(value: &impl Serialize) -> String {
    serde_saphyr::to_string(value).unwrap_or_else(|error| unreachable!("what was read can be written: {error}"))
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| unreachable!("what was read can be written: {error}"))
}
