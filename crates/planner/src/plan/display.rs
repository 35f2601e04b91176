//! Text of every reason as one plain sentence, the same in events, logs and on the command line.

mod nodes;

use std::fmt::{self, Display, Formatter};

use crate::utilization_limit::BUSY;
use crate::{MicroDollars, Operator, Pressure, Requirement, Resources, label};

use super::{
    CommandCause, CommandReason, LabelMismatch, Overload, PlacementReason, PodVerdict, PoolMismatch, Preference,
    Shortfall, TopologyReason, TypesMismatch, UnschedulableReason,
};

impl Display for PodVerdict {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Existing { node, why, dropped } => {
                write!(out, "goes to node {node}{}", placement_note(*why))?;
                without(out, dropped)
            }
            Self::Launch { launch, why, dropped } => {
                write!(out, "goes to new node {}{}", launch + 1, placement_note(*why))?;
                without(out, dropped)
            }
            Self::Unschedulable { pools } if pools.is_empty() => out.write_str("no NodePool for pending pods is ready"),
            Self::Unschedulable { pools } => list(out, pools, "; "),
            Self::Postponed => out.write_str("not evaluated: step budget exhausted, continues in the next plan"),
        }
    }
}

impl Display for PoolMismatch {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "NodePool {}: {}", self.pool, self.miss)
    }
}

impl Display for UnschedulableReason {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taint { taint } => write!(out, "pod does not tolerate taint {taint}"),
            Self::Requirement { key, asked, .. } if asked.is_empty() => {
                write!(out, "requirements of the NodePool on label {key} contradict each other")
            }
            Self::Requirement { key, asked, .. } if asked.iter().any(is_impossible) => {
                write!(out, "requirements of the pod on label {key} contradict each other")
            }
            Self::Requirement { key, own, asked, near } => {
                match own.is_empty() {
                    true => write!(out, "label {key} is not defined, the pod requires {}", requirement_list(asked))?,
                    false => write!(
                        out,
                        "label {key} is {}, the pod requires {}",
                        requirement_list(own),
                        requirement_list(asked)
                    )?,
                }
                near.iter().try_for_each(|near| write!(out, " (did you mean {near}?)"))
            }
            Self::Topology { standing, key } => write!(out, "{standing} (topologyKey {key})"),
            Self::Limit { resource } => write!(out, "a new node would exceed the limit for {resource}"),
            Self::MinValues { key, asked, found } => {
                write!(out, "minValues requires {asked} values of {key}, only {found} are available")
            }
            Self::SpotOnly => write!(
                out,
                "only spot is available, and {} requires on-demand for this pod: allow on-demand in the NodePool, \
                 or lower the base",
                label::ON_DEMAND_BASE
            ),
            Self::Inactive => out.write_str("it has no active time now (kerf.sh/active-times)"),
            Self::Paused { failures: 0, .. } => {
                out.write_str("a new node for the pod is up, and kube-scheduler has not bound the pod yet")
            }
            Self::Paused { failures, .. } => write!(
                out,
                "{} gave the pod no place, so the next one waits: check taints that other programs add to new nodes, \
                 and events of NodeClaims",
                last_attempts(*failures, ["launch", "launches"])
            ),
            Self::Group(shortage) => write!(out, "{shortage}"),
            Self::Types(miss) => write!(out, "{miss}"),
        }
    }
}

impl Display for TypesMismatch {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if self.total == 0 {
            return out.write_str("no instance types");
        }
        let small = self.small.iter().map(|(name, count)| {
            let amounts = self.shortfalls.iter().find(|it| it.resource == *name).map(ToString::to_string);
            (*count, format!("have too little {name}{}", amounts.unwrap_or_default()))
        });
        let labels = self.labels.iter().map(|miss| (miss.types, miss.to_string()));
        let mut parts: Vec<(usize, String)> = small.chain(labels).collect();
        parts.push((self.unavailable, format!("are unavailable{}", self.obstacles())));
        parts.retain(|(count, _)| *count > 0);
        for (position, (count, what)) in parts.iter().enumerate() {
            match position {
                0 => write!(out, "{count} of {} instance types {what}", self.total)?,
                _ => write!(out, ", {count} {what}")?,
            }
        }
        for (position, relief) in self.reliefs.iter().enumerate() {
            match position {
                0 => write!(out, "; without the requirement on {} {} would match", relief.key, relief.types)?,
                _ => write!(out, ", without that on {} {}", relief.key, relief.types)?,
            }
        }
        if self.suspicious_cpu {
            out.write_str("; the pod requests a million CPUs or more: did you mean m instead of M?")?;
        }
        Ok(())
    }
}

