//! Remaining limits of each NodePool for new nodes: resources, number of nodes, and cost. Further limits cover the cost of several
//! NodePools together. What a commitment leaves is a limit for the launches that it pays for.
//!
//! A node releases its resources when it leaves. Its cost remains until it is gone, because EC2 bills it until then: otherwise a node
//! and its replacement together would exceed the limit.

use std::collections::BTreeMap;

use crate::{InstanceType, Launch, MicroDollars, Offer, PaidShare, Pool, Requirements, Resources, Snapshot};

use super::pool_template::PoolTemplate;

/// Name of the limit of a NodePool's cost, as in its annotation.
const COST: &str = "kerf.sh/max-cost-per-hour";
/// Headroom without a limit, far from an overflow.
const UNLIMITED: i64 = 1 << 60;

/// Amounts of one node in its NodePool's limits: resources in the order of their names, then the cost if it is limited, then what it uses
/// of a commitment; empty without limits.
pub(in crate::provision) type Footprint = Box<[i64]>;

/// Headroom of every NodePool and commitment; negative when a limit was lowered.
#[derive(Clone)]
pub(in crate::provision) struct Headroom {
    /// By pool template, what its launches count for.
    accounts: Vec<Account>,
    pools: Vec<PoolHeadroom>,
    shared: Vec<SharedHeadroom>,
    commitments: Vec<SharedHeadroom>,
    least_types: usize,
    generation: u64,
}

/// Limits of the launches of a pool template, by position.
#[derive(Clone, Copy)]
struct Account {
    pool: usize,
    commitment: Option<usize>,
}

#[derive(Clone)]
struct PoolHeadroom {
    names: Vec<String>,
    left: Vec<i64>,
    /// Position of the cost.
    cost: Option<usize>,
    /// Positions of the limits of the cost that it shares with other NodePools.
    shared: Vec<usize>,
}

/// Amount that several NodePools may use together.
#[derive(Clone)]
struct SharedHeadroom {
    name: String,
    left: i64,
}

/// Highest cost of a launch with all of its types.
#[derive(Clone, Copy)]
pub(in crate::provision) struct CostShare {
    position: usize,
    /// Its share of what is left for all launches.
    fair: i64,
    /// At most twice the cost of the cheapest type, so that launches in flight do not hold much more money than they will spend.
    modest: i64,
    /// Number of types that spot needs; a launch with fewer gets its whole share.
    least_types: usize,
}

impl CostShare {
    /// Reports whether a launch that lists this many types may list another one with these amounts.
    pub(in crate::provision) fn allows(self, wanted: &[i64], listed: usize) -> bool {
        wanted[self.position] <= if listed < self.least_types { self.fair } else { self.modest }
    }
}

