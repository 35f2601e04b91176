//! Exceptions from rules of `docs/style.md`, as numbers that may only become smaller.
//!
//! `tests/tidy/allowed.txt` has one line per exception: rule, subject, number. A number above the permitted one is a finding. A
//! number below it is a finding too, until the list is lowered. `BLESS=1` lowers numbers and removes lines, but never adds a
//! line.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Occurrences by subject, such as a crate or a file.
pub type Counts = BTreeMap<String, usize>;

/// Compares the result of a rule with the list; returns the findings.
pub fn compare(list: &Path, rule: &str, found: &Counts) -> Vec<String> {
    let text = fs::read_to_string(list).unwrap_or_else(|error| panic!("{}: {error}", list.display()));
    let allowed: Counts = text.lines().filter_map(|line| entry(line, rule)).collect();
    if std::env::var_os("BLESS").is_some() {
        lower(list, rule, found, &allowed);
    }
    let more = found
        .iter()
        .filter(|(subject, count)| **count > *allowed.get(*subject).unwrap_or(&0))
        .map(|(subject, count)| format!("{rule}: {subject}: {count}, allowed {}", allowed.get(subject).unwrap_or(&0)));
    let fewer = allowed.iter().filter(|(subject, count)| *found.get(*subject).unwrap_or(&0) < **count).map(
        |(subject, count)| {
            let found = found.get(subject).unwrap_or(&0);
            format!("{rule}: {subject}: only {found} of {count} are left, lower the number in {}", list.display())
        },
    );
    if std::env::var_os("BLESS").is_some() { more.collect() } else { more.chain(fewer).collect() }
}

fn entry(line: &str, rule: &str) -> Option<(String, usize)> {
    let (own, rest) = line.split_once(" | ")?;
    let (subject, count) = rest.split_once(" | ")?;
    (own == rule).then(|| count.parse().ok().map(|count| (subject.to_owned(), count)))?
}

/// Writes the list again, with the smaller numbers of one rule.
fn lower(list: &Path, rule: &str, found: &Counts, allowed: &Counts) {
    let text = fs::read_to_string(list).unwrap_or_default();
    let line_of = |line: &str| match entry(line, rule) {
        None => Some(line.to_owned()),
        Some((subject, _)) => {
            let count = (*found.get(&subject).unwrap_or(&0)).min(allowed[&subject]);
            (count > 0).then(|| format!("{rule} | {subject} | {count}"))
        }
    };
    let lines: Vec<String> = text.lines().filter_map(line_of).collect();
    fs::write(list, lines.join("\n") + "\n").unwrap_or_else(|error| panic!("{}: {error}", list.display()));
}
