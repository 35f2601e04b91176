//! A small kube-scheduler: it binds pods to ready nodes with room, the emptiest first, by the few rules that workloads here use.

use std::collections::BTreeMap;

use api::taint;
use planner::{InstanceType, Resources, Size};

use super::{World, objects};
use crate::app::App;

/// A node that takes pods.
struct Room {
    name: String,
    zone: String,
    on_demand: bool,
    allocatable: (i64, i64, i64),
    used: (i64, i64, i64),
    /// Pods by workload.
    apps: BTreeMap<String, usize>,
    /// Closed nodes count for spreads and take nobody.
    open: bool,
}

/// Binds whom it can; the others wait for another node.
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
        let place = place(&rooms, app).map(|position| {
            rooms[position].take(app);
            (rooms[position].name.clone(), app.starts)
        });
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
            apps: BTreeMap::new(),
            open: node.is_ready() && !node.spec.unschedulable && !node.has_taint(taint::DISRUPTED, taint::NO_SCHEDULE),
        });
    }
    for pod in world.pods.values() {
        let room = pod.node.as_deref().and_then(|node| known.get(node));
        if let (Some(room), Some(app)) = (room, world.apps.get(&pod.app)) {
            rooms[*room].hold(app, pod.takes(), pod.ending.is_none());
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

    fn fits(&self, app: &App) -> bool {
        let ((cpu, memory, pods), (all_cpu, all_memory, all_pods)) = (self.used, self.allocatable);
        let room = cpu + app.cpu <= all_cpu && memory + app.memory <= all_memory && pods < all_pods;
        let suits = (self.on_demand || !app.on_demand) && !(app.apart && self.apps.contains_key(&app.name));
        self.open && room && suits
    }

    /// Used shares of CPU and memory together, in thousandths: the scheduler's own preference is for the least.
    fn fullness(&self) -> i64 {
        let share = |used: i64, all: i64| used.saturating_mul(1000) / all.max(1);
        share(self.used.0, self.allocatable.0) + share(self.used.1, self.allocatable.1)
    }
}

/// The emptiest node that the pod may go to, then by name.
fn place(rooms: &[Room], app: &App) -> Option<usize> {
    let zones = app.spread.then(|| zones(rooms, app));
    let least = zones.as_ref().and_then(|zones| zones.values().min().copied()).unwrap_or(0);
    let even = |room: &Room| zones.as_ref().is_none_or(|zones| zones[room.zone.as_str()] <= least);
    let fitting = rooms.iter().enumerate().filter(|(_, room)| room.fits(app) && even(room));
    fitting.min_by_key(|(_, room)| (room.fullness(), &room.name)).map(|(position, _)| position)
}

/// How many of a workload's pods are in each zone in which it may have nodes.
fn zones<'a>(rooms: &'a [Room], app: &App) -> BTreeMap<&'a str, usize> {
    let mut zones: BTreeMap<&str, usize> = BTreeMap::new();
    for room in rooms.iter().filter(|room| room.on_demand || !app.on_demand) {
        *zones.entry(&room.zone).or_default() += room.apps.get(&app.name).copied().unwrap_or(0);
    }
    zones
}