impl Headroom {
    pub(in crate::provision) fn new(snapshot: &Snapshot, templates: &[PoolTemplate<'_>]) -> Self {
        let limits = snapshot.spend_limits.iter();
        let shared = limits.map(|it| SharedHeadroom { name: it.name.clone(), left: it.limit.0 - it.cost.0 }).collect();
        let commitments = snapshot.commitments.iter();
        let commitments = commitments.map(|it| SharedHeadroom { name: it.name.clone(), left: it.left }).collect();
        let mut pools: Vec<PoolHeadroom> = Vec::new();
        let mut known: BTreeMap<&str, usize> = BTreeMap::new();
        let mut accounts = Vec::new();
        for template in templates {
            let pool = *known.entry(&template.pool.name).or_insert_with(|| {
                pools.push(PoolHeadroom::new(snapshot, template.pool));
                pools.len() - 1
            });
            accounts.push(Account { pool, commitment: template.commitment });
        }
        let least_types = snapshot.policy.least_spot_types;
        Self { accounts, pools, shared, commitments, least_types, generation: 0 }
    }

    /// Returns a number that changes with every possible change of [`Self::first_exceeded`].
    pub(in crate::provision) fn generation(&self) -> u64 {
        self.generation
    }

    /// Reports whether the NodePool of a template has limits.
    pub(in crate::provision) fn is_bounded(&self, template: usize) -> bool {
        !self.pool(template).names.is_empty()
    }

    /// Reports whether launches of a template count for limits or for a commitment.
    pub(in crate::provision) fn is_counted(&self, template: usize) -> bool {
        self.is_bounded(template) || self.accounts[template].commitment.is_some()
    }

    fn pool(&self, template: usize) -> &PoolHeadroom {
        &self.pools[self.accounts[template].pool]
    }

    /// Returns the commitment that pays for the launches of a template, and the position of its amount in their footprints.
    fn commitment(&self, template: usize) -> Option<(&SharedHeadroom, usize)> {
        let position = self.pool(template).names.len();
        self.accounts[template].commitment.map(|commitment| (&self.commitments[commitment], position))
    }

    /// Returns the first limit, by name, of which less is left than `wanted`, after the release of `held`.
    pub(in crate::provision) fn first_exceeded(&self, template: usize, wanted: &[i64], held: &[i64]) -> Option<&str> {
        let bounds = self.pool(template);
        let more = |position: usize| wanted[position] - held.get(position).copied().unwrap_or(0);
        let own = (0..bounds.names.len()).find(|position| more(*position) > bounds.left[*position]);
        let together = || {
            let added = more(bounds.cost?);
            self.shared_limits(template).find(|limit| added > limit.left).map(|limit| limit.name.as_str())
        };
        let committed = || {
            let (commitment, position) = self.commitment(template)?;
            (more(position) > commitment.left).then_some(commitment.name.as_str())
        };
        own.map(|position| bounds.names[position].as_str()).or_else(together).or_else(committed)
    }

    fn shared_limits(&self, template: usize) -> impl Iterator<Item = &SharedHeadroom> {
        self.pool(template).shared.iter().map(|position| &self.shared[*position])
    }

    /// Reports whether the limits allow `wanted` after the release of `held`.
    pub(in crate::provision) fn allows(&self, template: usize, wanted: &[i64], held: &[i64]) -> bool {
        self.first_exceeded(template, wanted, held).is_none()
    }

    /// Returns what a launch with these reserved amounts may cost, or use of its commitment, with all of its types, if this many launches
    /// share what is left. `None` without a limit.
    pub(in crate::provision) fn cost_share(&self, template: usize, held: &[i64], launches: usize) -> Option<CostShare> {
        let bounds = self.pool(template);
        let (position, left) = match self.commitment(template) {
            Some((commitment, position)) => (position, commitment.left),
            None => (bounds.cost?, self.least_cost_left(template)),
        };
        let reserved = held.get(position).copied().unwrap_or(0);
        let left = left.max(0);
        let fair = reserved + left / i64::try_from(launches.max(1)).unwrap_or(i64::MAX);
        Some(CostShare { position, fair, modest: fair.min(2 * reserved), least_types: self.least_types })
    }

    fn least_cost_left(&self, template: usize) -> i64 {
        let bounds = self.pool(template);
        let own = bounds.cost.map_or(UNLIMITED, |position| bounds.left[position]);
        self.shared_limits(template).map(|limit| limit.left).fold(own, i64::min)
    }

    /// Restores earlier headroom. Increases the generation, so that results cached in between become invalid.
    pub(in crate::provision) fn restore(&mut self, before: Self) {
        (self.pools, self.shared, self.commitments) = (before.pools, before.shared, before.commitments);
        self.generation += 1;
    }

    /// Reserves `wanted` in place of `held`.
    pub(in crate::provision) fn exchange(&mut self, template: usize, held: &[i64], wanted: &[i64]) {
        let Account { pool, commitment } = self.accounts[template];
        let bounds = &mut self.pools[pool];
        let more = |position: usize| wanted[position] - held.get(position).copied().unwrap_or(0);
        for (position, left) in bounds.left.iter_mut().enumerate() {
            let change = more(position);
            *left -= change;
            if bounds.cost == Some(position) {
                bounds.shared.iter().for_each(|limit| self.shared[*limit].left -= change);
            }
            self.generation += u64::from(change != 0);
        }
        if let Some(commitment) = commitment {
            let change = more(bounds.names.len());
            self.commitments[commitment].left -= change;
            self.generation += u64::from(change != 0);
        }
    }

    /// Returns what a removed node uses of its commitments.
    pub(in crate::provision) fn release(&mut self, paid: &[PaidShare]) {
        for share in paid {
            let used = self.commitments.iter_mut().find(|it| it.name == share.commitment);
            used.into_iter().for_each(|it| it.left += share.amount);
            self.generation += 1;
        }
    }
}

impl PoolHeadroom {
    fn new(snapshot: &Snapshot, pool: &Pool) -> Self {
        let limits = pool.limits.iter().flat_map(Resources::iter);
        let (mut names, mut left): (Vec<String>, Vec<i64>) =
            limits.map(|(name, limit)| (name.to_owned(), limit - pool.usage.get(name))).unzip();
        let cost = snapshot.limits_cost_of(pool).then_some(names.len());
        if cost.is_some() {
            names.push(COST.to_owned());
            left.push(pool.cost_limit.map_or(UNLIMITED, |limit| limit.0 - pool.cost.0));
        }
        let limits = snapshot.spend_limits.iter().enumerate();
        let shared = limits.filter(|(_, it)| it.pools.contains(&pool.name)).map(|(position, _)| position).collect();
        Self { names, left, cost, shared }
    }
}

/// Returns the amounts of a node of a type: its capacity, one node, and further ones: its cost if that is limited, and what it uses of a
/// commitment.
pub(in crate::provision) fn footprint(
    pool: &Pool,
    kind: &InstanceType,
    further: impl IntoIterator<Item = i64>,
) -> Footprint {
    let amount = |name: &str| if name == Resources::NODES { 1 } else { kind.capacity.get(name) };
    let resources = pool.limits.iter().flat_map(Resources::iter).map(|(name, _)| amount(name));
    resources.chain(further).collect()
}

/// Returns the highest hourly cost of the node of a launch, with the fee of its NodePool: EC2 selects any of its offerings.
#[must_use]
pub fn highest_cost(snapshot: &Snapshot, launch: &Launch) -> MicroDollars {
    let pool = snapshot.pools.iter().find(|pool| pool.name == launch.pool);
    let types = pool.and_then(|pool| snapshot.catalogues.get(pool.catalogue)).map_or(&[][..], |it| &it.types);
    let requirements: Requirements = launch.requirements.iter().collect();
    let listed = types.iter().filter(|kind| launch.instance_types.contains(&kind.name)).map(Offer::new);
    let price = listed.filter_map(|offer| offer.highest_price(&requirements)).max().unwrap_or_default();
    MicroDollars(price.0 + pool.map_or(0, |pool| pool.node_fee.0))
}

/// Returns the greater amount of every resource; an empty list counts as zero.
pub(in crate::provision) fn maximum(one: &[i64], other: &[i64]) -> Footprint {
    let longer = one.len().max(other.len());
    let at = |list: &[i64], position: usize| list.get(position).copied().unwrap_or(0);
    (0..longer).map(|position| at(one, position).max(at(other, position))).collect()
}
