//! Folders of input and expected files. Each case has a folder, and each of its scenarios has a folder below. A scenario
//! consists of `case.yaml` (the machine, and expectations other than files), `config.yaml` or `user-data`, and `expected/`.
//! JSON is compared by value, every other file by bytes. `BLESS=1` overwrites the existing expected files with the result:
//! review the difference.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use agent::bootstrap::BootstrapPlan;
use agent::bootstrap::plan::plan;
use serde::Deserialize;
use serde_json::Value;

use super::facts::Machine;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Case {
    /// Subject of the case.
    about: String,
    /// Differences of the machine from the default one.
    #[serde(default)]
    facts: Machine,
    /// Sibling scenario whose expected files apply here too.
    same_as: Option<String>,
    /// Expected files that must match byte by byte although their format is free.
    #[serde(default)]
    bytes: Vec<String>,
    /// Paths that the plan must not write.
    #[serde(default)]
    not_written: Vec<String>,
    /// Requirement that the plan writes only the expected files.
    #[serde(default)]
    whole: bool,
    /// Prefixes of the expected warnings.
    #[serde(default)]
    warnings: Vec<String>,
    /// Prefix of the expected error, if there is no plan.
    error: Option<String>,
}

/// Makes one test for each case, and one test that every folder has a case.
macro_rules! cases {
    ($($test:ident: $folder:literal),+ $(,)?) => {
        $(
            #[test]
            fn $test() {
                check_all($folder);
            }
        )+

        #[test]
        fn cases_contains_every_folder() {
            let mut named = vec![$($folder),+];
            named.sort_unstable();
            assert_eq!(folders(&cases()).iter().map(|folder| name(folder)).collect::<Vec<_>>(), named);
        }
    };
}

cases! {
    plan_matches_eks_case_06_base_runtime_spec: "containerd-base-runtime-spec",
    plan_matches_eks_case_07_containerd_1: "containerdv1-config",
    plan_matches_eks_case_08_containerd_1_neuron: "containerdv1-runtime-config-neuron",
    plan_matches_eks_case_09_containerd_1_nvidia: "containerdv1-runtime-config-nvidia",
    plan_matches_eks_case_10_containerd_2: "containerdv2-config",
    plan_matches_eks_case_11_containerd_2_neuron: "containerdv2-runtime-config-neuron",
    plan_matches_eks_case_12_containerd_2_nvidia: "containerdv2-runtime-config-nvidia",
    plan_matches_eks_case_13_max_pods_expression: "custom-max-pods-expression",
    plan_matches_eks_case_14_credential_provider: "image-credential-provider",
    plan_matches_eks_case_16_kubeconfig: "kubeconfig",
    plan_matches_eks_case_17_kubeconfig_outpost: "kubeconfig-outpost",
    plan_matches_eks_case_18_kubelet_config_dir: "kubelet-config-dir",
    plan_matches_eks_case_19_new_instance_type: "kubelet-config-new-instance-type",
    plan_matches_eks_case_20_set_empty: "kubelet-config-set-empty",
    plan_matches_eks_case_21_kubelet_flags: "kubelet-flags",
    plan_matches_eks_case_22_kubelet_version: "kubelet-version",
    plan_matches_eks_case_24_mime_merge: "mime-userdata-merge",
    plan_matches_eks_case_25_name_resolution: "network-name-resolution",
    plan_matches_eks_case_26_environment: "nodeadm-environment-config",
    plan_matches_eks_case_28_pod_infra_container: "pod-infra-container",
    plan_matches_expected_files_of_fast_image_pull: "fast-image-pull",
    plan_matches_expected_files_of_our_cases: "ours",
}

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plan/cases")
}

fn folders(of: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = fs::read_dir(of).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders
}

fn name(folder: &Path) -> &str {
    folder.file_name().unwrap().to_str().unwrap()
}

fn check_all(case: &str) {
    for scenario in folders(&cases().join(case)) {
        check(&scenario, &format!("{case}/{}", name(&scenario)));
    }
}

fn check(folder: &Path, what: &str) {
    let text = fs::read_to_string(folder.join("case.yaml")).unwrap();
    let case: Case = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{what}: {error}"));
    let what = format!("{what}: {}", case.about);
    let input = ["config.yaml", "user-data"].iter().find_map(|file| fs::read_to_string(folder.join(file)).ok());
    let facts = case.facts.facts(&input.unwrap());
    match (plan(&facts), &case.error) {
        (Err(error), Some(expected)) => assert!(error.to_string().starts_with(expected), "{what}: {error}"),
        (Err(error), None) => panic!("{what}: {error}"),
        (Ok(_), Some(expected)) => panic!("{what}: there is a plan, expected was: {expected}"),
        (Ok(found), None) => {
            assert_eq!(plan(&facts).unwrap(), found, "{what}: the same facts give another plan");
            check_plan(&case, folder, &found, &what);
        }
    }
}

fn check_plan(case: &Case, folder: &Path, plan: &BootstrapPlan, what: &str) {
    let written: BTreeMap<&str, &[u8]> =
        plan.files.iter().map(|file| (file.path.as_str(), file.content.as_slice())).collect();
    assert_eq!(written.len(), plan.files.len(), "{what}: a path is written twice");
    assert!(plan.files.iter().all(|file| file.mode == 0o644), "{what}: a mode is unusual");
    assert!(plan.absent.iter().all(|path| !written.contains_key(path.as_str())), "{what}: written and removed");

    let expected = folder.join("..").join(case.same_as.as_deref().unwrap_or(name(folder))).join("expected");
    let expected = tree(&expected);
    for (path, (file, content)) in &expected {
        let found = written.get(path.as_str()).unwrap_or_else(|| panic!("{what}: {path} is not written"));
        if std::env::var_os("BLESS").is_some() && case.same_as.is_none() {
            fs::write(file, found).unwrap();
            continue;
        }
        let by_bytes = case.bytes.contains(path);
        assert_eq!(readable(found, by_bytes), readable(content, by_bytes), "{what}: {path}");
    }
    for path in &case.not_written {
        assert!(!written.contains_key(path.as_str()), "{what}: {path} is written");
    }
    if case.whole {
        let paths: Vec<&str> = expected.keys().map(String::as_str).collect();
        assert_eq!(written.keys().copied().collect::<Vec<_>>(), paths, "{what}");
    }
    assert_eq!(plan.warnings.len(), case.warnings.len(), "{what}: {:#?}", plan.warnings);
    for (warning, beginning) in plan.warnings.iter().zip(&case.warnings) {
        assert!(warning.starts_with(beginning), "{what}: {warning}");
    }
}

/// Returns JSON as a value, any other content as text.
fn readable(content: &[u8], by_bytes: bool) -> Result<Value, String> {
    let text = String::from_utf8(content.to_vec()).unwrap();
    if by_bytes {
        return Err(text);
    }
    serde_json::from_str(&text).map_err(|_| text)
}

/// Returns the files below a folder by their paths on the machine.
fn tree(folder: &Path) -> BTreeMap<String, (PathBuf, Vec<u8>)> {
    let mut files = BTreeMap::new();
    let mut left = vec![folder.to_path_buf()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else {
                let on_machine = format!("/{}", path.strip_prefix(folder).unwrap().display());
                let content = fs::read(&path).unwrap();
                files.insert(on_machine, (path, content));
            }
        }
    }
    files
}
