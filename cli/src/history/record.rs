//! `kerf record`: follows a live cluster into a recording, or reads what others wrote about one.

mod audit;
mod files;
mod watch;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use api::decisions::storage::MARKET;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use files::{Files, Observation};

use super::recording::pseudonyms::Pseudonyms;
use super::recording::slim::slim;
use super::recording::write::Writer;
use crate::adopt;
use crate::args::{LiveCluster, Record, USUAL_NAMESPACE};
use crate::failure::Failure;
use crate::live::{Follower, Seen};
use crate::output::counted;

/// Settings of the controller whose values are names or addresses.
const NAMING_VARIABLES: [&str; 6] =
    ["CLUSTER_NAME", "CLUSTER_ENDPOINT", "CLUSTER_CA_BUNDLE", "INTERRUPTION_QUEUE", "SYSTEM_NAMESPACE", "COST_LABEL"];
/// Interval between two readings of the published market, which is large.
const MARKET_EVERY: SignedDuration = SignedDuration::from_hours(1);
/// The same until the controller has published it.
const MARKET_MISSING: SignedDuration = SignedDuration::from_mins(1);

/// Records and returns a sentence about the recording. `note` gets sentences on the way.
///
/// # Errors
/// Returns an error if the cluster cannot be followed, a file cannot be read, or the recording cannot be written.
pub fn record(args: &Record, note: &mut dyn FnMut(&str)) -> Result<String, Failure> {
    if args.from.is_empty() { follow(args, note) } else { convert(args, note) }
}

/// Records what audit logs and dumps of watches contain.
fn convert(args: &Record, note: &mut dyn FnMut(&str)) -> Result<String, Failure> {
    let files = Files::open(&args.from)?;
    let first = files.first_state()?;
    if let Some(sentence) = first.missing() {
        match first.has_objects {
            true => note(&sentence),
            false => return Err(Failure::usage(sentence)),
        }
    }
    let unwritable = |error: io::Error| Failure::usage(format!("{}: {error}", args.out.display()));
    let mut recorder = Recorder::begin(args, files.begin, &first.objects, note)?;
    recorder.set_controller(files.begin).map_err(unwritable)?;
    let (mut now, mut observations) = (files.begin, files.observations()?);
    while let Some(Observation { at, seen }) = observations.next()? {
        if at <= files.begin {
            continue;
        }
        now = at;
        recorder.take(seen, now, note).map_err(unwritable)?;
        recorder.set_controller(now).map_err(unwritable)?;
        recorder.writer.tick(now).map_err(unwritable)?;
    }
    let objects = counted(recorder.writer.objects(), "object");
    recorder.writer.finish(now).map_err(unwritable)?;
    Ok(summary(&args.out, now.duration_since(files.begin), &objects))
}

/// Records a live cluster until Ctrl-C or the end of the period.
fn follow(args: &Record, note: &mut dyn FnMut(&str)) -> Result<String, Failure> {
    let cluster = LiveCluster { live: true, context: args.context.clone() };
    let mut follower = Follower::start(&cluster)?;
    let begin = Timestamp::now();
    let end = args.lasts.map(|lasts| begin + lasts);
    let Some(first) = first_state(&mut follower, note)? else {
        return Ok("nothing was recorded\n".to_owned());
    };
    let begin = Timestamp::now();
    let unwritable = |error: io::Error| Failure::usage(format!("{}: {error}", args.out.display()));
    let mut recorder = Recorder::begin(args, begin, &first.objects, note)?;
    let (count, place) = (counted(recorder.writer.objects(), "object"), args.out.display());
    note(&format!("recording {count} in {place}; Ctrl-C ends it"));
    for seen in first.since {
        recorder.take(seen, begin, note).map_err(unwritable)?;
    }
    let mut market = MarketReader { due: begin, is_noted: false };
    let mut now = begin;
    while end.is_none_or(|end| now < end) {
        let Some(seen) = follower.next()? else { break };
        now = Timestamp::now();
        recorder.take(seen, now, note).map_err(unwritable)?;
        recorder.set_controller(now).map_err(unwritable)?;
        if let Some(map) = market.read(&follower, &recorder.controllers, now, note) {
            recorder.writer.set_market(now, map).map_err(unwritable)?;
        }
        recorder.writer.tick(now).map_err(unwritable)?;
    }
    let objects = counted(recorder.writer.objects(), "object");
    recorder.writer.finish(now).map_err(unwritable)?;
    Ok(summary(&args.out, now.duration_since(begin), &objects))
}

fn summary(folder: &Path, lasted: SignedDuration, objects: &str) -> String {
    let (lasted, folder) = (SignedDuration::from_secs(lasted.as_secs()), folder.display());
    format!("recorded {lasted:#}, {objects} at the end, in {folder}\n")
}

/// First state of a cluster.
struct FirstState {
    objects: Vec<Value>,
    /// Observations after the lists of their kinds.
    since: Vec<Seen>,
}

/// Returns the first state once each kind was listed; `None` after Ctrl-C.
fn first_state(follower: &mut Follower, note: &mut dyn FnMut(&str)) -> Result<Option<FirstState>, Failure> {
    let (mut lists, mut since) = (BTreeMap::new(), Vec::new());
    while lists.len() < Follower::kinds() {
        match follower.next()? {
            None => return Ok(None),
            Some(Seen::List(kind, objects)) => {
                // A newer list contains what was seen of the kind before.
                since.retain(|seen: &Seen| !seen.is_of(kind));
                lists.insert(kind, objects);
            }
            Some(Seen::Trouble(trouble)) => note(&trouble),
            Some(seen) => since.push(seen),
        }
    }
    Ok(Some(FirstState { objects: lists.into_values().flatten().collect(), since }))
}

