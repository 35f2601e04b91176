//! Every reason as one plain sentence, the same in events, logs and on the command line.

use std::fmt::{self, Display, Formatter};

use super::{Miss, NodeVerdict, PodVerdict, PoolMiss};

impl Display for PodVerdict {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Existing { node } => write!(out, "goes to node {node}"),
            Self::Launch { launch } => write!(out, "goes to new node {}", launch + 1),
            Self::Unschedulable { pools } if pools.is_empty() => out.write_str("no node pool is ready"),
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
            Self::Requirement { key } => write!(out, "label {key} cannot be what the pod requires"),
            Self::Limit { resource } => write!(out, "the limit for {resource} leaves no room"),
            Self::MinValues { key, asked, found } => {
                write!(out, "minValues asks for {asked} values of {key}, only {found} can be had")
            }
            Self::Types { total: 0, .. } => out.write_str("it has no instance types"),
            Self::Types { total, labels, small, unavailable } => types(out, *total, *labels, small, *unavailable),
        }
    }
}

fn types(
    out: &mut Formatter<'_>,
    total: usize,
    labels: usize,
    small: &[(String, usize)],
    unavailable: usize,
) -> fmt::Result {
    let mut parts: Vec<(usize, String)> = small.iter().map(|(name, count)| (*count, format!("lack {name}"))).collect();
    parts.push((labels, "have other labels".to_owned()));
    parts.push((unavailable, "cannot be had now".to_owned()));
    parts.retain(|(count, _)| *count > 0);
    for (position, (count, what)) in parts.iter().enumerate() {
        match position {
            0 => write!(out, "{count} of {total} types {what}")?,
            _ => write!(out, ", {count} {what}")?,
        }
    }
    Ok(())
}

impl Display for NodeVerdict {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Remove(reason) => write!(out, "goes: {reason}"),
            Self::Leaving => out.write_str("is on its way out"),
            Self::NotInitialized => out.write_str("is not initialized yet"),
            Self::InUse { pods: 1 } => out.write_str("is in use by 1 pod"),
            Self::InUse { pods } => write!(out, "is in use by {pods} pods"),
            Self::Nominated => out.write_str("is expecting pods"),
            Self::Quiet { remaining } => write!(out, "is empty, and may go in {} s", seconds(*remaining)),
            Self::ConsolidationDisabled => out.write_str("stays, since its pool never consolidates"),
            Self::DoNotDisrupt => out.write_str("stays, since it or a pod on it asks not to be disrupted"),
            Self::Budget => out.write_str("is empty, but its pool's disruption budget is used up"),
            Self::NoPool => out.write_str("stays, since its pool is unknown or not ready"),
        }
    }
}

/// Whole seconds, rounded up, so that "in 0 s" never stands for "not yet".
fn seconds(millis: i64) -> i64 {
    millis.saturating_add(999).div_euclid(1000)
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
