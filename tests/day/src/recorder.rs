//! Recording of a simulated day, as `kerf record` would write it, for a replay.

use api::objects::{Node, Pod, PodDisruptionBudget};
use api::{EC2NodeClass, NodeClaim, NodePool};
use jiff::Timestamp;
use replay::{History, HistoryBuilder};
use simulator::api_server::{ApiServer, BUDGETS, CLAIMS, Change, Event, NODES, PODS, POOLS};
use snapshot::Objects;

/// Plural of EC2NodeClasses in paths.
const CLASSES: &str = "ec2nodeclasses";
/// Plurals and kinds of recorded objects.
const KINDS: [(&str, &str); 6] = [
    (CLASSES, "EC2NodeClass"),
    (POOLS, "NodePool"),
    (BUDGETS, "PodDisruptionBudget"),
    (CLAIMS, "NodeClaim"),
    (NODES, "Node"),
    (PODS, "Pod"),
];

/// Recorder with the history so far.
#[derive(Debug, Default)]
pub struct Recorder(HistoryBuilder);

impl Recorder {
    /// Begins with the objects of a server.
    #[must_use]
    pub fn begin(server: &ApiServer, now: Timestamp) -> Self {
        let mut recorder = Self::default();
        for event in KINDS.iter().flat_map(|(plural, _)| server.list(plural).0) {
            recorder.see(&event, now);
        }
        recorder
    }

    /// Takes over a change.
    pub fn see(&mut self, event: &Event, now: Timestamp) {
        let Some((_, kind)) = KINDS.iter().find(|(plural, _)| *plural == event.plural) else { return };
        let metadata = &event.object.value()["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default();
        match event.change {
            Change::Leaving { .. } => {}
            Change::Removed => self.0.remove(now, kind, text("namespace"), text("name")),
            Change::Stored => self.0.set(now, objects(event)),
        }
    }

    /// Returns the history until now.
    #[must_use]
    pub fn finish(self, now: Timestamp) -> History {
        self.0.finish(now)
    }
}

fn objects(event: &Event) -> Objects {
    let mut objects = Objects::default();
    match event.plural.as_str() {
        CLASSES => objects.classes.push(event.object.typed::<EC2NodeClass>()),
        POOLS => objects.pools.push(event.object.typed::<NodePool>()),
        BUDGETS => objects.budgets.push(event.object.typed::<PodDisruptionBudget>()),
        CLAIMS => objects.claims.push(event.object.typed::<NodeClaim>()),
        NODES => objects.nodes.push(event.object.typed::<Node>()),
        _ => objects.pods.push(event.object.typed::<Pod>()),
    }
    objects
}