/// Writes observations into a recording.
struct Recorder {
    writer: Writer,
    controllers: Controllers,
    pseudonyms: Option<Pseudonyms>,
}

impl Recorder {
    /// Begins a recording with the first state.
    fn begin(args: &Record, now: Timestamp, objects: &[Value], note: &mut dyn FnMut(&str)) -> Result<Self, Failure> {
        let mut controllers = Controllers::default();
        objects.iter().for_each(|object| controllers.set(object));
        let unreadable = |path: &Path, error: io::Error| Failure::usage(format!("{}: {error}", path.display()));
        let pseudonyms = args.pseudonyms.as_ref();
        let pseudonyms =
            pseudonyms.map(|path| Pseudonyms::read(path).map_err(|error| unreadable(path, error))).transpose()?;
        let first = objects.iter().filter_map(|object| slimmed(object, pseudonyms.as_ref(), note)).collect();
        let writer = Writer::begin(&args.out, args.max_size, now, first);
        let writer = writer.map_err(|error| unreadable(&args.out, error))?;
        Ok(Self { writer, controllers, pseudonyms })
    }

    fn take(&mut self, seen: Seen, now: Timestamp, note: &mut dyn FnMut(&str)) -> io::Result<()> {
        let Self { writer, controllers, pseudonyms } = self;
        let mut slimmed = |object: &Value| slimmed(object, pseudonyms.as_ref(), note);
        match seen {
            Seen::List(kind, objects) => {
                objects.iter().for_each(|object| controllers.set(object));
                writer.set_all(now, kind, objects.iter().filter_map(slimmed).collect())
            }
            Seen::Set(object) => {
                controllers.set(&object);
                slimmed(&object).map_or(Ok(()), |object| writer.set(now, object))
            }
            Seen::Gone(object) => {
                controllers.remove(&object);
                let mut identity = identity(&object);
                if let Some(pseudonyms) = pseudonyms {
                    pseudonyms.replace(&mut identity);
                }
                writer.remove(now, &identity)
            }
            Seen::Trouble(trouble) => {
                note(&trouble);
                Ok(())
            }
            Seen::Nothing => Ok(()),
        }
    }

    /// Writes the settings of the cluster's controller. With pseudonyms, those with names are left out.
    fn set_controller(&mut self, now: Timestamp) -> io::Result<()> {
        let Some(mut variables) = self.controllers.variables() else { return Ok(()) };
        if self.pseudonyms.is_some() {
            variables.retain(|name, _| !NAMING_VARIABLES.contains(&name.as_str()));
        }
        self.writer.set_controller(now, variables)
    }
}

/// Returns kind, namespace and name of an object. Of some deleted objects nothing else is known.
fn identity(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!({"kind": object["kind"], "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]}})
}

/// Returns the slim object. One that cannot be read is left out, with a note.
fn slimmed(object: &Value, pseudonyms: Option<&Pseudonyms>, note: &mut dyn FnMut(&str)) -> Option<Value> {
    let mut slimmed = slim(object).unwrap_or_else(|error| {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (kind, namespace, name) = (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
        note(&format!("{kind} {namespace}/{name} is not recorded: {error}"));
        None
    })?;
    if let Some(pseudonyms) = pseudonyms {
        pseudonyms.replace(&mut slimmed);
    }
    Some(slimmed)
}

/// Deployments of controllers, complete.
#[derive(Default)]
struct Controllers(BTreeMap<(String, String), Value>);

impl Controllers {
    fn set(&mut self, object: &Value) {
        if object["kind"] != "Deployment" {
            return;
        }
        match adopt::is_controller(object) {
            true => drop(self.0.insert(key(object), object.clone())),
            false => self.remove(object),
        }
    }

    fn remove(&mut self, object: &Value) {
        if object["kind"] == "Deployment" {
            self.0.remove(&key(object));
        }
    }

    fn variables(&self) -> Option<BTreeMap<String, String>> {
        adopt::variables(&self.0.values().collect::<Vec<_>>())
    }

    fn namespace(&self) -> Option<String> {
        adopt::namespace(&self.0.values().collect::<Vec<_>>()).map(str::to_owned)
    }
}

fn key(object: &Value) -> (String, String) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

/// Reads the published market from time to time.
struct MarketReader {
    due: Timestamp,
    /// True if its absence was noted.
    is_noted: bool,
}

impl MarketReader {
    fn read(
        &mut self,
        follower: &Follower,
        controllers: &Controllers,
        now: Timestamp,
        note: &mut dyn FnMut(&str),
    ) -> Option<Value> {
        if now < self.due {
            return None;
        }
        let namespace = controllers.namespace().unwrap_or_else(|| USUAL_NAMESPACE.to_owned());
        self.due = now + MARKET_EVERY;
        let problem = match follower.config_map(&namespace, MARKET) {
            Ok(Some(map)) => return Some(serde_json::json!({"data": map["data"], "binaryData": map["binaryData"]})),
            Ok(None) => {
                self.due = now + MARKET_MISSING;
                format!("ConfigMap {namespace}/{MARKET} does not exist yet: prices are read as soon as it does")
            }
            Err(failure) => format!("without the controller's prices: {failure}"),
        };
        if !std::mem::replace(&mut self.is_noted, true) {
            note(&problem);
        }
        None
    }
}
