//! Small model of kube-scheduler: binds pods to ready nodes with free capacity, the least allocated node first. The model has
//! the few constraints that the simulated workloads use.

use std::collections::BTreeMap;

use api::taint;
use planner::{InstanceType, Resources, Size};

use super::{World, objects};
use crate::app::App;

/// Node for pods.
struct Room {
    name: String,
    zone: String,
    on_demand: bool,
    allocatable: (i64, i64, i64),
    used: (i64, i64, i64),
    /// Requests of the pending pods that are nominated for this node; `awaits` counts those pods by workload.
    awaited: (i64, i64, i64),
    awaits: BTreeMap<String, usize>,
    /// Number of bound pods by workload.
    apps: BTreeMap<String, usize>,
    /// Nodes that are not open count for topology spread and accept no pods.
    open: bool,
}

/// Binds all pods that fit; the other pods remain pending.
pub(super) fn bind(world: &mut World) {
    let mut waiting: Vec<(i64, String)> = world
        .pods
        .iter()
        .filter(|(_, pod)| pod.node.is_none() && pod.ending.is_none())
        .map(|(name, pod)| (pod.created, name.clone()))
        .collect();
    if waiting.is_empty() {
        return;
    }
    waiting.sort();
    let mut rooms = rooms(world);
    for (_, name) in waiting {
        let app = &world.apps[&world.pods[&name].app];
        let expected = world.pods[&name].expected.as_ref();
        let expected = expected.and_then(|node| rooms.iter().position(|room| room.open && room.name == *node));
        // kube-scheduler uses a nomination for one attempt, successful or not.
        if let Some(position) = expected {
            rooms[position].awaits_no_more(app);
        }
        let place = place(&rooms, app, expected).map(|position| {
            rooms[position].take(app);
            (rooms[position].name.clone(), app.starts)
        });
        if expected.is_some() {
            world.expect(&name, None);
        }
        place_pod(world, &name, place);
    }
}

fn place_pod(world: &mut World, name: &str, place: Option<(String, i64)>) {
    match place {
        Some((node, starts)) => world.bind(name, &node, starts),
        None => {
            if let Some(pod) = world.pods.get_mut(name) {
                objects::set_unschedulable(&mut pod.object);
            }
        }
    }
}

fn rooms(world: &World) -> Vec<Room> {
    let mut rooms: Vec<Room> = Vec::new();
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, node) in &world.nodes {
        let Some(instance) = world.market.instances.get(name).filter(|_| node.is_initialized()) else { continue };
        known.insert(name, rooms.len());
        rooms.push(Room {
            name: name.clone(),
            zone: instance.zone.clone(),
            on_demand: instance.capacity_type == planner::CapacityType::OnDemand,
            allocatable: allocatable(world.market.kind(instance)),
            used: (0, 0, 0),
            awaited: (0, 0, 0),
            awaits: BTreeMap::new(),
            apps: BTreeMap::new(),
            open: node.is_ready() && !node.spec.unschedulable && !node.has_taint(taint::DISRUPTED, taint::NO_SCHEDULE),
        });
    }
    for pod in world.pods.values() {
        let room = pod.node.as_deref().and_then(|node| known.get(node));
        if let (Some(room), Some(app)) = (room, world.apps.get(&pod.app)) {
            rooms[*room].hold(app, pod.takes(), pod.ending.is_none());
        }
        let waits = pod.node.is_none() && pod.ending.is_none();
        let room = pod.expected.as_deref().filter(|_| waits).and_then(|node| known.get(node));
        if let (Some(room), Some(app)) = (room, world.apps.get(&pod.app)) {
            rooms[*room].await_one(app);
        }
    }
    rooms
}

fn allocatable(kind: &InstanceType) -> (i64, i64, i64) {
    let of = |name| kind.allocatable.get(name);
    (of(Resources::CPU), of(Resources::MEMORY), of(Resources::PODS))
}

impl Room {
    fn hold(&mut self, app: &App, takes: Size, counts: bool) {
        self.used = (self.used.0 + takes.cpu, self.used.1 + takes.memory, self.used.2 + 1);
        if counts {
            *self.apps.entry(app.name.clone()).or_default() += 1;
        }
    }

    fn take(&mut self, app: &App) {
        self.hold(app, app.size(), true);
    }

    fn await_one(&mut self, app: &App) {
        let (cpu, memory, pods) = self.awaited;
        self.awaited = (cpu + app.cpu, memory + app.memory, pods + 1);
        *self.awaits.entry(app.name.clone()).or_default() += 1;
    }

    fn awaits_no_more(&mut self, app: &App) {
        let (cpu, memory, pods) = self.awaited;
        self.awaited = (cpu - app.cpu, memory - app.memory, pods - 1);
        self.awaits.entry(app.name.clone()).and_modify(|count| *count -= 1);
        self.awaits.retain(|_, count| *count > 0);
    }

    fn fits(&self, app: &App) -> bool {
        let ((cpu, memory, pods), (all_cpu, all_memory, all_pods)) = (self.used, self.allocatable);
        let (awaited_cpu, awaited_memory, awaited_pods) = self.awaited;
        let room = cpu + awaited_cpu + app.cpu <= all_cpu
            && memory + awaited_memory + app.memory <= all_memory
            && pods + awaited_pods < all_pods;
        let shared = self.apps.contains_key(&app.name) || self.awaits.contains_key(&app.name);
        let suits = (self.on_demand || !app.on_demand) && !(app.apart && shared);
        self.open && room && suits
    }

    /// Returns the used shares of CPU and memory together, in thousandths. kube-scheduler prefers the lowest value.
    fn fullness(&self) -> i64 {
        let share = |used: i64, all: i64| used.saturating_mul(1000) / all.max(1);
        share(self.used.0, self.allocatable.0) + share(self.used.1, self.allocatable.1)
    }
}

/// Returns the nominated node if the pod fits, else the least allocated node with sufficient capacity, then by name.
fn place(rooms: &[Room], app: &App, expected: Option<usize>) -> Option<usize> {
    let zones = app.spread.then(|| zones(rooms, app));
    let least = zones.as_ref().and_then(|zones| zones.values().min().copied()).unwrap_or(0);
    let even = |room: &Room| zones.as_ref().is_none_or(|zones| zones[room.zone.as_str()] <= least);
    let suits = |room: &Room| room.fits(app) && even(room);
    let fitting = rooms.iter().enumerate().filter(|(_, room)| suits(room));
    let emptiest = || fitting.min_by_key(|(_, room)| (room.fullness(), &room.name)).map(|(position, _)| position);
    expected.filter(|position| suits(&rooms[*position])).or_else(emptiest)
}

/// Counts a workload's pods in each zone that has eligible nodes.
fn zones<'a>(rooms: &'a [Room], app: &App) -> BTreeMap<&'a str, usize> {
    let mut zones: BTreeMap<&str, usize> = BTreeMap::new();
    for room in rooms.iter().filter(|room| room.on_demand || !app.on_demand) {
        *zones.entry(&room.zone).or_default() += room.apps.get(&app.name).copied().unwrap_or(0);
    }
    zones
}
