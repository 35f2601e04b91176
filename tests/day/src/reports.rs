//! Simulated reports of the agents, computed like those of the shipped agent. A pod uses its share of its requests on average.
//! Pods peak at different times, so a node uses less than the sum of its pods' peaks. Processes stall where pods need more than
//! the node has.

use std::collections::BTreeMap;

use api::nodeusage::{Figures, Histograms, NodeUsageSpec, Pressure};
use api::status::Time;
use api::usage::{Histogram, Joint, Level, PodId, PodUsage, UNKNOWN, encode_pods};
use api::{Quantity, quantity};
use planner::Size;
use serde_json::{Value, json};

use crate::clock::{HOUR, MINUTE, Moment, timestamp};
use crate::cluster_state::{ClusterState, Running};
use crate::market::Instance;

/// Interval between two reports of an agent.
const REPORT: i64 = 5 * MINUTE;
/// Time window of the pressure in a report.
const REMEMBERED: i64 = HOUR;
/// Pressure of a stall during the whole interval, in thousandths.
const ALWAYS: u16 = 1_000;
/// CPU use of a pod from one report to the next, in percent of its average.
const TURNS: [i64; 4] = [70, 100, 130, 100];

/// All agents and their histories.
#[derive(Debug)]
pub struct Reports {
    last: Moment,
    turn: usize,
    pods: BTreeMap<String, History>,
    nodes: BTreeMap<String, NodeHistory>,
}

#[derive(Debug, Default)]
struct History {
    cpu: Histogram,
    memory: Histogram,
    samples: i64,
}

#[derive(Debug, Default)]
struct NodeHistory {
    all: History,
    short_of_cpu: Option<Moment>,
    short_of_memory: Option<Moment>,
}

impl Reports {
    /// Creates the agents without any report.
    #[must_use]
    pub fn new(now: Moment) -> Self {
        Self { last: now, turn: 0, pods: BTreeMap::new(), nodes: BTreeMap::new() }
    }

    /// Returns the moment of the next reports.
    #[must_use]
    pub fn next(&self) -> Moment {
        self.last + REPORT
    }

    /// Returns a report for each node with a running agent, if reports are due.
    pub fn due(&mut self, cluster_state: &ClusterState) -> Vec<Value> {
        if cluster_state.now < self.next() {
            return Vec::new();
        }
        (self.last, self.turn) = (cluster_state.now, self.turn + 1);
        self.pods.retain(|name, _| cluster_state.pods.contains_key(name));
        self.nodes.retain(|name, _| cluster_state.nodes.contains_key(name));
        let alive = cluster_state
            .market
            .instances
            .values()
            .filter(|it| !it.agent_dead && cluster_state.nodes.contains_key(&it.id));
        alive.filter_map(|it| self.report(cluster_state, it)).collect()
    }

    fn report(&mut self, cluster_state: &ClusterState, instance: &Instance) -> Option<Value> {
        let now = cluster_state.now;
        let mut wanted = Size::default();
        let mut pods = Vec::new();
        for (number, (name, pod)) in
            cluster_state.pods_on(&instance.id).filter(|(_, pod)| pod.ready.is_some()).enumerate()
        {
            let uses = uses(cluster_state, pod, self.turn + number);
            wanted = wanted.plus(uses);
            let history = self.pods.entry(name.clone()).or_default();
            history.add(uses, now);
            pods.extend(history.of_pod(pod.object.metadata.uid.as_deref().unwrap_or_default()));
        }
        let node = self.nodes.entry(instance.id.clone()).or_default();
        node.add(wanted, Size::from_resources(&instance.kind.allocatable), now);
        let spec = NodeUsageSpec {
            instance: instance.ec2.clone(),
            measured_at: Time(timestamp(now)),
            since: Time(timestamp(instance.bought)),
            cpu: figures(quantity::CPU, &node.all.cpu, |level| level.millicores())?,
            memory: figures(quantity::MEMORY, &node.all.memory, |level| level.bytes())?,
            pressure: Some(node.pressure(now)),
            throttled: 0,
            oom_kills: 0,
            histograms: Histograms {
                cpu: node.all.cpu.abridged(),
                memory: node.all.memory.abridged(),
                joint: Joint::default().abridged(),
            },
            pods: encode_pods(&pods),
        };
        Some(json!({
            "apiVersion": "kerf.sh/v1alpha1", "kind": "NodeUsage",
            "metadata": {"name": instance.id, "uid": instance.ec2}, "spec": spec,
        }))
    }
}

/// Returns the amount that a pod would use now if the node had enough capacity.
fn uses(cluster_state: &ClusterState, pod: &Running, turn: usize) -> Size {
    let Some(app) = cluster_state.apps.get(&pod.app) else { return Size::default() };
    Size { cpu: app.cpu * app.uses * TURNS[turn % TURNS.len()] / 10_000, memory: app.memory * app.uses / 100 }
}

impl History {
    fn add(&mut self, size: Size, now: Moment) {
        let whole = |amount: i64| u64::try_from(amount).unwrap_or_default();
        self.cpu.add(whole(size.cpu) * 1_000_000, timestamp(now));
        self.memory.add(whole(size.memory), timestamp(now));
        self.samples += 1;
    }

    fn of_pod(&self, uid: &str) -> Option<PodUsage> {
        Some(PodUsage {
            id: PodId::from_uid(uid)?,
            cpu_p50: self.cpu.percentile(500)?,
            cpu_p95: self.cpu.percentile(950)?,
            cpu_peak: self.cpu.percentile(1000)?,
            memory_p95: self.memory.percentile(950)?,
            memory_peak: self.memory.percentile(1000)?,
            throttled: 0,
            pressure: UNKNOWN,
            oom_kills: 0,
            hours: u8::try_from(self.samples * REPORT / HOUR).unwrap_or(u8::MAX),
        })
    }
}

impl NodeHistory {
    /// Adds a sample. Usage is limited to the allocatable amounts; a greater demand is recorded as a stall.
    fn add(&mut self, wanted: Size, there_is: Size, now: Moment) {
        self.all.add(wanted.min(there_is), now);
        let short = |is: bool, last: Option<Moment>| if is { Some(now) } else { last };
        self.short_of_cpu = short(wanted.cpu > there_is.cpu, self.short_of_cpu);
        self.short_of_memory = short(wanted.memory > there_is.memory, self.short_of_memory);
    }

    fn pressure(&self, now: Moment) -> Pressure {
        let stalls = |last: Option<Moment>| if last.is_some_and(|at| now - at < REMEMBERED) { ALWAYS } else { 0 };
        Pressure { cpu: stalls(self.short_of_cpu), memory: stalls(self.short_of_memory), ..Pressure::default() }
    }
}

fn figures(resource: &str, spread: &Histogram, amount: impl Fn(Level) -> u64) -> Option<Figures> {
    let text = |per_mille| {
        let amount = i64::try_from(amount(spread.percentile(per_mille)?)).unwrap_or(i64::MAX);
        Some(Quantity(quantity::text(resource, amount)))
    };
    let (peak5m, peak1h, peak24h) = (text(1000)?, text(1000)?, text(1000)?);
    Some(Figures { p50: text(500)?, p95: text(950)?, p99: text(990)?, peak5m, peak1h, peak24h })
}
