//! Static NodePools: they keep as many nodes as they have replicas, with or without pending pods. Their launches are opened
//! before any pod is placed. Pods join them like any launch, and may narrow them within the template.

use crate::provision::Solver;
use crate::provision::capacity::node_template::TemplateId;
use crate::provision::daemon_overhead::{absent_daemons, count_daemons};
use crate::provision::demand::Attached;
use crate::provision::demand::dimensions::{Amounts, Load};
use crate::provision::new_node::NewNode;
use crate::provision::topology::bound_counts::{count_new_domains, guarded_keys};
use crate::provision::topology::{Domain, KeyId};

/// Opens launches for the replicas that static NodePools lack, within their limits.
pub(in crate::provision) fn keep_static_pools(solver: &mut Solver<'_>) {
    for base in solver.capacity.templates.fixed() {
        let pool = solver.capacity.templates.pool_template_of(base).pool;
        if pool.paused_until.is_some() {
            continue;
        }
        let missing = pool.replicas.unwrap_or(0).saturating_sub(pool.running);
        for _ in 0..missing {
            if !open_replica(solver, base) {
                break;
            }
        }
    }
}

/// Opens one launch, on a reservation if there is one; reports whether it succeeded.
pub(in crate::provision) fn open_replica(solver: &mut Solver<'_>, base: TemplateId) -> bool {
    if solver.capacity.templates.get(base).requirements.iter().any(|(_, set)| set.is_empty()) {
        return false;
    }
    let available = solver.capacity.reservations.available();
    let reserved = available.into_iter().find_map(|id| {
        let template = solver.capacity.templates.reserved(base, &id, &mut solver.topology)?;
        Some((replica(solver, template)?, Some(id)))
    });
    let Some((claim, id)) = reserved.or_else(|| Some((replica(solver, base)?, None))) else { return false };
    solver.capacity.headroom.exchange(solver.capacity.templates.get(base).pool_template, &[], &claim.held);
    id.iter().for_each(|id| solver.capacity.reservations.draw(id));
    let position = solver.new_nodes.add(claim);
    count_daemons(solver, position);
    true
}

/// Returns the template with fixed values for keys that must not remain open. Such keys could add unexpected domains to a
/// spread, or decide which DaemonSet pods are excluded. The chosen value has the fewest excluded DaemonSets, then the
/// fewest unexpected domains, then the lowest cost.
fn unsurprising(solver: &mut Solver<'_>, template: TemplateId) -> TemplateId {
    let guarded =
        guarded_keys(&solver.topology, template, &solver.capacity.templates, &solver.problem.requirement_sets);
    let mut keys = [guarded.clone(), solver.daemons.excluded_keys()].concat();
    keys.sort_unstable_by_key(|key| solver.topology.key_name(*key));
    keys.dedup();
    keys.into_iter().fold(template, |template, key| {
        let variants = variants(solver, template, key);
        let absent = |(absent, ..): &(usize, usize, i64, TemplateId)| *absent;
        let matters = guarded.contains(&key) || variants.iter().map(absent).min() < variants.iter().map(absent).max();
        let best = variants.into_iter().filter(|_| matters).min_by_key(|way| (way.0, way.1, way.2));
        best.map_or(template, |(.., child)| child)
    })
}

/// Returns the variants of a template for each value of an open key. A variant has the number of excluded DaemonSets, the
/// number of spreads with an unexpected domain, the cost, and the template.
fn variants(solver: &mut Solver<'_>, template: TemplateId, key: KeyId) -> Vec<(usize, usize, i64, TemplateId)> {
    if solver.capacity.templates.get(template).pins[key].is_some() {
        return Vec::new();
    }
    let values = solver.capacity.templates.values(template, key, &mut solver.topology);
    let way = |domain: &Domain| {
        let child = solver.capacity.templates.pinned(template, key, *domain, &mut solver.topology)?;
        let surprises = count_new_domains(
            &solver.topology,
            key,
            *domain,
            child,
            &solver.capacity.templates,
            &solver.problem.requirement_sets,
        );
        Some((
            absent_daemons(solver, child),
            surprises,
            solver.capacity.templates.get(child).entries.first()?.cost,
            child,
        ))
    };
    values.iter().filter_map(way).collect()
}

/// Returns an empty launch of a template, if the limits allow one.
fn replica(solver: &mut Solver<'_>, template: TemplateId) -> Option<NewNode> {
    let template = unsurprising(solver, template);
    let nothing: Amounts = solver.problem.input.dimensions.amounts(&crate::Resources::default());
    let load = Load { used: &nothing, ..Load::default() };
    let entry = solver.capacity.first_holding(template, 0, load)?;
    let lowered = solver.capacity.fewer_values(template, load);
    Some(NewNode {
        template,
        site: solver.next_site(),
        pods: Vec::new(),
        entry,
        slots: Vec::new(),
        ports: Vec::new(),
        attached: Attached::new(),
        held: solver.capacity.reservation(template, entry, load),
        least: solver.capacity.least_types(template, load),
        used: nothing.into_vec(),
        lowered,
    })
}
