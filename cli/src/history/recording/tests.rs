//! Recordings that are written, cut, damaged or continued, and read again.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::read::{Recording, files_of, read};
use super::write::Writer;
use crate::input::Change;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_780_000_000 + second).unwrap()
}

fn pool(name: &str) -> Value {
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "general"});
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": []}}, "weight": 10},
    })
}

fn pod(name: &str, created: i64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "shop", "name": name, "uid": name, "creationTimestamp": at(created).to_string()},
        "spec": {"containers": [{"name": "main"}]}, "status": {"phase": "Pending"},
    })
}

/// Returns the names of the pods of a recording, with their end in seconds.
fn pods(recording: &Recording) -> Vec<(String, Option<i64>)> {
    let seconds = |end: Timestamp| end.as_second() - 1_780_000_000;
    recording.history.pods.iter().map(|pod| (pod.pod.name().to_owned(), pod.leaves.map(seconds))).collect()
}

fn named(name: &str, ends: Option<i64>) -> (String, Option<i64>) {
    (name.to_owned(), ends)
}

fn whole(folder: &Path) -> Recording {
    read(&[folder.to_owned()], &[]).unwrap_or_else(|failure| panic!("{failure}"))
}

/// Returns the error of reading one file with these lines.
fn error(lines: &[&str]) -> String {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.jsonl.gz");
    let mut file = GzEncoder::new(fs::File::create(&path).unwrap(), Compression::fast());
    lines.iter().for_each(|line| writeln!(file, "{line}").unwrap());
    file.finish().unwrap();
    read(&[path], &[]).err().map(|failure| failure.to_string()).unwrap_or_default()
}

#[test]
fn recording_keeps_changes_only() {
    let folder = TempDir::new().unwrap();
    let mut writer = Writer::begin(folder.path(), 1 << 30, at(0), vec![pool("general"), pod("web", 0)]).unwrap();
    writer.set(at(5), pod("web", 0)).unwrap();
    writer.set(at(10), pod("job", 10)).unwrap();
    writer.remove(at(20), &pod("web", 0)).unwrap();
    writer.remove(at(21), &pod("unknown", 0)).unwrap();
    writer.set_all(at(30), "Pod", vec![pod("late", 29)]).unwrap();
    writer.finish(at(40)).unwrap();
    let recording = whole(folder.path());
    assert_eq!((recording.history.begin, recording.history.end), (at(0), at(40)));
    assert_eq!(pods(&recording), [named("web", Some(20)), named("job", Some(30)), named("late", None)]);
    assert!(recording.notes.is_empty());
}

#[test]
fn recording_continues_after_a_pause() {
    let folder = TempDir::new().unwrap();
    let begin = |second, objects| Writer::begin(folder.path(), 1 << 30, at(second), objects).unwrap();
    begin(0, vec![pod("web", 0), pod("old", 0)]).finish(at(60)).unwrap();
    begin(600, vec![pod("web", 0), pod("new", 400)]).finish(at(660)).unwrap();
    let recording = whole(folder.path());
    assert_eq!(pods(&recording), [named("old", Some(600)), named("web", None), named("new", None)]);
    assert_eq!(recording.notes, [format!("nothing was recorded from {} to {}", at(60), at(600))]);
}

