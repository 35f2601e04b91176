//! Tests of the Bottlerocket settings in this repository against the documented settings model.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ship::root;
use toml::{Table, Value};

/// Settings of a host container in the model, with their types.
/// <https://bottlerocket.dev/en/os/latest/api/settings/host-containers/>
const HOST_CONTAINER: [(&str, Kind); 5] = [
    ("source", Kind::Url),
    ("enabled", Kind::Flag),
    ("superpowered", Kind::Flag),
    ("user-data", Kind::Base64),
    ("command", Kind::Words),
];
/// Settings without which no host container starts.
const NEEDED: [&str; 3] = ["source", "enabled", "superpowered"];

#[derive(Clone, Copy, Debug)]
enum Kind {
    Url,
    Flag,
    Base64,
    Words,
}

impl Kind {
    fn takes(self, value: &Value) -> bool {
        match self {
            Self::Url => value.as_str().is_some_and(|text| text.contains('/') && !text.contains(char::is_whitespace)),
            Self::Flag => value.is_bool(),
            Self::Base64 => value.as_str().is_some_and(|text| STANDARD.decode(text).is_ok()),
            Self::Words => value.as_array().is_some_and(|words| words.iter().all(Value::is_str)),
        }
    }
}

/// Returns everything in a document that is no setting, or not of its type; empty for a valid document.
fn faults(document: &str) -> Vec<String> {
    let parsed: Table = match document.parse() {
        Ok(parsed) => parsed,
        Err(error) => return vec![error.to_string()],
    };
    let mut found: Vec<String> = parsed.keys().filter(|key| *key != "settings").cloned().collect();
    let containers = parsed.get("settings").and_then(|settings| settings.get("host-containers"));
    let Some(containers) = containers.and_then(Value::as_table) else { return vec!["no host container".to_owned()] };
    for (name, container) in containers {
        let container = container.as_table().unwrap();
        found.extend(
            NEEDED.iter().filter(|key| !container.contains_key(**key)).map(|key| format!("{name} lacks {key}")),
        );
        for (key, value) in container {
            let kind = HOST_CONTAINER.iter().find(|(known, _)| known == key).map(|(_, kind)| *kind);
            if !kind.is_some_and(|kind| kind.takes(value)) {
                found.push(format!("{name}.{key} = {value}"));
            }
        }
    }
    found
}

#[test]
fn bottlerocket_settings_are_valid_in_file_and_document() {
    let file = fs::read_to_string(root().join("packer/bottlerocket/kerf-agent.toml")).unwrap();
    assert_eq!(faults(&file), Vec::<String>::new());
    let document = fs::read_to_string(root().join("docs/bottlerocket.md")).unwrap();
    let blocks: Vec<&str> = document.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!blocks.is_empty());
    for block in blocks {
        assert_eq!(faults(block), Vec::<String>::new(), "{block}");
    }
}

#[test]
fn faults_lists_each_setting_when_the_document_is_invalid() {
    let row = |text: &str| faults(&format!("[settings.host-containers.kerf-agent]\n{text}"));
    let whole = "source = 'example.com/a:1'\nenabled = true\nsuperpowered = true\n";
    assert_eq!(row(whole), Vec::<String>::new());
    assert_eq!(row("source = 'example.com/a:1'\nenabled = true"), ["kerf-agent lacks superpowered"]);
    for wrong in ["user-data = 'mode: observe'", "userdata = 'eA=='", "command = 'run'"] {
        assert_eq!(row(&format!("{whole}{wrong}")).len(), 1, "{wrong}");
    }
    assert_eq!(faults(&format!("other = 1\n[settings.host-containers.a]\n{whole}")), ["other"]);
}

#[test]
fn bottlerocket_user_data_sets_mode_observe() {
    let file: Table = fs::read_to_string(root().join("packer/bottlerocket/kerf-agent.toml")).unwrap().parse().unwrap();
    let text = file["settings"]["host-containers"]["kerf-agent"]["user-data"].as_str().unwrap();
    assert_eq!(String::from_utf8(STANDARD.decode(text).unwrap()).unwrap(), "mode: observe\n");
}
