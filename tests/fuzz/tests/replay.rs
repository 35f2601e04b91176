//! Results of fuzzing, without a fuzzer: every file of the corpus, and mutations of them.
//!
//! The prefix of a file name is the expected result: `good-*` is accepted, `bad-*` is refused, and `found-*` once violated an
//! invariant.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use fuzz::{ParseResult, TARGETS, Target};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;

/// Returns the files in the folder of a target, by name.
fn corpus(target: Target) -> BTreeMap<String, Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap())).collect()
}

#[test]
fn check_returns_the_verdict_named_by_each_corpus_file() {
    for target in TARGETS {
        let mut counts = BTreeMap::new();
        for (name, bytes) in corpus(target) {
            let result = (target.check)(&bytes);
            let kind = name.split('-').next().unwrap_or_default().to_owned();
            let fits = match kind.as_str() {
                "good" => result == ParseResult::Accepted,
                "bad" => matches!(result, ParseResult::Refused(_)),
                "found" => true,
                other => panic!("{}/{name}: what is {other}?", target.name),
            };
            assert!(fits, "{}/{name}: {result:?}", target.name);
            *counts.entry(kind).or_insert(0) += 1;
        }
        assert!(counts.contains_key("good") && counts.contains_key("bad"), "{}: {counts:?}", target.name);
    }
}

/// Bytes that are printed readably when they violate an invariant.
struct Input(Vec<u8>);

impl std::fmt::Debug for Input {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}", self.0.escape_ascii())
    }
}

/// Random mutation of a text.
#[derive(Clone, Debug)]
enum Change {
    Cut(Index, u8),
    Put(Index, Vec<u8>),
    Flip(Index, u8),
    /// Inserts a piece of another file of the same corpus.
    Graft(Index, Index, Index, u8),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let place = any::<Index>;
    let words = prop::sample::select(vec![
        "null",
        "\n",
        "\r\n",
        "- ",
        "{",
        "[[",
        "&a ",
        "*a",
        "\"",
        "\\u0000",
        "99999999999999999999",
        "--//\n",
        ": ",
        "é",
    ]);
    let change = prop_oneof![
        (place(), any::<u8>()).prop_map(|(at, length)| Change::Cut(at, length)),
        (place(), words).prop_map(|(at, word)| Change::Put(at, word.as_bytes().to_vec())),
        (place(), prop::collection::vec(any::<u8>(), 1..4)).prop_map(|(at, bytes)| Change::Put(at, bytes)),
        (place(), 1..=255_u8).prop_map(|(at, mask)| Change::Flip(at, mask)),
        (place(), place(), place(), any::<u8>())
            .prop_map(|(at, file, from, length)| Change::Graft(at, file, from, length)),
    ];
    prop::collection::vec(change, 1..6)
}

fn changed(mut bytes: Vec<u8>, changes: &[Change], files: &[Vec<u8>]) -> Vec<u8> {
    for change in changes {
        let at = |index: &Index| index.index(bytes.len() + 1);
        match change {
            Change::Cut(index, length) => {
                let start = at(index);
                let end = bytes.len().min(start + usize::from(*length));
                bytes.drain(start..end);
            }
            Change::Put(index, more) => drop(bytes.splice(at(index)..at(index), more.iter().copied())),
            Change::Flip(index, mask) => {
                let start = at(index);
                bytes.iter_mut().skip(start).take(1).for_each(|byte| *byte ^= mask);
            }
            Change::Graft(index, file, from, length) => {
                let file = file.get(files);
                let piece = file.iter().skip(from.index(file.len().max(1))).take(usize::from(*length)).copied();
                drop(bytes.splice(at(index)..at(index), piece));
            }
        }
    }
    bytes
}

/// Mutations are small, because the fuzzer covers large ones.
#[test]
fn check_holds_for_mutations_of_every_corpus_file() {
    for target in TARGETS {
        let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) };
        let mut runner = TestRunner::new(config);
        let files: Vec<Vec<u8>> = corpus(target).into_values().collect();
        let near = (any::<Index>(), changes())
            .prop_map(|(file, changes)| Input(changed(file.get(&files).clone(), &changes, &files)));
        let held = runner.run(&near, |Input(bytes)| {
            let _ = (target.check)(&bytes);
            Ok(())
        });
        held.unwrap_or_else(|broken| panic!("{}: {broken}", target.name));
    }
}

/// Returns the names and versions in a lock file.
fn locked(path: &str) -> BTreeMap<String, Vec<String>> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let value = |line: &str, key: &str| Some(line.strip_prefix(key)?.trim_matches('"').to_owned());
    for entry in text.split("[[package]]\n").skip(1) {
        let name = entry.lines().find_map(|line| value(line, "name = ")).unwrap();
        let version = entry.lines().find_map(|line| value(line, "version = ")).unwrap();
        versions.entry(name).or_default().push(version);
    }
    versions
}

#[test]
fn engine_lock_contains_only_versions_that_ship() {
    let (shipped, fuzzed) = (locked("../../Cargo.lock"), locked("engine/Cargo.lock"));
    let engine = ["kerf-fuzz", "libfuzzer-sys", "arbitrary", "jobserver"];
    for (name, versions) in fuzzed.iter().filter(|(name, _)| !engine.contains(&name.as_str())) {
        let known = shipped.get(name).unwrap_or_else(|| panic!("{name} does not ship"));
        assert!(versions.iter().all(|version| known.contains(version)), "{name}: {versions:?} beside {known:?}");
    }
    assert!(fuzzed.contains_key("agent") && fuzzed.contains_key("serde-saphyr"));
}
