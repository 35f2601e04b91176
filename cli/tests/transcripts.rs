//! Transcripts of the command: each folder of `cases` contains manifests and `commands`; `transcript.txt` is the reviewed
//! output of the built program. `BLESS=1` rewrites the transcripts.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::path::{Path, PathBuf};

use crate::support::kerf;

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

/// Returns the output of all commands of one case, with their exit codes.
fn transcript(case: &Path) -> String {
    let input = std::fs::read_to_string(case.join("input")).unwrap_or_default();
    let mut text = String::new();
    for line in std::fs::read_to_string(case.join("commands")).unwrap().lines() {
        let words: Vec<&str> = line.split(' ').skip(1).collect();
        let answer = kerf(case, &words, &input, &[]);
        text.push_str(&format!("$ {line}\n{}", answer.stdout));
        answer.stderr.lines().for_each(|line| text.push_str(&format!("! {line}\n")));
        text.push_str(&format!("exit {}\n\n", answer.code));
    }
    text
}

fn check(name: &str) {
    let case = cases().join(name);
    let (found, place) = (transcript(&case), case.join("transcript.txt"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&place, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&place).unwrap_or_default();
    for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "{}, line {}; review with BLESS=1", place.display(), number + 1);
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "{}; review with BLESS=1", place.display());
}

macro_rules! cases {
    ($($name:ident)*) => {
        $(#[test] fn $name() { check(stringify!($name)); })*

        #[test]
        fn cases_list_every_folder() {
            let folders = cases().read_dir().unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
            let mut found: Vec<String> =
                folders.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
            found.sort();
            assert_eq!(found, [$(stringify!($name)),*]);
        }
    };
}

cases! { admission adopt adopt_nodes bound catalogue consolidated convert_alpha convert_beta convert_boards convert_current convert_groups convert_kubelet convert_mistakes convert_refused convert_role convert_rules convert_tags convert_values covered daemon_pods discount disk_gap empty gates good iam ignored interrupted many_pods many_volumes misread moving older opened packed preferences refused replaced split stdin types unplaced unpriced unready userdata volumes warnings windows without_effect wrong }

/// Lines of every table fit 80 columns, and output to a pipe has no colours.
#[test]
fn plan_tables_fit_80_columns_without_colours() {
    let mut tables = 0;
    for case in cases().read_dir().unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        let text = std::fs::read_to_string(case.join("transcript.txt")).unwrap();
        assert!(!text.contains('\u{1b}'), "{}", case.display());
        let answers = text.split("\n\n$ ").map(|answer| answer.trim_start_matches("$ "));
        for answer in answers.filter(|answer| answer.starts_with("kerf plan") && !answer.contains(" -o ")) {
            let lines = answer.lines().skip(1).filter(|line| !line.starts_with("! "));
            lines.for_each(|line| assert!(line.chars().count() <= 80, "{}: {line}", case.display()));
            tables += 1;
        }
    }
    assert!(tables > 10, "{tables}");
}

/// Standard output contains only the document, and an instance can join the cluster with it.
#[test]
fn userdata_prints_a_document_that_the_machine_crate_parses() {
    let case = cases().join("userdata");
    let cluster = [
        ("CLUSTER_NAME", "shop"),
        ("CLUSTER_ENDPOINT", "https://10.0.0.1"),
        ("CLUSTER_CA_BUNDLE", "aGVsbG8="),
        ("CLUSTER_CIDR", "10.100.0.0/16"),
    ];
    let ask = ["userdata", "--class", "al2023.yaml", "--pool", "pool.yaml", "--type", "m5.large", "--base64"];
    let answer = kerf(&case, &ask, "", &cluster);
    assert_eq!((answer.code, answer.stderr.as_str()), (0, ""));
    let read = machine::userdata::parse(answer.stdout.as_bytes()).unwrap();
    read.config.validate().unwrap();
    assert_eq!(read.config.spec.kubelet.config["maxPods"], 29);
    assert_eq!(read.warnings, Vec::<String>::new());
    let both = ["al2023.yaml", "pool.yaml"].map(|name| std::fs::read_to_string(case.join(name)).unwrap()).join("---\n");
    let ask = ["userdata", "--class", "-", "--pool", "-", "--type", "m5.large", "--base64"];
    assert_eq!(kerf(&case, &ask, &both, &cluster).stdout, answer.stdout, "both objects from standard input");
    let help = kerf(&case, &["userdata", "--help"], "", &[]).stdout;
    assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
}
