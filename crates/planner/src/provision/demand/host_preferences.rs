//! Preferences for separate hosts: preferred anti-affinity by hostname, and spread over hosts with `ScheduleAnyway`.

use std::collections::BTreeSet;

use super::Demand;
use crate::provision::topology::GroupId;
use crate::{Spread, label};

/// Returns the first preference level without preferences for separate hosts. `None` if the pods have none, or if another
/// preference would have to be dropped before.
pub(in crate::provision) fn shared_level(demand: &Demand<'_>) -> Option<usize> {
    let shape = demand.shape;
    let apart = shape.prefers_apart.len();
    let soft = || shape.spread.iter().filter(|spread| !spread.hard);
    let drops_spread = shape.preferred.is_empty() && soft().all(Spread::prefers_separate_hosts);
    let level = if drops_spread { apart + soft().count() } else { apart };
    let is_first = shape.prefers_near.is_empty() && shape.prefers_apart.iter().all(|it| it.term.key == label::HOSTNAME);
    (is_first && level > 0 && level < demand.levels.len()).then_some(level)
}

/// Returns the pods that pods of this shape prefer not to share a host with; `None` without a [`shared_level`].
pub(in crate::provision) fn avoided_pods(demand: &Demand<'_>) -> Option<GroupId> {
    let kept: BTreeSet<GroupId> = demand.levels[shared_level(demand)?].rules.iter().map(|rule| rule.group).collect();
    demand.levels[0].rules.iter().find(|rule| rule.own && !kept.contains(&rule.group)).map(|rule| rule.group)
}
