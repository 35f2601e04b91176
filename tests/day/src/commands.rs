//! Disruption commands as the NodeClaims show them: begun with a reason, waiting for replacements, completed or rolled back.

use std::collections::BTreeMap;

use api::status::{Conditioned, find};
use api::{NodeClaim, condition};
use planner::CommandReason;

use crate::audit::Audit;
use crate::clock::Moment;
use crate::cluster_state::ClusterState;
use crate::record::{Moved, Record};

/// Commands in progress.
#[derive(Debug, Default)]
pub struct Commands {
    /// Position of the command in the record, by NodeClaim.
    open: BTreeMap<String, usize>,
}

impl Commands {
    /// Follows a NodeClaim, after the world has taken over its state.
    pub fn see(
        &mut self,
        claim: &NodeClaim,
        gone: bool,
        cluster_state: &ClusterState,
        audit: &mut Audit,
        record: &mut Record,
    ) {
        let name = claim.metadata.name.clone().unwrap_or_default();
        let deleting = gone || claim.metadata.deletion_timestamp.is_some();
        match (reason_of(claim), self.open.get(&name).copied()) {
            (Some(reason), None) if !deleting => {
                audit.began(cluster_state, reason, std::slice::from_ref(&name));
                let position = begun(record, reason, &name, cluster_state.now);
                self.open.insert(name, position);
            }
            (_, Some(position)) if deleting => {
                self.open.remove(&name);
                self.leaves(position, cluster_state, audit, record);
            }
            (Some(_), Some(position)) => {
                if let Some(id) = claim.replaced_by() {
                    let position = self.with_replacements(record, position, &name, id);
                    self.open.insert(name, position);
                }
            }
            (None, Some(position)) => {
                self.open.remove(&name);
                (record.moves[position].ended, record.moves[position].done) = (Some(cluster_state.now), false);
            }
            (_, None) => {}
        }
    }

    /// Notes the replacements of a command, and returns its position. Commands that began together for the same reason differ in
    /// their replacements, and the NodeClaims of one command may be written at different moments, with a pause or another leader
    /// between them. NodeClaims that have ended before count for each of these commands, because any of them may have had them.
    fn with_replacements(&self, record: &mut Record, position: usize, claim: &str, id: &str) -> usize {
        if record.moves[position].id == id {
            return position;
        }
        let Moved { reason, begun, .. } = record.moves[position];
        if let Some(other) = record.moves.iter().rposition(|moved| moved.id == id) {
            record.moves[position].claims.retain(|own| own != claim);
            record.moves[other].claims.push(claim.to_owned());
            return other;
        }
        if record.moves[position].claims.len() == 1 {
            id.clone_into(&mut record.moves[position].id);
            return position;
        }
        record.moves[position].claims.retain(|own| own != claim);
        let ended = record.moves[position].claims.iter().filter(|own| !self.open.contains_key(*own)).cloned();
        let claims = std::iter::once(claim.to_owned()).chain(ended).collect();
        record.moves.push(Moved { reason, claims, id: id.to_owned(), begun, ended: None, done: false });
        record.moves.len() - 1
    }

    /// Ends a command as soon as all its nodes are being removed.
    fn leaves(&self, position: usize, cluster_state: &ClusterState, audit: &mut Audit, record: &mut Record) {
        if self.open.values().any(|open| *open == position) || record.moves[position].ended.is_some() {
            return;
        }
        check_saving(&record.moves[position], cluster_state, audit);
        (record.moves[position].ended, record.moves[position].done) = (Some(cluster_state.now), true);
    }
}

/// Returns the position of the command that began at this moment for this reason, with this NodeClaim.
fn begun(record: &mut Record, reason: CommandReason, claim: &str, now: Moment) -> usize {
    let same =
        |moved: &Moved| moved.reason == reason && moved.begun == now && moved.ended.is_none() && moved.id.is_empty();
    let position = record.moves.iter().rposition(same).unwrap_or(record.moves.len());
    if position == record.moves.len() {
        let (claims, id) = (Vec::new(), String::new());
        record.moves.push(Moved { reason, claims, id, begun: now, ended: None, done: false });
    }
    record.moves[position].claims.push(claim.to_owned());
    position
}

