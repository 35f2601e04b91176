//! Test that the published definitions are up to date with the types that generate them. `BLESS=1` writes the files.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::path::{Path, PathBuf};

const HEADER: &str = "# Generated from crates/api by `make bless`; do not edit.\n";

#[test]
fn published_crds_match_the_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../controller/chart/crds");
    let mut stale = Vec::new();
    for (crd, value) in api::crds().iter().zip(api::crds::values()) {
        let path = folder.join(api::crds::file_name(crd));
        let text = render(&value);
        if std::env::var_os("BLESS").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, text).unwrap();
        } else if std::fs::read_to_string(&path).ok().as_ref() != Some(&text) {
            stale.push(path);
        }
    }
    assert_eq!(stale, Vec::<PathBuf>::new(), "stale: run `make bless`");
}

#[test]
fn render_is_deterministic_and_lossless() {
    for value in api::crds::values() {
        let text = render(&value);
        assert_eq!(text, render(&value));
        let read: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read, value);
    }
}

fn render(definition: &serde_json::Value) -> String {
    let yaml = serde_saphyr::to_string(definition).unwrap();
    format!("{HEADER}{yaml}")
}
