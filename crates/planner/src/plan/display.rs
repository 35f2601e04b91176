//! Every reason as one plain sentence, the same in events, logs and on the command line.

use std::fmt::{self, Display, Formatter};

use crate::ceiling::BUSY;
use crate::{CapacityType, MicroDollars, Operator, Pressure, Requirement, label};

use super::{
    Balance, LabelMiss, Miss, MoveReason, NodeVerdict, PodVerdict, PoolMiss, Preference, Standing, Strain, TypesMiss,
    Why, WhyMove,
};

impl Display for PodVerdict {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Existing { node, why, dropped } => {
                write!(out, "goes to node {node}{}", aside(*why))?;
                without(out, dropped)
            }
            Self::Launch { launch, why, dropped } => {
                write!(out, "goes to new node {}{}", launch + 1, aside(*why))?;
                without(out, dropped)
            }
            Self::Unschedulable { pools } if pools.is_empty() => {
                out.write_str("no node pool that makes nodes for pods is ready")
            }
            Self::Unschedulable { pools } => list(out, pools, "; "),
            Self::Postponed => out.write_str("the search's effort was used up before its turn; the next pass goes on"),
        }
    }
}

impl Display for PoolMiss {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "pool {}: {}", self.pool, self.miss)
    }
}

impl Display for Miss {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taint { taint } => write!(out, "the pod does not tolerate taint {taint}"),
            Self::Requirement { key, asked, .. } if asked.is_empty() => {
                write!(out, "its own requirements on label {key} contradict each other")
            }
            Self::Requirement { key, asked, .. } if asked.iter().any(is_impossible) => {
                write!(out, "what the pod requires of label {key} contradicts itself")
            }
            Self::Requirement { key, own, asked, near } => {
                match own.is_empty() {
                    true => write!(out, "it gives no label {key}, the pod requires {}", wishes(asked))?,
                    false => write!(out, "label {key} is {} here, the pod requires {}", wishes(own), wishes(asked))?,
                }
                near.iter().try_for_each(|near| write!(out, " (is {near} meant?)"))
            }
            Self::Topology { standing, key } => write!(out, "{standing} (by {key})"),
            Self::Limit { resource } => write!(out, "the limit for {resource} leaves no room"),
            Self::MinValues { key, asked, found } => {
                write!(out, "minValues asks for {asked} values of {key}, only {found} can be had")
            }
            Self::SpotOnly => write!(
                out,
                "only spot can be had for it, and {} keeps it off spot: let on-demand be bought, or ask for a smaller base",
                label::ON_DEMAND_BASE
            ),
            Self::Types(miss) => write!(out, "{miss}"),
        }
    }
}

impl Display for TypesMiss {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if self.total == 0 {
            return out.write_str("it has no instance types");
        }
        let small = self.small.iter().map(|(name, count)| (*count, format!("lack {name}")));
        let labels = self.labels.iter().map(|miss| (miss.types, miss.to_string()));
        let mut parts: Vec<(usize, String)> = small.chain(labels).collect();
        let unpriced = match self.unpriced {
            0 => String::new(),
            count => format!(" (the price of {count} is not known: a NodeOverlay can say it)"),
        };
        parts.push((self.unavailable, format!("cannot be had now{unpriced}")));
        parts.retain(|(count, _)| *count > 0);
        for (position, (count, what)) in parts.iter().enumerate() {
            match position {
                0 => write!(out, "{count} of {} types {what}", self.total)?,
                _ => write!(out, ", {count} {what}")?,
            }
        }
        for (position, relief) in self.reliefs.iter().enumerate() {
            match position {
                0 => write!(out, "; without the requirement on {} {} would do", relief.key, relief.types)?,
                _ => write!(out, ", without that on {} {}", relief.key, relief.types)?,
            }
        }
        if self.suspicious_cpu {
            out.write_str("; the pod asks for a million CPUs or more: a typo, is m meant where M is written?")?;
        }
        Ok(())
    }
}

impl Display for LabelMiss {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 3;
        write!(out, "differ in {} (", self.key)?;
        match self.found.as_slice() {
            [] => out.write_str("none")?,
            some => out.write_str(&some[..some.len().min(SHOWN)].join(" or "))?,
        }
        if self.found.len() > SHOWN {
            out.write_str(" or others")?;
        }
        match self.asked.as_slice() {
            [] => out.write_str(")"),
            asked => write!(out, " where {} is asked)", wishes(asked)),
        }
    }
}

/// What requirements ask of their label, without the label.
fn wishes(asked: &[Requirement]) -> String {
    asked.iter().map(wish).collect::<Vec<_>>().join(" and ")
}

/// Whether no value would do.
fn is_impossible(asked: &Requirement) -> bool {
    asked.operator == Operator::In && asked.values.is_empty()
}

