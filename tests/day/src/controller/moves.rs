//! Disruption commands in the steps of docs/architecture.md: set the reason and taint, annotate, launch, wait, delete; or roll
//! back.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::status::{Conditioned, find};
use api::{NodeClaim, Taint, annotation, condition, taint};
use planner::{CommandReason, PlannedCommand};

use super::launch::name;
use super::{Controller, Died, Hands};
use crate::clock::{MINUTE, timestamp};
use crate::record::Moved;

/// Longest time that a command waits for its replacements.
const PATIENCE: i64 = 10 * MINUTE;

impl Controller {
    /// Begins a command, and completes it if it has no replacements.
    pub(super) fn begin(
        &mut self,
        hands: &mut Hands<'_>,
        planned: &PlannedCommand,
        replacements: Vec<NodeClaim>,
    ) -> Result<(), Died> {
        let claims: Vec<String> = planned.nodes.iter().map(|leaver| leaver.claim.clone()).collect();
        let stays = |claim: &NodeClaim| claim.metadata.deletion_timestamp.is_none() && claim.replaced_by().is_none();
        if !claims.iter().all(|claim| hands.world.claims.get(claim).is_some_and(|claim| stays(claim))) {
            return Ok(());
        }
        let (now, reason) = (hands.world.now, planned.reason);
        for claim in &claims {
            self.step()?;
            hands.world.edit_claim(claim, |claim| {
                claim.set(condition::DISRUPTION_REASON, condition::TRUE, reason.as_str(), "", timestamp(now));
            });
        }
        for node in
            claims.iter().filter_map(|claim| Some(hands.world.instance_of(claim)?.id.clone())).collect::<Vec<_>>()
        {
            self.close(hands, &node)?;
        }
        hands.audit.began(hands.world, reason, &claims);
        let id = replacements.iter().map(name).collect::<Vec<_>>().join(",");
        hands.record.began(Moved::of(planned, &claims, &id, now));
        for claim in claims.iter().filter(|_| !id.is_empty()) {
            self.step()?;
            hands.world.edit_claim(claim, |claim| {
                let annotations = claim.metadata.annotations.get_or_insert_default();
                annotations.insert(annotation::REPLACED_BY.to_owned(), id.clone());
            });
        }
        for mut claim in replacements {
            let annotations = claim.metadata.annotations.get_or_insert_default();
            annotations.insert(annotation::REPLACES.to_owned(), claims.join(","));
            self.create(hands, claim)?;
        }
        for claim in claims.iter().filter(|_| id.is_empty()) {
            self.delete(hands, claim)?;
        }
        Ok(())
    }

    /// Continues the commands that wait for replacements.
    pub(super) fn look_at_moves(&mut self, hands: &mut Hands<'_>) -> Result<(), Died> {
        let mut moves: BTreeMap<String, Vec<Arc<NodeClaim>>> = BTreeMap::new();
        for claim in hands.world.claims.values().filter(|claim| claim.metadata.deletion_timestamp.is_none()) {
            if let Some(id) = claim.replaced_by() {
                moves.entry(id.to_owned()).or_default().push(Arc::clone(claim));
            }
        }
        for (id, leavers) in moves {
            self.look_at_move(hands, &id, &leavers)?;
        }
        Ok(())
    }

    fn look_at_move(&mut self, hands: &mut Hands<'_>, id: &str, leavers: &[Arc<NodeClaim>]) -> Result<(), Died> {
        let now = hands.world.now;
        let replacement = |name: &str| hands.world.claims.get(name);
        let gone = |name: &str| replacement(name).is_none_or(|claim| claim.metadata.deletion_timestamp.is_some());
        let ready = |name: &str| replacement(name).is_some_and(|claim| claim.is_true(condition::INITIALIZED));
        let begun = leavers.iter().filter_map(|claim| Some(why(claim)?.last_transition_time.0.as_millisecond())).min();
        let late = begun.is_none_or(|begun| now - begun > PATIENCE);
        if id.split(',').any(gone) || late {
            return self.roll_back(hands, id, leavers);
        }
        if !id.split(',').all(ready) {
            return Ok(());
        }
        judge_saving(hands, id, leavers);
        for claim in leavers {
            self.delete(hands, &name(claim))?;
        }
        hands.record.ended(id, now, true);
        Ok(())
    }