impl TypesMismatch {
    /// Returns the known reasons of unavailable types, in parentheses.
    fn obstacles(&self) -> String {
        let unpriced = match self.unpriced {
            0 => None,
            count => Some(format!("the price of {count} is unknown: set it with a NodeOverlay")),
        };
        let shifted =
            self.shifted.iter().map(|(zone, count)| format!("a zonal shift excludes zone {zone} for {count}"));
        let all: Vec<String> = unpriced.into_iter().chain(shifted).collect();
        if all.is_empty() { String::new() } else { format!(" ({})", all.join(", ")) }
    }
}

impl Display for Shortfall {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let most = amount(&self.resource, self.most.max(0));
        // Rounded up, so that a shortfall below the unit is visible.
        let asked = match self.resource.as_str() {
            name if is_in_bytes(name) => amount(name, self.asked.saturating_add(MIB - 1)),
            name => amount(name, self.asked),
        };
        write!(out, " ({asked} needed, at most {most} free)")
    }
}

/// Bytes of a MiB.
const MIB: i64 = 1 << 20;

fn is_in_bytes(resource: &str) -> bool {
    [Resources::MEMORY, Resources::EPHEMERAL_STORAGE].contains(&resource) || resource.starts_with("hugepages-")
}

/// Returns an amount as a quantity: CPU in cores or millicores, bytes in whole MiB, rounded down.
fn amount(resource: &str, amount: i64) -> String {
    match resource {
        Resources::CPU if amount % 1000 == 0 => (amount / 1000).to_string(),
        Resources::CPU => format!("{amount}m"),
        name if is_in_bytes(name) => format!("{}Mi", amount / MIB),
        _ => amount.to_string(),
    }
}

impl Display for LabelMismatch {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 3;
        write!(out, "do not match {} (", self.key)?;
        match self.found.as_slice() {
            [] => out.write_str("none")?,
            some => out.write_str(&any_of(&some[..some.len().min(SHOWN)]))?,
        }
        if self.found.len() > SHOWN {
            out.write_str(", ...")?;
        }
        match self.asked.as_slice() {
            [] => out.write_str(")"),
            asked => write!(out, ", required: {})", requirement_list(asked)),
        }
    }
}

/// Returns the text of requirements without the label key.
fn requirement_list(asked: &[Requirement]) -> String {
    asked.iter().map(requirement_text).collect::<Vec<_>>().join(" and ")
}

/// Reports whether the requirement allows no value.
fn is_impossible(asked: &Requirement) -> bool {
    asked.operator == Operator::In && asked.values.is_empty()
}

/// Returns the values, separated by `or`. An empty value is written in quotes, since it would be a hole in the sentence.
fn any_of(values: &[String]) -> String {
    values.iter().map(|value| shown(value)).collect::<Vec<_>>().join(" or ")
}

fn shown(value: &str) -> &str {
    if value.is_empty() { "\"\"" } else { value }
}

fn requirement_text(asked: &Requirement) -> String {
    let values = any_of(&asked.values);
    match asked.operator {
        Operator::In => values,
        Operator::NotIn => format!("other than {values}"),
        Operator::Exists => "any".to_owned(),
        Operator::DoesNotExist => "absent".to_owned(),
        Operator::Gt => format!("> {values}"),
        Operator::Lt => format!("< {values}"),
        Operator::Gte => format!(">= {values}"),
        Operator::Lte => format!("<= {values}"),
    }
}

impl Display for TopologyReason {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spread { max_skew, emptiest } => {
                write!(out, "topologySpreadConstraints: maxSkew {max_skew} cannot be satisfied, the least-loaded ")?;
                match emptiest.as_slice() {
                    [] => out.write_str("domain has no eligible node"),
                    [only] => write!(out, "domain {} has no eligible node", shown(only)),
                    several => {
                        let names: Vec<&str> = several.iter().map(|name| shown(name)).collect();
                        write!(out, "domains {} have no eligible node", names.join(" and "))
                    }
                }
            }
            Self::Claimed => out.write_str("another pod uses its ReadWriteOncePod volume claim"),
            Self::Near => out.write_str("podAffinity: no matching pod in a reachable domain"),
            Self::Apart => out.write_str("podAntiAffinity: matching pods in every reachable domain"),
            Self::Shunned => out.write_str("podAntiAffinity: existing pods exclude every domain"),
            Self::Together => {
                out.write_str("affinity, anti-affinity and spread constraints cannot be satisfied together")
            }
        }
    }
}

