//! View of a NodePool from the index.

use std::sync::Arc;

use jiff::Timestamp;

use super::{NodePoolView, PoolMemory};
use crate::state::attempts::replacements::ReplacementHealth;
use crate::state::index::Index;
use crate::state::registration_health::RegistrationHealth;

/// Returns the view of a NodePool, without what only its reconcile knows.
#[must_use]
pub fn view(index: &Index, name: &str, now: Timestamp) -> Option<NodePoolView> {
    let pool = Arc::clone(index.pools.get(name)?);
    let claims = index.claims_of_pool(name).map(|claim| {
        let node = index.node_of_claim(claim).cloned();
        (Arc::clone(claim), node)
    });
    Some(NodePoolView {
        class: index.classes.get(&pool.spec.template.spec.node_class_ref.name).cloned(),
        claims: claims.collect(),
        daemonsets: index.daemonsets.values().cloned().collect(),
        registrations: RegistrationHealth::Unknown,
        replacements: ReplacementHealth::Unknown,
        launches: None,
        stale: Vec::new(),
        held_notices: None,
        memory: PoolMemory::default(),
        permissions: index.permissions,
        pool,
        now,
    })
}