fn wish(asked: &Requirement) -> String {
    let values = asked.values.join(" or ");
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

impl Display for Standing {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spread { max_skew } => {
                write!(out, "its spread allows domains to differ by {max_skew}, and the emptiest cannot be reached")
            }
            Self::Claimed => out.write_str("another pod has its volume claim, which only one pod at a time may use"),
            Self::Near => out.write_str("the pods that it must be near are nowhere that it can go"),
            Self::Apart => out.write_str("pods that it must keep away from are everywhere that it can go"),
            Self::Shunned => out.write_str("pods that keep it away are everywhere that it can go"),
            Self::Together => out.write_str("its demands on other pods cannot all be met in one place"),
        }
    }
}

impl Display for Preference {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Near { weight, key } => write!(out, "the preference to be near others by {key} (weight {weight})"),
            Self::Apart { weight, key } => {
                write!(out, "the preference to be apart from others by {key} (weight {weight})")
            }
            Self::Nodes { weight, term } => {
                let keys: Vec<&str> = term.iter().map(|it| it.key.as_str()).collect();
                write!(out, "the preference for nodes by {} (weight {weight})", keys.join(" and "))
            }
            Self::Spread { key } => write!(out, "an even spread by {key}"),
            Self::SoftTaints => out.write_str("keeping off PreferNoSchedule taints"),
            Self::Share { of } => {
                let side = if *of == CapacityType::Spot { "on spot" } else { "off spot" };
                write!(out, "its place {side} by {}", label::SPOT_SHARE)
            }
        }
    }
}

/// Only what is not the usual way needs a word.
fn aside(why: Why) -> &'static str {
    match why {
        Why::Promised => ", as promised",
        Why::Static => ", which a static pool gets anyway",
        Why::Room | Why::Joined | Why::Opened => "",
    }
}

fn without(out: &mut Formatter<'_>, dropped: &[Preference]) -> fmt::Result {
    if dropped.is_empty() {
        return Ok(());
    }
    out.write_str("; dropped: ")?;
    list(out, dropped, ", ")
}

impl Display for NodeVerdict {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Remove(reason) => write!(out, "goes: {reason}"),
            Self::Leaving => out.write_str("is on its way out"),
            Self::NotInitialized => out.write_str("is not initialized yet"),
            Self::InUse { pods } => write!(out, "is in use by {}", counted(*pods)),
            Self::Nominated => out.write_str("is expecting pods"),
            Self::Watched => out.write_str("stays until pods that wait are bound, whose places rest on pods there"),
            Self::Quiet { remaining } => {
                write!(out, "was in use not long ago, and may go in {} s", seconds(*remaining))
            }
            Self::ConsolidationDisabled => out.write_str("stays, since its pool never consolidates"),
            Self::Static => out.write_str("stays, since its pool keeps a fixed number of nodes"),
            Self::NoReplica => out.write_str(
                "stays: its static pool can have no other in its place, by its limits or by what can be had",
            ),
            Self::DoNotDisrupt => out.write_str("stays, since it asks not to be disrupted"),
            Self::Budget { reason } => {
                write!(out, "{}, but its pool's disruption budget is used up", would_go(*reason))
            }
            Self::Cheapest { pods } => write!(out, "stays: nothing cheaper would do for its {}", counted(*pods)),
            Self::ByTurns { pods } => by_turns(out, *pods),
            Self::NoPlace { pod } => write!(out, "stays, since pod {pod} has no other place"),
            Self::AboveCeiling { pod, node, strain } => {
                write!(out, "stays: pod {pod} would have room on {node}, but no more is sent there: ")?;
                strain.tell(out, "would be")
            }
            Self::CheaperIsBusy { strain } => {
                out.write_str("stays: whatever costs less would be busy with its pods: ")?;
                strain.tell(out, "would be")
            }
            Self::NotWorthIt { saving, asked } => {
                write!(out, "stays: moving its pods would save {}, less than {}", hourly(*saving), hourly(*asked))
            }
            Self::Scattered { pods } => scattered(out, *pods),
            Self::SpotToSpot { types } => spot_to_spot(out, *types),
            Self::Unbalanced { score } => unbalanced(out, *score),
            Self::ManySick { sick, nodes } => {
                write!(out, "stays though it is sick: {sick} of its pool's {nodes} nodes are, more than 20%")
            }
            Self::UnknownPrice => out.write_str("stays, since its price is unknown"),
            Self::Busy { strain } => write!(out, "stays, since it is busy: {strain}"),
            Self::PodDoNotDisrupt { pod, remaining } => {
                write!(out, "stays, since pod {pod} asks not to be disrupted")?;
                remaining.map_or(Ok(()), |left| write!(out, ", for up to {} h more", hours(left)))
            }
            Self::PodHeld { pod, budgets } => {
                write!(out, "stays, since pod {pod} may not be evicted now (PodDisruptionBudget ")?;
                list(out, budgets, ", ")?;
                out.write_str(")")
            }
            Self::Resting { pod, remaining } => resting(out, pod, *remaining),
            Self::Disturbed { pod, workload } => disturbed(out, pod, workload),
            Self::AfterResize { nodes } => {
                out.write_str("can go once requests of pods are lowered to what they use on ")?;
                list(out, nodes, " and ")
            }
            Self::AfterMove { node } => {
                write!(out, "can go once {node} has gone: pods of both count for each other's places")
            }
            Self::LeftOut { reason, finding } => left_out(out, *reason, finding),
            Self::Postponed => out.write_str("was not looked at: the plan's steps were used up, the next one goes on"),
            Self::NoPool => out.write_str("stays, since its pool is unknown or not ready"),
        }
    }
}

