//! `kerf record`: follows a live cluster into a recording.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use api::decisions::storage::MARKET;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::recording::slim::slim;
use super::recording::write::Writer;
use crate::adopt;
use crate::args::{LiveCluster, Record};
use crate::failure::Failure;
use crate::live::{Follower, Seen};
use crate::output::counted;

/// Interval between two readings of the published market, which is large.
const MARKET_EVERY: SignedDuration = SignedDuration::from_hours(1);

/// Records until Ctrl-C or the end of the period, and returns a sentence about the recording. `note` gets sentences on the way.
///
/// # Errors
/// Returns an error if the cluster cannot be followed or the recording cannot be written.
pub fn record(args: &Record, note: &mut dyn FnMut(&str)) -> Result<String, Failure> {
    let cluster = LiveCluster { live: true, context: args.context.clone() };
    let mut follower = Follower::start(&cluster)?;
    let begin = Timestamp::now();
    let end = args.lasts.map(|lasts| begin + lasts);
    let Some(first) = first_state(&mut follower, note)? else {
        return Ok("nothing was recorded\n".to_owned());
    };
    let mut controllers = Controllers::default();
    first.objects.iter().for_each(|object| controllers.set(object));
    let objects = first.objects.iter().filter_map(|object| slimmed(object, note)).collect();
    let begin = Timestamp::now();
    let unwritable = |error: io::Error| Failure::usage(format!("{}: {error}", args.out.display()));
    let mut writer = Writer::begin(&args.out, args.max_size, begin, objects).map_err(unwritable)?;
    let (count, place) = (counted(writer.objects(), "object"), args.out.display());
    note(&format!("recording {count} in {place}; Ctrl-C ends it"));
    for seen in first.since {
        take(&mut writer, &mut controllers, seen, begin, note).map_err(unwritable)?;
    }
    let mut market = MarketReader { due: begin };
    let mut now = begin;
    while end.is_none_or(|end| now < end) {
        let Some(seen) = follower.next()? else { break };
        now = Timestamp::now();
        take(&mut writer, &mut controllers, seen, now, note).map_err(unwritable)?;
        if let Some(variables) = controllers.variables() {
            writer.set_controller(now, variables).map_err(unwritable)?;
        }
        if let Some(map) = market.read(&follower, &controllers, now, note) {
            writer.set_market(now, map).map_err(unwritable)?;
        }
        writer.tick(now).map_err(unwritable)?;
    }
    let objects = counted(writer.objects(), "object");
    writer.finish(now).map_err(unwritable)?;
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

fn take(
    writer: &mut Writer,
    controllers: &mut Controllers,
    seen: Seen,
    now: Timestamp,
    note: &mut dyn FnMut(&str),
) -> io::Result<()> {
    match seen {
        Seen::List(kind, objects) => {
            objects.iter().for_each(|object| controllers.set(object));
            let objects = objects.iter().filter_map(|object| slimmed(object, note)).collect();
            writer.set_all(now, kind, objects)
        }
        Seen::Set(object) => {
            controllers.set(&object);
            slimmed(&object, note).map_or(Ok(()), |object| writer.set(now, object))
        }
        Seen::Gone(object) => {
            controllers.remove(&object);
            writer.remove(now, &object)
        }
        Seen::Trouble(trouble) => {
            note(&trouble);
            Ok(())
        }
        Seen::Nothing => Ok(()),
    }
}

/// Returns the slim object. One that cannot be read is left out, with a note.
fn slimmed(object: &Value, note: &mut dyn FnMut(&str)) -> Option<Value> {
    slim(object).unwrap_or_else(|error| {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (kind, namespace, name) = (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
        note(&format!("{kind} {namespace}/{name} is not recorded: {error}"));
        None
    })
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
}

impl MarketReader {
    fn read(
        &mut self,
        follower: &Follower,
        controllers: &Controllers,
        now: Timestamp,
        note: &mut dyn FnMut(&str),
    ) -> Option<Value> {
        let namespace = controllers.namespace().filter(|_| now >= self.due)?;
        self.due = now + MARKET_EVERY;
        match follower.config_map(&namespace, MARKET) {
            Ok(Some(map)) => Some(serde_json::json!({"data": map["data"], "binaryData": map["binaryData"]})),
            Ok(None) => {
                note(&format!("ConfigMap {namespace}/{MARKET} does not exist yet: prices are read again in an hour"));
                None
            }
            Err(failure) => {
                note(&format!("without the controller's prices: {failure}"));
                None
            }
        }
    }
}