/// Checks that a command to save money lowers the price of instances and their volumes. The check is skipped if EC2 takes one
/// of its nodes, because the replacement also takes the pods of that node.
fn check_saving(moved: &Moved, cluster_state: &ClusterState, audit: &mut Audit) {
    let price = |claim: &str| Some(cluster_state.instance_of(claim)?.price.0 + cluster_state.node_extras);
    let whole =
        moved.claims.iter().all(|claim| cluster_state.instance_of(claim).is_some_and(|it| !it.noticed && !it.ending));
    let before: Option<i64> = moved.claims.iter().map(|claim| price(claim)).sum();
    let after: Option<i64> = moved.id.split(',').map(price).sum();
    let dearer = before.zip(after).is_some_and(|(before, after)| after >= before);
    let honest = !moved.claims.iter().any(|claim| cluster_state.has_false_node(claim));
    let saves = honest && moved.reason == CommandReason::Underutilized && !moved.id.is_empty();
    audit.expect(!(dearer && whole && saves), cluster_state.now, || {
        let offering = |claim: &str| match cluster_state.instance_of(claim) {
            Some(it) => {
                format!("{claim} ({} {} in {} for {})", it.capacity_type.as_str(), it.kind.name, it.zone, it.price.0)
            }
            None => format!("{claim} (no instance)"),
        };
        let bought: Vec<String> = moved.id.split(',').map(offering).collect();
        let removed: Vec<String> = moved.claims.iter().map(|claim| offering(claim)).collect();
        let (bought, removed) = (bought.join(", "), removed.join(", "));
        format!("a command to save money buys {bought} for {removed}")
    });
}

/// Returns the disruption reason of a NodeClaim, if Kerf disrupts it.
pub fn reason_of(claim: &NodeClaim) -> Option<CommandReason> {
    let found = find(claim.conditions(), condition::DISRUPTION_REASON).filter(|found| found.is_true())?;
    CommandReason::ALL.into_iter().find(|reason| reason.as_str() == found.reason)
}

#[cfg(test)]
mod tests {
    use api::annotation;
    use api::nodeclaim::NodeClaimSpec;

    use super::*;
    use crate::clock::{START, timestamp};
    use crate::dice::Dice;
    use crate::market::Market;

    /// A NodeClaim that ends before the replacements are known may have belonged to the command.
    #[test]
    fn see_counts_ended_claims_for_the_commands_that_began_with_them() {
        let (market, _ec2) =
            Market::new(&mut Dice::new(1), &["m7i"], &["large"]).unwrap_or_else(|error| panic!("{error:#}"));
        let cluster_state = ClusterState::new(START, market);
        let (mut commands, mut audit, mut record) = (Commands::default(), Audit::default(), Record::default());
        let claim = |name: &str, replaced_by: &str| {
            let mut claim = NodeClaim::new(name, NodeClaimSpec::default());
            let reason = CommandReason::Underutilized.as_str();
            claim.set(condition::DISRUPTION_REASON, condition::TRUE, reason, "", timestamp(START));
            claim.metadata.annotations = Some([(annotation::REPLACED_BY.to_owned(), replaced_by.to_owned())].into());
            claim
        };
        let mut see = |claim: &NodeClaim, gone| commands.see(claim, gone, &cluster_state, &mut audit, &mut record);
        ["a", "b", "c", "d"].iter().for_each(|name| see(&claim(name, ""), false));
        see(&claim("a", ""), true);
        [("b", "x"), ("c", "y"), ("d", "y")].iter().for_each(|(name, by)| see(&claim(name, by), false));
        let of = |id: &str| record.moves.iter().find(|moved| moved.id == id).map(|moved| moved.claims.clone());
        assert_eq!(of("x"), Some(vec!["b".to_owned(), "a".to_owned()]));
        assert_eq!(of("y"), Some(vec!["c".to_owned(), "a".to_owned(), "d".to_owned()]));
    }
}