#[test]
fn recording_stays_below_its_maximum_size() {
    let folder = TempDir::new().unwrap();
    let most = 64 << 10;
    let mut writer = Writer::begin(folder.path(), most, at(0), Vec::new()).unwrap();
    for second in 1..4_000 {
        // Names that compress badly.
        let name = format!("{:x}", (second as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        writer.set(at(second), pod(&name, second)).unwrap();
        writer.set_all(at(second), "Pod", vec![pod(&name, second)]).unwrap();
        writer.tick(at(second)).unwrap();
    }
    writer.finish(at(4_000)).unwrap();
    let files: Vec<PathBuf> = files_of(folder.path()).unwrap();
    let size: u64 = files.iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert!(files.len() > 2 && size <= most + most / 4, "{} files with {size} bytes", files.len());
    let recording = whole(folder.path());
    assert!(recording.history.begin > at(0) && recording.history.end == at(4_000));
    assert_eq!(pods(&recording).iter().filter(|(_, ends)| ends.is_none()).count(), 1);
}

#[test]
fn recording_that_was_cut_ends_with_its_last_whole_line() {
    let folder = TempDir::new().unwrap();
    let mut writer = Writer::begin(folder.path(), 1 << 30, at(0), vec![pod("web", 0)]).unwrap();
    writer.set(at(10), pod("job", 10)).unwrap();
    writer.tick(at(20)).unwrap();
    writer.set(at(21), pod("lost", 21)).unwrap();
    writer.finish(at(22)).unwrap();
    let path = files_of(folder.path()).unwrap().remove(0);
    let content = fs::read(&path).unwrap();
    fs::write(&path, &content[..content.len() - 40]).unwrap();
    let recording = whole(folder.path());
    assert_eq!(pods(&recording), [named("web", None), named("job", None)]);
    assert!(recording.notes[0].contains("was cut: it ends at"), "{:?}", recording.notes);
}

#[test]
fn read_explains_what_is_wrong_with_a_file() {
    let begin = r#"{"begin":{"version":1,"at":"2026-06-01T00:00:00Z"}}"#;
    let newer = r#"{"begin":{"version":9,"at":"2026-06-01T00:00:00Z"}}"#;
    let wrong = r#"{"set":{"at":"2026-06-01T00:00:00Z","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":7}}}}"#;
    let rows: [(&[&str], &str); 6] = [
        (&[newer], "version 9 of the format, this kerf reads version 1: use a newer kerf"),
        (&[begin], "ends before its first state is complete"),
        (&[begin, "{}"], "a.jsonl.gz, line 2:"),
        (&["apiVersion: v1"], "is it a file of `kerf record`?"),
        (&[begin, wrong], "document 2: Pod default/a: spec.containers"),
        (&[], "the file is empty"),
    ];
    for (lines, expected) in rows {
        let found = error(lines);
        assert!(found.contains(expected), "{lines:?}: {found}");
    }
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("b.jsonl.gz"), "plain text").unwrap();
    let plain = read(&[folder.path().join("b.jsonl.gz")], &[]).err().map(|failure| failure.to_string());
    assert!(plain.is_some_and(|error| error.contains("b.jsonl.gz, line 1:")));
    fs::remove_file(folder.path().join("b.jsonl.gz")).unwrap();
    let none = read(&[folder.path().to_owned()], &[]).err().map(|failure| failure.to_string());
    assert!(none.is_some_and(|error| error.contains("no recording; write one with `kerf record --out DIR`")));
}

#[test]
fn read_changes_every_state_of_an_object() {
    let folder = TempDir::new().unwrap();
    let mut writer = Writer::begin(folder.path(), 1 << 30, at(0), vec![pool("general")]).unwrap();
    let mut later = pool("general");
    later["spec"]["weight"] = json!(20);
    writer.set(at(10), later).unwrap();
    writer.finish(at(20)).unwrap();
    let with = |text: &str| read(&[folder.path().to_owned()], &[Change::parse(text).unwrap()]);
    let recording = with("nodepool.general.spec.weight=1").unwrap_or_else(|failure| panic!("{failure}"));
    let weights: Vec<Option<i32>> = recording
        .history
        .changes
        .iter()
        .filter_map(|(_, change)| match change {
            replay::Change::Objects(objects) => objects.pools.first().map(|pool| pool.spec.weight),
            _ => None,
        })
        .collect();
    assert_eq!(weights, [Some(1)], "the second state is the same with the change");
    assert_eq!(
        recording.changes,
        ["NodePool general: spec.weight is 1, was 10", "NodePool general: spec.weight is 1, was 20"]
    );
    let missing = with("nodepool.genral.spec.weight=1").err().map(|failure| failure.to_string());
    assert!(missing.is_some_and(|error| error.contains("no NodePool of this name; the input has general")));
}