fn by_turns(out: &mut Formatter<'_>, pods: usize) -> fmt::Result {
    let pods = counted(pods);
    write!(
        out,
        "stays for now: nothing cheaper would do for its {pods} alone, and what would do beside others, or what several nodes would, \
         is looked for when it is its turn"
    )
}

fn scattered(out: &mut Formatter<'_>, pods: usize) -> fmt::Result {
    write!(out, "stays: kube-scheduler puts each pod on the emptiest node, so {pods} of those moved would find no room")
}

fn spot_to_spot(out: &mut Formatter<'_>, types: Option<usize>) -> fmt::Result {
    match types {
        None => {
            out.write_str("stays: cheaper spot may take its place only with the feature gate SpotToSpotConsolidation")
        }
        Some(types) => {
            write!(out, "stays: there are but {types} cheaper spot types, too few to replace spot by spot")
        }
    }
}

fn unbalanced(out: &mut Formatter<'_>, score: i64) -> fmt::Result {
    let (score, enough) = (thousandths(score), thousandths(Balance::ENOUGH));
    write!(
        out,
        "stays: what it would save of its pool's cost is too little for what it disturbs of its pool (it scores {score}, {enough} is \
         enough)"
    )
}

fn resting(out: &mut Formatter<'_>, pod: &str, remaining: i64) -> fmt::Result {
    let left = seconds(remaining);
    write!(
        out,
        "stays for {left} s more: the workload of pod {pod} asks to be disturbed but once in a while, and was, or has changed, not \
         long ago"
    )
}

fn disturbed(out: &mut Formatter<'_>, pod: &str, workload: &str) -> fmt::Result {
    write!(
        out,
        "stays: {workload}, of which pod {pod} is, asks to be disturbed but once in a while, and another move does so now"
    )
}

fn left_out(out: &mut Formatter<'_>, reason: MoveReason, finding: &str) -> fmt::Result {
    let would_go = would_go(reason);
    write!(out, "{would_go}, but waits for the next plan: the moves of this one break a rule together ({finding})")
}

impl Display for Strain {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        self.tell(out, "is")
    }
}

impl Strain {
    /// In a sentence about what `is` so, or `would be`.
    fn tell(self, out: &mut Formatter<'_>, is: &str) -> fmt::Result {
        let used = |out: &mut Formatter<'_>, percent: i64, what: &str| {
            write!(out, "{percent}% of its {what} {is} in use, and {BUSY}% is too much")
        };
        match self {
            Self::Cpu(percent) => used(out, percent, "CPU"),
            Self::Memory(percent) => used(out, percent, "memory"),
            Self::Short(pressure) => out.write_str(match pressure {
                Pressure::Cpu => "processes wait for its CPUs half of the time",
                Pressure::Memory => "processes wait for its memory",
                Pressure::Disk => "all processes wait for its disks a quarter of the time",
                Pressure::Killed => "its kernel has killed a process for want of memory within a day",
            }),
        }
    }
}

impl Display for WhyMove {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingRuns => out.write_str("nothing runs there that would need another place"),
            Self::RoomElsewhere => out.write_str("all its pods have room on other nodes"),
            Self::Cheaper => out.write_str("its pods have places for less money"),
            Self::Drifted { reason } => write!(out, "it is not any more what its pool and class ask for ({reason})"),
            Self::Expired => out.write_str("it is as old as it may get"),
            Self::Sick { condition } => write!(out, "it is sick (condition {condition})"),
            Self::Surplus => out.write_str("its static pool has more nodes than replicas"),
        }
    }
}

fn would_go(reason: MoveReason) -> &'static str {
    match reason {
        MoveReason::Empty => "is empty",
        MoveReason::Underutilized => "might go for a cheaper way",
        MoveReason::Drifted => "has drifted",
        MoveReason::Expired => "has expired",
        MoveReason::Unhealthy => "is sick",
        MoveReason::Static => "is one too many",
    }
}

/// Dollars per hour, to the hundredth of a cent.
fn hourly(price: MicroDollars) -> String {
    let sign = if price.0 < 0 { "-" } else { "" };
    let whole = price.0.unsigned_abs();
    format!("{sign}${}.{:04}/h", whole / 1_000_000, whole % 1_000_000 / 100)
}

/// As people write a part of one.
fn thousandths(part: i64) -> String {
    format!("{}.{:03}", part / 1000, part % 1000)
}

fn counted(pods: usize) -> String {
    if pods == 1 { "1 pod".to_owned() } else { format!("{pods} pods") }
}

/// Whole seconds, rounded up, so that "in 0 s" never stands for "not yet".
fn seconds(millis: i64) -> i64 {
    millis.saturating_add(999).div_euclid(1000)
}

/// Whole hours, rounded up: a sentence that changes each minute would be news each minute.
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
