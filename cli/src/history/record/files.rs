//! Observations from files, in the order of their times, with the state at their begin.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufReader, Read};
use std::iter::Peekable;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use jiff::Timestamp;
use serde_json::{Deserializer, Value};

use super::audit::{self, AuditReader};
use super::watch;
use crate::failure::Failure;
use crate::history::recording::Key;
use crate::live::Seen;
use crate::output::counted;

/// Observation with its time.
#[derive(Debug)]
pub(super) struct Observation {
    pub(super) at: Timestamp,
    pub(super) seen: Seen,
}

/// Audit logs, and dumps of watches.
pub(super) struct Files {
    paths: Vec<PathBuf>,
    /// Time at which all files have begun.
    pub(super) begin: Timestamp,
}

/// First state of the objects in the files.
#[derive(Debug, Default)]
pub(super) struct FirstState {
    pub(super) objects: Vec<Value>,
    /// True if the files have any object, of the first state or of later.
    pub(super) has_objects: bool,
    /// Number of writes in audit logs without the written object.
    without_object: usize,
}

impl FirstState {
    /// Returns a sentence about the writes without the written object, if there are any.
    pub(super) fn missing(&self) -> Option<String> {
        let writes = counted(self.without_object, "write");
        (self.without_object > 0).then(|| {
            format!("{writes} without the written object: let the audit policy log writes of these kinds at level RequestResponse")
        })
    }
}

impl Files {
    /// Finds the begin of the files.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read, or if it is neither an audit log nor a dump of a watch.
    pub(super) fn open(paths: &[PathBuf]) -> Result<Self, Failure> {
        let mut begin = Timestamp::MIN;
        for path in paths {
            begin = begin.max(begin_of(path)?);
        }
        Ok(Self { paths: paths.to_vec(), begin })
    }

    /// Returns the state at the begin. An object that is older than the begin is taken from its first observation.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read.
    pub(super) fn first_state(&self) -> Result<FirstState, Failure> {
        let mut state: BTreeMap<Key, Value> = BTreeMap::new();
        let mut known: BTreeSet<Key> = BTreeSet::new();
        let (mut observations, mut has_objects) = (self.observations()?, false);
        while let Some(Observation { at, seen }) = observations.next()? {
            let (Seen::Set(object) | Seen::Gone(object)) = &seen else { continue };
            has_objects |= matches!(seen, Seen::Set(_));
            let key = Key::of(object);
            let is_first = known.insert(key.clone());
            match &seen {
                Seen::Gone(_) if at <= self.begin => drop(state.remove(&key)),
                Seen::Set(_) if at <= self.begin || is_first && is_older(object, self.begin) => {
                    state.insert(key, object.clone());
                }
                _ => {}
            }
        }
        Ok(FirstState {
            objects: state.into_values().collect(),
            has_objects,
            without_object: observations.without_object(),
        })
    }

    /// Returns the observations after the begin.
    ///
    /// # Errors
    /// Returns an error if a file cannot be opened.
    pub(super) fn observations(&self) -> Result<Observations, Failure> {
        let sources = self.paths.iter().map(|path| Source::open(path)).collect::<Result<_, _>>()?;
        Ok(Observations { sources })
    }
}

fn is_older(object: &Value, begin: Timestamp) -> bool {
    let created = object["metadata"]["creationTimestamp"].as_str().and_then(|text| text.parse().ok());
    created.is_some_and(|created: Timestamp| created < begin)
}

/// Observations of several files, merged by their times.
pub(super) struct Observations {
    sources: Vec<Source>,
}

impl Observations {
    /// Returns the next observation.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read.
    pub(super) fn next(&mut self) -> Result<Option<Observation>, Failure> {
        let mut earliest: Option<(usize, Timestamp)> = None;
        for (position, source) in self.sources.iter_mut().enumerate() {
            let Some(at) = source.peek()? else { continue };
            if earliest.is_none_or(|(_, known)| at < known) {
                earliest = Some((position, at));
            }
        }
        Ok(earliest.and_then(|(position, _)| self.sources[position].pending.pop()))
    }

    fn without_object(&self) -> usize {
        self.sources.iter().map(|source| source.audit.without_object).sum()
    }
}

