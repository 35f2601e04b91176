//! What agents report of their nodes: pods use a share of their requests, so a node uses the sum.

use std::sync::Arc;

use api::nodeusage::{Figures, Histograms, NodeUsageSpec};
use api::objects::NodeReport;
use api::status::Time;
use api::usage::{Histogram, Joint, Usage, encode_pods};
use api::{Quantity, quantity};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::clock::timestamp;
use crate::world::World;

/// Every living agent says what its node uses now.
pub fn refresh(world: &mut World) {
    let living = world.market.instances.values().filter(|it| !it.agent_dead && world.nodes.contains_key(&it.id));
    let reports: Vec<(String, Arc<NodeReport>)> =
        living.filter_map(|it| Some((it.id.clone(), Arc::new(report(world, &it.id, it.bought)?)))).collect();
    world.reports.extend(reports);
}

fn report(world: &World, node: &str, since: i64) -> Option<NodeReport> {
    let apps = world.pods_on(node).filter_map(|(_, pod)| world.apps.get(&pod.app));
    let (cpu, memory) =
        apps.fold((0, 0), |(cpu, memory), app| (cpu + app.cpu * app.uses / 100, memory + app.memory * app.uses / 100));
    let spec = NodeUsageSpec {
        instance: node.to_owned(),
        measured_at: Time(timestamp(world.now)),
        since: Time(timestamp(since)),
        cpu: figures(quantity::CPU, cpu),
        memory: figures(quantity::MEMORY, memory),
        pressure: None,
        throttled: 0,
        oom_kills: 0,
        histograms: Histograms {
            cpu: Histogram::default().whole(),
            memory: Histogram::default().whole(),
            joint: Joint::default().whole(),
        },
        pods: encode_pods(&[]),
    };
    let metadata = ObjectMeta { name: Some(node.to_owned()), ..ObjectMeta::default() };
    Some(NodeReport { metadata, usage: Usage::read(&spec).ok()? })
}

fn figures(resource: &str, amount: i64) -> Figures {
    let text = || Quantity(quantity::text(resource, amount));
    Figures { p50: text(), p95: text(), p99: text(), peak5m: text(), peak1h: text(), peak24h: text() }
}