/// Returns a note for unusual placements only.
fn placement_note(why: PlacementReason) -> &'static str {
    match why {
        PlacementReason::Promised => ", as nominated before",
        PlacementReason::Static => ", a replica of a static NodePool",
        PlacementReason::Room | PlacementReason::Joined | PlacementReason::Opened => "",
    }
}

fn without(out: &mut Formatter<'_>, dropped: &[Preference]) -> fmt::Result {
    if dropped.is_empty() {
        return Ok(());
    }
    out.write_str("; dropped: ")?;
    list(out, dropped, ", ")
}

impl Display for Overload {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        self.write_with(out, "is")
    }
}

impl Overload {
    /// Writes the overload with the verb `is` or `would be`.
    fn write_with(self, out: &mut Formatter<'_>, is: &str) -> fmt::Result {
        let used = |out: &mut Formatter<'_>, percent: i64, what: &str| {
            write!(out, "{percent}% of its {what} {is} used, the limit is {BUSY}%")
        };
        match self {
            Self::Cpu(percent) => used(out, percent, "CPU"),
            Self::Memory(percent) => used(out, percent, "memory"),
            Self::Short(pressure) => out.write_str(match pressure {
                Pressure::Cpu => "CPU pressure, processes wait for CPU half of the time",
                Pressure::Memory => "memory pressure, processes wait for memory",
                Pressure::Disk => "IO pressure, all processes wait for disks a quarter of the time",
                Pressure::Killed => "OOM kill in the last 24 h",
            }),
        }
    }
}

impl Display for CommandCause {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingRuns => out.write_str("no pods that need another node"),
            Self::RoomElsewhere => out.write_str("all its pods fit on other nodes"),
            Self::Cheaper => out.write_str("its pods fit on cheaper nodes"),
            Self::Drifted { reason } => write!(out, "drifted: {reason}"),
            Self::Expired => out.write_str("expired: older than expireAfter"),
            Self::Unhealthy { condition } => write!(out, "unhealthy: condition {condition}"),
            Self::OutsideActiveTimes => out.write_str("its NodePool has no active time now (kerf.sh/active-times)"),
            Self::Surplus => out.write_str("its static NodePool has more nodes than replicas"),
        }
    }
}

fn would_go(reason: CommandReason) -> &'static str {
    match reason {
        CommandReason::Empty => "empty",
        CommandReason::Underutilized => "underutilized",
        CommandReason::Drifted => "drifted",
        CommandReason::Expired => "expired",
        CommandReason::Unhealthy => "unhealthy",
        CommandReason::Inactive => "outside of the active times of its NodePool",
        CommandReason::Static => "above the replicas of its static NodePool",
    }
}

/// Formats dollars per hour, to the hundredth of a cent.
fn hourly(price: MicroDollars) -> String {
    let sign = if price.0 < 0 { "-" } else { "" };
    let whole = price.0.unsigned_abs();
    format!("{sign}${}.{:04}/h", whole / 1_000_000, whole % 1_000_000 / 100)
}

/// Formats thousandths as a decimal number.
fn thousandths(part: i64) -> String {
    format!("{}.{:03}", part / 1000, part % 1000)
}

fn counted(pods: usize) -> String {
    if pods == 1 { "1 pod".to_owned() } else { format!("{pods} pods") }
}

/// Returns "the last launch" or "the last 3 launches".
#[must_use]
pub fn last_attempts(count: u32, [one, several]: [&str; 2]) -> String {
    if count == 1 { format!("the last {one}") } else { format!("the last {count} {several}") }
}

/// Returns whole seconds, rounded up, so that "in 0 s" never means "not yet".
fn seconds(millis: i64) -> i64 {
    millis.saturating_add(999).div_euclid(1000)
}

/// Returns whole hours, rounded up: a text that changes each minute would cause an event each minute.
fn hours(millis: i64) -> i64 {
    seconds(millis).saturating_add(3599).div_euclid(3600)
}

fn list(out: &mut Formatter<'_>, items: &[impl Display], separator: &str) -> fmt::Result {
    for (position, item) in items.iter().enumerate() {
        if position > 0 {
            out.write_str(separator)?;
        }
        write!(out, "{item}")?;
    }
    Ok(())
}
