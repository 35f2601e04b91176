//! Writing of a recording: only what has changed, in files of limited size.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{ENDING, Key, Line, VERSION};

/// Interval after which changes are in the file in any case.
const FLUSH: SignedDuration = SignedDuration::from_secs(5);
/// Interval of lines while nothing changes.
const ALIVE: SignedDuration = SignedDuration::from_mins(1);
/// Number of files into which the maximum size is divided. The oldest one is deleted when the size is reached.
const FILES: u64 = 8;

/// Recording that is being written.
pub(in crate::history) struct Writer {
    folder: PathBuf,
    /// Maximum size of all files, in bytes.
    most: u64,
    file: GzEncoder<File>,
    path: PathBuf,
    /// Last written state of each object.
    state: BTreeMap<Key, Value>,
    variables: BTreeMap<String, String>,
    market: Option<Value>,
    flushed: Timestamp,
    written: Timestamp,
}

impl Writer {
    /// Begins a file in the folder, with the whole first state.
    ///
    /// # Errors
    /// Returns an error if the folder or the file cannot be written.
    pub(in crate::history) fn begin(folder: &Path, most: u64, at: Timestamp, objects: Vec<Value>) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let (path, file) = new_file(folder, at)?;
        let state = objects.into_iter().map(|object| (Key::of(&object), object)).collect();
        let mut writer = Self {
            folder: folder.to_owned(),
            most,
            file,
            path,
            state,
            variables: BTreeMap::new(),
            market: None,
            flushed: at,
            written: at,
        };
        writer.write_state(at)?;
        Ok(writer)
    }

    /// Returns the number of objects of the last state.
    pub(in crate::history) fn objects(&self) -> usize {
        self.state.len()
    }

    /// Writes the state of an object if it has changed.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub(in crate::history) fn set(&mut self, at: Timestamp, object: Value) -> io::Result<()> {
        let key = Key::of(&object);
        if self.state.get(&key) == Some(&object) {
            return Ok(());
        }
        self.line(&Line::Set { at, object: object.clone() })?;
        self.state.insert(key, object);
        Ok(())
    }

    /// Writes the deletion of an object if it was known.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub(in crate::history) fn remove(&mut self, at: Timestamp, object: &Value) -> io::Result<()> {
        let key = Key::of(object);
        match self.state.remove(&key) {
            Some(_) => self.line(&Line::Gone { at, key }),
            None => Ok(()),
        }
    }

    /// Writes the difference to a list of all objects of a kind.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub(in crate::history) fn set_all(&mut self, at: Timestamp, kind: &str, objects: Vec<Value>) -> io::Result<()> {
        let present: BTreeSet<Key> = objects.iter().map(Key::of).collect();
        let gone: Vec<Key> =
            self.state.keys().filter(|key| key.kind == kind && !present.contains(key)).cloned().collect();
        for key in gone {
            self.state.remove(&key);
            self.line(&Line::Gone { at, key })?;
        }
        objects.into_iter().try_for_each(|object| self.set(at, object))
    }

    /// Writes the settings of the controller if they have changed.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub(in crate::history) fn set_controller(
        &mut self,
        at: Timestamp,
        variables: BTreeMap<String, String>,
    ) -> io::Result<()> {
        if self.variables == variables {
            return Ok(());
        }
        self.variables.clone_from(&variables);
        self.line(&Line::Controller { at, variables })
    }

    /// Writes the published market if it has changed.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub(in crate::history) fn set_market(&mut self, at: Timestamp, map: Value) -> io::Result<()> {
        if self.market.as_ref().is_some_and(|known| known["binaryData"] == map["binaryData"]) {
            return Ok(());
        }
        self.line(&Line::Market { at, map: map.clone() })?;
        self.market = Some(map);
        Ok(())
    }

    /// Writes pending data, a sign of life, and the next file if they are due.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub(in crate::history) fn tick(&mut self, at: Timestamp) -> io::Result<()> {
        if at.duration_since(self.written) >= ALIVE {
            self.line(&Line::Alive { at })?;
        }
        if at.duration_since(self.flushed) < FLUSH {
            return Ok(());
        }
        self.file.flush()?;
        self.flushed = at;
        if fs::metadata(&self.path)?.len() >= self.most / FILES {
            self.file.try_finish()?;
            (self.path, self.file) = new_file(&self.folder, at)?;
            self.write_state(at)?;
            remove_oldest(&self.folder, self.most)?;
        }
        Ok(())
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub(in crate::history) fn finish(mut self, at: Timestamp) -> io::Result<()> {
        self.line(&Line::Alive { at })?;
        self.file.try_finish()
    }

    fn write_state(&mut self, at: Timestamp) -> io::Result<()> {
        self.line(&Line::Begin { version: VERSION, at })?;
        for object in self.state.values() {
            append(&mut self.file, &Line::Set { at, object: object.clone() })?;
        }
        if !self.variables.is_empty() {
            append(&mut self.file, &Line::Controller { at, variables: self.variables.clone() })?;
        }
        if let Some(map) = &self.market {
            append(&mut self.file, &Line::Market { at, map: map.clone() })?;
        }
        self.line(&Line::Complete { at })?;
        self.file.flush()
    }

    fn line(&mut self, line: &Line) -> io::Result<()> {
        self.written = line.at();
        append(&mut self.file, line)
    }
}

fn append(file: &mut GzEncoder<File>, line: &Line) -> io::Result<()> {
    serde_json::to_writer(&mut *file, line)?;
    file.write_all(b"\n")
}

/// Creates a file that is named by its begin. A file of the same second is not replaced.
fn new_file(folder: &Path, at: Timestamp) -> io::Result<(PathBuf, GzEncoder<File>)> {
    let stem = at.strftime("%Y%m%dT%H%M%SZ").to_string();
    for number in 0..100 {
        let path = folder.join(format!("{stem}-{number:02}{ENDING}"));
        match File::options().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((path, GzEncoder::new(file, Compression::default()))),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{stem}: a hundred files of this second")))
}

/// Deletes the oldest files beyond the maximum size.
fn remove_oldest(folder: &Path, most: u64) -> io::Result<()> {
    let mut files = super::read::files_of(folder)?;
    let mut sizes = Vec::new();
    for path in &files {
        sizes.push(fs::metadata(path)?.len());
    }
    let mut total: u64 = sizes.iter().sum();
    // The last file is the one that is being written.
    files.pop();
    for (path, size) in files.iter().zip(sizes) {
        if total <= most {
            break;
        }
        fs::remove_file(path)?;
        total -= size;
    }
    Ok(())
}