type Values = Peekable<serde_json::StreamDeserializer<'static, serde_json::de::IoRead<Box<dyn Read>>, Value>>;

/// One file.
struct Source {
    path: PathBuf,
    values: Values,
    audit: AuditReader,
    /// Time of the last observation: times of one file never decrease.
    now: Timestamp,
    /// Observations that are not returned yet, the last one first.
    pending: Vec<Observation>,
}

impl Source {
    fn open(path: &Path) -> Result<Self, Failure> {
        let file = File::open(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
        let is_compressed = path.extension().is_some_and(|ending| ending == "gz");
        let text: Box<dyn Read> = if is_compressed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
        let text: Box<dyn Read> = Box::new(BufReader::new(text));
        Ok(Self {
            path: path.to_owned(),
            values: Deserializer::from_reader(text).into_iter::<Value>().peekable(),
            audit: AuditReader::default(),
            now: Timestamp::MIN,
            pending: Vec::new(),
        })
    }

    /// Returns the time of the next observation.
    fn peek(&mut self) -> Result<Option<Timestamp>, Failure> {
        while self.pending.is_empty() {
            let Some(value) = self.next_value()? else { return Ok(None) };
            self.read(&value)?;
        }
        Ok(self.pending.last().map(|observation| observation.at))
    }

    /// Returns the next value. A value that was cut at the end of the file ends it.
    fn next_value(&mut self) -> Result<Option<Value>, Failure> {
        match self.values.next() {
            Some(Err(error)) if !error.is_eof() => Err(Failure::usage(format!("{}: {error}", self.path.display()))),
            value => Ok(value.and_then(Result::ok)),
        }
    }

    fn read(&mut self, value: &Value) -> Result<(), Failure> {
        let (at, seen) = if audit::is_event(value) {
            let Some((at, seen)) = self.audit.read(value) else { return Ok(()) };
            (Some(at), seen)
        } else if watch::is_event(value) {
            let Some((at, seen)) = watch::read(value) else { return Ok(()) };
            (at, vec![seen])
        } else {
            return Err(self.unknown(value));
        };
        self.now = at.map_or(self.now, |at| at.max(self.now));
        let observations = seen.into_iter().map(|seen| Observation { at: self.now, seen });
        self.pending.extend(observations.rev());
        Ok(())
    }

    fn unknown(&self, value: &Value) -> Failure {
        let path = self.path.display();
        Failure::usage(match value["kind"].as_str() {
            Some(kind) => format!(
                "{path}: it has a {kind}, which says nothing about its time or deletion: use an audit log, or write the dump \
                 with kubectl get KIND -A -o json --watch --output-watch-events --show-managed-fields"
            ),
            None => format!("{path}: it is neither an audit log of the API server nor a dump of kubectl get --watch"),
        })
    }
}

/// Returns the time at which a file begins: the first event of an audit log, or the last time in the first objects of a watch.
fn begin_of(path: &Path) -> Result<Timestamp, Failure> {
    let mut source = Source::open(path)?;
    let mut begin = None;
    while let Some(value) = source.next_value()? {
        let is_log = audit::is_event(&value);
        if !is_log && !watch::is_first(&value) && begin.is_some() {
            break;
        }
        source.read(&value)?;
        if !source.pending.is_empty() {
            begin = Some(source.now);
        }
        if is_log && begin.is_some() {
            break;
        }
    }
    let empty = || Failure::usage(format!("{}: it has no object with a time", path.display()));
    begin.filter(|begin| *begin > Timestamp::MIN).ok_or_else(empty)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use serde_json::json;

    use super::*;

    fn node(name: &str, heartbeat: &str) -> Value {
        json!({
            "kind": "Node", "metadata": {"name": name, "creationTimestamp": "2026-11-01T00:00:00Z"},
            "status": {"conditions": [{"type": "Ready", "lastHeartbeatTime": heartbeat}]},
        })
    }

    fn watched(type_: &str, object: Value) -> String {
        json!({"type": type_, "object": object}).to_string()
    }

    fn written(name: &str, created: &str, at: &str) -> String {
        let pod = json!({"kind": "Pod", "metadata": {"name": name, "namespace": "shop", "creationTimestamp": created}});
        json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "stage": "ResponseComplete", "verb": "update",
            "objectRef": {"resource": "pods"}, "responseObject": pod, "responseStatus": {"code": 200}, "stageTimestamp": at,
        })
        .to_string()
    }

    /// Returns names with the minutes of their times.
    fn names(files: &Files) -> Vec<String> {
        let mut observations = files.observations().unwrap();
        let mut names = Vec::new();
        while let Some(Observation { at, seen }) = observations.next().unwrap() {
            let (word, object) = match seen {
                Seen::Set(object) => ("set", object),
                Seen::Gone(object) => ("gone", object),
                other => panic!("{other:?}"),
            };
            names.push(format!("{word} {} {}", object["metadata"]["name"].as_str().unwrap(), at.strftime("%M:%S")));
        }
        names
    }

    fn first_names(files: &Files) -> Vec<String> {
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
        files.first_state().unwrap().objects.iter().map(name).collect()
    }

    #[test]
    fn observations_of_several_files_are_in_the_order_of_their_times() {
        let folder = tempfile::tempdir().unwrap();
        let (log, dump) = (folder.path().join("audit.log.gz"), folder.path().join("nodes.json"));
        let mut compressed = GzEncoder::new(File::create(&log).unwrap(), Compression::fast());
        let lines = [
            written("old", "2026-11-27T00:00:00Z", "2026-11-28T10:02:00Z"),
            written("new", "2026-11-28T10:04:00Z", "2026-11-28T10:04:00Z"),
            written("late", "2026-11-27T00:00:00Z", "2026-11-28T10:08:00Z"),
        ];
        compressed.write_all(lines.join("\n").as_bytes()).unwrap();
        compressed.finish().unwrap();
        let lines = [
            watched("ADDED", node("b", "2026-11-28T10:03:00Z")),
            watched("ADDED", node("a", "2026-11-28T10:01:00Z")),
            watched("MODIFIED", node("a", "2026-11-28T10:06:00Z")),
            watched("DELETED", node("b", "2026-11-28T10:05:00Z")),
            "{\"type\": \"MODIF".to_owned(),
        ];
        std::fs::write(&dump, lines.join("\n")).unwrap();
        let files = Files::open(&[log, dump]).unwrap();
        assert_eq!(files.begin.to_string(), "2026-11-28T10:03:00Z");
        let expected = [
            "set old 02:00",
            "set b 03:00",
            "set a 03:00",
            "set new 04:00",
            "set a 06:00",
            "gone b 06:00",
            "set late 08:00",
        ];
        assert_eq!(names(&files), expected);
        assert_eq!(first_names(&files), ["a", "b", "late", "old"], "objects that are older than the begin");
    }

    #[test]
    fn first_state_knows_a_log_without_objects() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let mut write: Value =
            serde_json::from_str(&written("web", "2026-11-28T10:00:00Z", "2026-11-28T10:00:00Z")).unwrap();
        write["responseObject"] = Value::Null;
        let mut deletion = write.clone();
        deletion["verb"] = json!("delete");
        deletion["objectRef"] = json!({"resource": "pods", "name": "web", "namespace": "shop"});
        std::fs::write(&path, format!("{write}\n{deletion}")).unwrap();
        let first = Files::open(std::slice::from_ref(&path)).unwrap().first_state().unwrap();
        assert!(!first.has_objects && first.objects.is_empty());
        assert!(first.missing().unwrap().starts_with("1 write without the written object"), "{:?}", first.missing());
    }

    #[test]
    fn open_names_the_file_and_the_fix() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let list = json!({"kind": "List", "items": []}).to_string();
        for (content, expected) in [
            ("", "no object with a time"),
            ("[]", "neither an audit log"),
            ("no json", "expected ident"),
            (list.as_str(), "--output-watch-events"),
        ] {
            std::fs::write(&path, content).unwrap();
            let error = Files::open(std::slice::from_ref(&path)).err().unwrap().to_string();
            assert!(error.contains("file: ") && error.contains(expected), "{content}: {error}");
        }
    }
}
