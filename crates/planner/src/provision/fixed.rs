//! Static pools: as many nodes as they have replicas, made straight from the template, whoever waits.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::{Launch, MicroDollars, Pool, Purpose, Resources};

use super::Solver;
use super::dimensions::Dimensions;
use super::finish::written;
use super::frame::{CapacityTypes, Entry};
use super::limits::{Footprint, Headroom};
use super::template::{self, DaemonDemand, Template};

impl Solver<'_> {
    /// Launches for the replicas that static pools lack, within their limits.
    pub(super) fn keep_static_pools(&self) -> Vec<Launch> {
        let mut pools: Vec<&Pool> = self.snapshot.pools.iter().filter(|pool| pool.replicas.is_some()).collect();
        pools.sort_by_key(|pool| Reverse((pool.weight, pool.name.as_str())));
        let daemons = template::daemons(self.snapshot);
        pools.into_iter().flat_map(|pool| self.replicas(pool, &daemons)).collect()
    }

    fn replicas(&self, pool: &Pool, daemons: &[DaemonDemand<'_>]) -> Vec<Launch> {
        let missing = pool.replicas.unwrap_or(0).saturating_sub(pool.running);
        if missing == 0 {
            return Vec::new();
        }
        let template = Template::of(self.snapshot, pool, daemons, &Dimensions::of(self.snapshot));
        let contradicts = template.requirements.iter().any(|(_, set)| set.is_empty());
        let Some(launch) = self.straight_from(&template).filter(|_| !contradicts) else { return Vec::new() };
        let mut headroom = Headroom::of(std::iter::once(pool));
        let listed = template.candidates.iter().filter(|it| launch.instance_types.contains(&it.offer.kind.name));
        let largest = listed.map(|candidate| &candidate.footprint);
        let held = largest.fold(Footprint::default(), |held, it| super::limits::maximum(&held, it));
        let mut launches = Vec::new();
        for _ in 0..missing {
            if headroom.first_exceeded(0, &held, &[]).is_some() {
                break;
            }
            headroom.exchange(0, &[], &held);
            launches.push(launch.clone());
        }
        launches
    }

    /// A launch that any type of the pool may serve; `None` when nothing can be had.
    fn straight_from(&self, template: &Template<'_>) -> Option<Launch> {
        let all = 0..template.candidates.len();
        let mut entries: Vec<Entry> = all.filter_map(|it| template.priced_any(it)).collect();
        let name = |entry: &Entry| template.candidates[entry.candidate].offer.kind.name.clone();
        entries.sort_by_key(|entry| (entry.cost, name(entry)));
        entries.truncate(self.snapshot.policy.max_instance_types.max(1));
        let sold_as = entries.iter().fold(CapacityTypes::default(), |all, entry| all.with(entry.sold_as));
        Some(Launch {
            pool: template.pool.name.clone(),
            requirements: written(&template.requirements, template, sold_as),
            instance_types: Arc::new(entries.iter().map(name).collect()),
            requests: Resources::default(),
            min_instance_types: None,
            pods: Vec::new(),
            price: MicroDollars(entries.iter().map(|entry| entry.price).min()?),
            purpose: Purpose::Static,
            min_values_relaxed: false,
        })
    }
}
