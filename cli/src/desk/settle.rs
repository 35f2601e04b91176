//! Objects that no controller has looked at count as sound: what the API server and the controllers would have written
//! into them is written here.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::objects::{Namespace, Node, NodeCondition};
use api::status::{self, Condition};
use api::{NodeOverlay, NodePool, condition};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::{Gate, Gates};
use crate::input::Objects;
use crate::table::counted;

/// Leaves out what a closed gate shuts out, and says what is honoured though its gate is closed by default.
pub(super) fn gates(objects: &mut Objects, gates: &Gates) -> Vec<String> {
    let mut warnings = Vec::new();
    let static_pools = objects.pools.iter().filter(|pool| pool.spec.replicas.is_some()).count();
    let rows = [
        ("NodeOverlay", gates.overlays, objects.overlays.len(), "NodeOverlay"),
        ("StaticCapacity", gates.static_pools, static_pools, "static NodePool"),
        ("CapacityBuffer", gates.buffers, objects.buffers.len(), "CapacityBuffer"),
    ];
    for (name, gate, count, what) in rows.into_iter().filter(|(_, _, count, _)| *count > 0) {
        let what = counted(count, what);
        match gate {
            Gate::Open => {}
            Gate::Default => warnings.push(format!(
                "{what} honoured: the controller does so only with feature gate {name}=true, which is off by default"
            )),
            Gate::Closed => warnings.push(format!("{what} left out: feature gate {name} is off")),
        }
    }
    if gates.overlays == Gate::Closed {
        objects.overlays.clear();
    }
    if gates.static_pools == Gate::Closed {
        objects.pools.retain(|pool| pool.spec.replicas.is_none());
    }
    if gates.buffers == Gate::Closed {
        objects.buffers.clear();
    }
    warnings
}

/// Writes what is missing, and says which pools are not used.
pub(super) fn settle(objects: &mut Objects, now: Timestamp) -> Vec<String> {
    let mut warnings: Vec<String> =
        objects.pools.iter_mut().filter_map(|pool| self::pool(Arc::make_mut(pool), now)).collect();
    if objects.pools.is_empty() {
        warnings.push("there is no NodePool among the objects, so no node can be launched".to_owned());
    }
    warnings.extend(unready_overlays(objects));
    objects.nodes.iter_mut().for_each(|one| node(Arc::make_mut(one)));
    namespaces(objects);
    warnings
}

fn pool(pool: &mut NodePool, now: Timestamp) -> Option<String> {
    let name = pool.metadata.name.clone().unwrap_or_default();
    if pool.metadata.deletion_timestamp.is_some() {
        return Some(format!("NodePool {name} is being deleted and is not used"));
    }
    let conditions = &mut pool.status.get_or_insert_default().conditions;
    match status::find(conditions, condition::READY) {
        Some(ready) if ready.is_true() => None,
        Some(ready) => Some(format!("NodePool {name} is not Ready and is not used: {}", ready.message)),
        None => {
            conditions.push(Condition {
                type_: condition::READY.to_owned(),
                status: condition::TRUE.to_owned(),
                observed_generation: 0,
                last_transition_time: Time(now),
                reason: condition::READY.to_owned(),
                message: String::new(),
            });
            None
        }
    }
}

/// Leaves out overlays that their controller refused.
fn unready_overlays(objects: &mut Objects) -> Vec<String> {
    let refused = |overlay: &NodeOverlay| {
        let conditions = overlay.status.as_ref().map_or(&[][..], |status| &status.conditions);
        status::find(conditions, condition::READY).filter(|ready| ready.is_false()).map(|ready| ready.message.clone())
    };
    let told = objects.overlays.iter().filter_map(|overlay| {
        let name = overlay.metadata.name.as_deref().unwrap_or_default();
        refused(overlay).map(|why| format!("NodeOverlay {name} is not Ready and is not used: {why}"))
    });
    let told = told.collect();
    objects.overlays.retain(|overlay| refused(overlay).is_none());
    told
}

fn node(node: &mut Node) {
    if node.status.allocatable.is_empty() {
        node.status.allocatable = node.status.capacity.clone();
    }
    if node.status.conditions.is_empty() {
        node.status.conditions.push(NodeCondition {
            type_: condition::READY.to_owned(),
            status: condition::TRUE.to_owned(),
            ..NodeCondition::default()
        });
    }
}

/// Every namespace that an object is in exists.
fn namespaces(objects: &mut Objects) {
    let known: BTreeSet<&str> = objects.namespaces.iter().map(|space| space.name()).collect();
    let named: BTreeSet<&str> = objects.pods.iter().map(|pod| pod.namespace()).collect();
    let missing: Vec<String> = named.difference(&known).map(|name| (*name).to_owned()).collect();
    for name in missing {
        let metadata = ObjectMeta { name: Some(name), ..ObjectMeta::default() };
        objects.namespaces.push(Arc::new(Namespace { metadata }));
    }
    objects.namespaces.sort_by(|one, other| one.name().cmp(other.name()));
}