    fn roll_back(&mut self, hands: &mut Hands<'_>, id: &str, leavers: &[Arc<NodeClaim>]) -> Result<(), Died> {
        for claim in leavers {
            self.open(hands, claim)?;
        }
        for claim in leavers {
            self.step()?;
            hands.world.edit_claim(&name(claim), |claim| {
                claim.metadata.annotations.get_or_insert_default().remove(annotation::REPLACED_BY);
            });
        }
        hands.record.ended(id, hands.world.now, false);
        self.ask();
        Ok(())
    }

    /// Removes taints and reasons of a command that never began completely.
    pub(super) fn reopen(&mut self, hands: &mut Hands<'_>) -> Result<(), Died> {
        let stale = |claim: &&Arc<NodeClaim>| {
            let stays = claim.metadata.deletion_timestamp.is_none() && claim.replaced_by().is_none();
            stays && why(claim).is_some()
        };
        let stale: Vec<Arc<NodeClaim>> = hands.world.claims.values().filter(stale).cloned().collect();
        stale.iter().try_for_each(|claim| self.open(hands, claim))
    }

    /// Taints a node against new pods.
    pub(super) fn close(&mut self, hands: &mut Hands<'_>, node: &str) -> Result<(), Died> {
        self.step()?;
        hands.world.edit_node(node, |node| {
            if !node.has_taint(taint::DISRUPTED, taint::NO_SCHEDULE) {
                node.spec.taints.push(Taint::new(taint::DISRUPTED, taint::NO_SCHEDULE));
            }
        });
        Ok(())
    }

    /// Removes the taint of a NodeClaim's node and the disruption reason.
    fn open(&mut self, hands: &mut Hands<'_>, claim: &NodeClaim) -> Result<(), Died> {
        self.step()?;
        let (name, now) = (name(claim), timestamp(hands.world.now));
        let node = hands.world.instance_of(&name).map(|instance| instance.id.clone()).unwrap_or_default();
        hands.world.edit_node(&node, |node| node.spec.taints.retain(|found| found.key != taint::DISRUPTED));
        hands.world.edit_claim(&name, |claim| {
            claim.clear(condition::DISRUPTION_REASON, now);
        });
        Ok(())
    }
}

/// Checks that a command to save money lowers the price. The check is skipped if EC2 has terminated one of its nodes, because
/// the replacement also takes the pods of that node.
fn judge_saving(hands: &mut Hands<'_>, id: &str, leavers: &[Arc<NodeClaim>]) {
    let whole = hands.record.moves.iter().any(|moved| moved.id == id && moved.claims.len() == leavers.len());
    let underutilized =
        |claim: &Arc<NodeClaim>| why(claim).is_some_and(|said| said.reason == CommandReason::Underutilized.as_str());
    let price = |claim: &str| hands.world.instance_of(claim).map(|instance| instance.price.0);
    let before: Option<i64> = leavers.iter().map(|claim| price(&name(claim))).sum();
    let after: Option<i64> = id.split(',').map(price).sum();
    let dearer = before.zip(after).is_some_and(|(before, after)| after >= before);
    hands.audit.expect(!(dearer && whole && leavers.iter().all(underutilized)), hands.world.now, || {
        format!("a move to save money takes {after:?} for {before:?}: {id}")
    });
}

/// Returns the disruption reason of a NodeClaim and its transition time.
fn why(claim: &NodeClaim) -> Option<&api::Condition> {
    find(claim.conditions(), condition::DISRUPTION_REASON).filter(|said| said.is_true())
}
