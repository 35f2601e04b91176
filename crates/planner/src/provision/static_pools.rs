//! Static NodePools: they keep as many nodes as they have replicas, with or without pending pods. Their launches are opened
//! before any pod is placed. Pods join them like any launch, and may narrow them within the template.

use super::Solver;
use super::dimensions::Amounts;
use super::existing_node::Attached;
use super::new_node::NewNode;
use super::node_template::TemplateId;
use super::topology::{Domain, KeyId};

impl Solver<'_> {
    /// Opens launches for the replicas that static NodePools lack, within their limits.
    pub(super) fn keep_static_pools(&mut self) {
        for base in self.frames.fixed() {
            let pool = self.frames.template_of(base).pool;
            let missing = pool.replicas.unwrap_or(0).saturating_sub(pool.running);
            for _ in 0..missing {
                if !self.open_replica(base) {
                    break;
                }
            }
        }
    }

    /// Returns the template of the static NodePool with this name, if it lacks nodes.
    pub(super) fn fixed_frame(&self, pool: &str) -> Option<TemplateId> {
        self.frames.fixed().find(|base| self.frames.template_of(*base).pool.name == pool)
    }

    /// Opens one launch, on a reservation if there is one; reports whether it succeeded.
    pub(super) fn open_replica(&mut self, base: TemplateId) -> bool {
        if self.frames.get(base).requirements.iter().any(|(_, set)| set.is_empty()) {
            return false;
        }
        let available = self.reservations.available();
        let reserved = available.into_iter().find_map(|id| {
            let frame = self.frames.reserved(base, &id, &mut self.topology)?;
            Some((self.replica(frame)?, Some(id)))
        });
        let bought = |it: &mut Self| Some((it.replica(base)?, None));
        let Some((claim, id)) = reserved.or_else(|| bought(self)) else { return false };
        self.headroom.exchange(self.frames.get(base).template, &[], &claim.held);
        id.iter().for_each(|id| self.reservations.draw(id));
        let position = self.claims.add(claim);
        self.count_daemons(position);
        true
    }

    /// Returns the template with fixed values for keys that must not remain open. Such keys could add unexpected domains to a
    /// spread, or decide which DaemonSet pods are excluded. The chosen value has the fewest excluded DaemonSets, then the
    /// fewest unexpected domains, then the lowest cost.
    fn unsurprising(&mut self, frame: TemplateId) -> TemplateId {
        let guarded = self.topology.guarded_keys(frame, &self.frames, &self.wants);
        let mut keys = [guarded.clone(), self.daemon_overhead.barred_keys()].concat();
        keys.sort_unstable_by_key(|key| self.topology.key_name(*key));
        keys.dedup();
        keys.into_iter().fold(frame, |frame, key| {
            let ways = self.ways(frame, key);
            let absent = |(absent, ..): &(usize, usize, i64, TemplateId)| *absent;
            let matters = guarded.contains(&key) || ways.iter().map(absent).min() < ways.iter().map(absent).max();
            let best = ways.into_iter().filter(|_| matters).min_by_key(|way| (way.0, way.1, way.2));
            best.map_or(frame, |(.., child)| child)
        })
    }

    /// Returns the variants of a template for each value of an open key. A variant has the number of excluded DaemonSets, the
    /// number of spreads with an unexpected domain, the cost, and the template.
    fn ways(&mut self, frame: TemplateId, key: KeyId) -> Vec<(usize, usize, i64, TemplateId)> {
        if self.frames.get(frame).pins[key].is_some() {
            return Vec::new();
        }
        let values = self.frames.values(frame, key, &mut self.topology);
        let way = |domain: &Domain| {
            let child = self.frames.pinned(frame, key, *domain, &mut self.topology)?;
            let surprises = self.topology.surprises(key, *domain, child, &self.frames, &self.wants);
            Some((self.absent_daemons(child), surprises, self.frames.get(child).entries.first()?.cost, child))
        };
        values.iter().filter_map(way).collect()
    }

    /// Returns an empty launch of a template, if the limits allow one.
    fn replica(&mut self, frame: TemplateId) -> Option<NewNode> {
        let frame = self.unsurprising(frame);
        let nothing: Amounts = self.dimensions.amounts(&crate::Resources::default());
        let entry = self.first_holding(frame, 0, &nothing, &[], &[])?;
        let lowered = self.fewer_values(frame, &nothing, &[]);
        Some(NewNode {
            frame,
            site: self.next_site(),
            pods: Vec::new(),
            entry,
            seats: Vec::new(),
            ports: Vec::new(),
            attached: Attached::new(),
            held: self.reservation(frame, entry, &nothing, &[], &[]),
            least: self.least_types_for(frame, &nothing, &[]),
            used: nothing.into_vec(),
            lowered,
        })
    }
}
