//! Reading of a recording into a history.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use jiff::{SignedDuration, Timestamp};
use replay::{History, HistoryBuilder};

use super::{ENDING, Key, Line, VERSION};
use crate::catalogue::{self, PublishedMarket};
use crate::failure::Failure;
use crate::input::{Change, Place, StoredObjects};

/// Longest time between two files without a note.
const GAP: SignedDuration = SignedDuration::from_mins(2);

/// A recording.
pub(in crate::history) struct Recording {
    pub(in crate::history) history: History,
    /// Variables of the controller.
    pub(in crate::history) variables: BTreeMap<String, String>,
    /// Published markets, each from a time on.
    pub(in crate::history) markets: Vec<(Timestamp, PublishedMarket)>,
    /// Sentences about gaps and cuts.
    pub(in crate::history) notes: Vec<String>,
    /// Sentences about the changes of objects.
    pub(in crate::history) changes: Vec<String>,
}

/// Reads files, and the files of folders, in the order of their names.
///
/// # Errors
/// Returns an error if a file cannot be read, has another format or version, or if a change names no object.
pub(in crate::history) fn read(paths: &[PathBuf], changes: &[Change]) -> Result<Recording, Failure> {
    let mut files = Vec::new();
    for path in paths {
        let unreadable = |error: io::Error| Failure::usage(format!("{}: {error}", path.display()));
        files.extend(if path.is_dir() { files_of(path).map_err(unreadable)? } else { vec![path.clone()] });
    }
    if files.is_empty() {
        let named: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        return Err(Failure::usage(format!(
            "{}: no recording; write one with `kerf record --out DIR`",
            named.join(", ")
        )));
    }
    files.sort_by(|one, other| one.file_name().cmp(&other.file_name()));
    let mut reader = HistoryReader::new(changes);
    for path in &files {
        reader.file(path)?;
    }
    reader.finish()
}

/// Returns the files of a recording in a folder, in order.
///
/// # Errors
/// Returns an error if the folder cannot be read.
pub(super) fn files_of(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.to_str().is_some_and(|name| name.ends_with(ENDING)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

struct HistoryReader<'c> {
    builder: HistoryBuilder,
    objects: StoredObjects<'c>,
    /// Objects of the present state.
    present: BTreeSet<Key>,
    /// Objects of the first state of a file, until it is complete.
    first: Option<BTreeSet<Key>>,
    is_complete: bool,
    last: Option<Timestamp>,
    variables: BTreeMap<String, String>,
    markets: Vec<(Timestamp, PublishedMarket)>,
    notes: Vec<String>,
}

impl<'c> HistoryReader<'c> {
    fn new(changes: &'c [Change]) -> Self {
        Self {
            builder: HistoryBuilder::default(),
            objects: StoredObjects::new(changes),
            present: BTreeSet::new(),
            first: None,
            is_complete: false,
            last: None,
            variables: BTreeMap::new(),
            markets: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn file(&mut self, path: &Path) -> Result<(), Failure> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| Failure::usage(format!("{name}: {error}")))?;
        let mut lines = BufReader::new(MultiGzDecoder::new(BufReader::new(file)));
        let mut number = 0;
        loop {
            let mut text = String::new();
            match lines.read_line(&mut text) {
                Ok(0) => break,
                Ok(_) if text.ends_with('\n') => number += 1,
                Ok(_) => {
                    self.note_cut(&name);
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.note_cut(&name);
                    break;
                }
                Err(error) => return Err(damaged(&name, number + 1, &error.to_string())),
            }
            let line = parse(&name, number, &text)?;
            let place = Place { file: name.clone(), document: number, ..Place::default() };
            self.line(&place, line)?;
        }
        match number {
            0 => Err(damaged(&name, 1, "the file is empty")),
            _ => Ok(()),
        }
    }

    fn note_cut(&mut self, name: &str) {
        let until = self.last.map(|last| format!(" at {last}")).unwrap_or_default();
        self.notes.push(format!("{name} was cut: it ends{until}"));
    }

    fn line(&mut self, place: &Place, line: Line) -> Result<(), Failure> {
        // A clock that was set back does not set the recording back.
        let at = self.last.map_or(line.at(), |last| last.max(line.at()));
        let before = self.last.replace(at);
        match line {
            Line::Begin { version, .. } if version > VERSION => {
                let file = &place.file;
                return Err(Failure::usage(format!(
                    "{file}: version {version} of the format, this kerf reads version {VERSION}: use a newer kerf"
                )));
            }
            Line::Begin { .. } => {
                if let Some(before) = before.filter(|before| at.duration_since(*before) > GAP) {
                    self.notes.push(format!("nothing was recorded from {before} to {at}"));
                }
                self.first = Some(BTreeSet::new());
            }
            Line::Set { object, .. } => {
                let key = Key::of(&object);
                let objects = self.objects.read(place, object)?;
                self.builder.set(at, objects);
                if let Some(first) = &mut self.first {
                    first.insert(key.clone());
                }
                self.present.insert(key);
            }
            Line::Gone { key, .. } => self.remove(at, &key),
            Line::Complete { .. } => {
                let first = self.first.take().unwrap_or_default();
                let gone: Vec<Key> = self.present.difference(&first).cloned().collect();
                gone.iter().for_each(|key| self.remove(at, key));
                self.is_complete = true;
            }
            Line::Controller { variables, .. } => self.variables = variables,
            Line::Market { map, .. } => self.markets.push((at, catalogue::read_published(map)?)),
            Line::Alive { .. } => {}
        }
        Ok(())
    }

    fn remove(&mut self, at: Timestamp, key: &Key) {
        self.present.remove(key);
        self.builder.remove(at, &key.kind, &key.namespace, &key.name);
    }

    fn finish(self) -> Result<Recording, Failure> {
        let Some(end) = self.last.filter(|_| self.is_complete) else {
            return Err(Failure::usage("the recording ends before its first state is complete: record for longer"));
        };
        Ok(Recording {
            history: self.builder.finish(end),
            variables: self.variables,
            markets: self.markets,
            notes: self.notes,
            changes: self.objects.finish()?,
        })
    }
}

fn parse(name: &str, number: usize, text: &str) -> Result<Line, Failure> {
    serde_json::from_str(text).map_err(|error| damaged(name, number, &error.to_string()))
}

fn damaged(name: &str, number: usize, problem: &str) -> Failure {
    Failure::usage(format!("{name}, line {number}: {problem}; is it a file of `kerf record`?"))
}
