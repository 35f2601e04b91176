//! Life of NodeClaims: creation from a plan, launch, registration, initialization, and garbage collection of incomplete ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::nodeclaim::NodeClaimSpec;
use api::nodepool::NodeClassRef;
use api::status::{Conditioned, Time};
use api::{DurationText, NodeClaim, Operator, Quantity, Requirement, condition, label, taint};
use planner::{InstanceType, Launch, Offer, Offering, Requirements};

use super::{Controller, Died, Hands, SHORT};
use crate::clock::{MINUTE, Moment, SECOND, timestamp};
use crate::draining::{Cause, Draining};
use crate::machines::SHUTS_DOWN;
use crate::market::Instance;
use crate::world::{Running, World, amounts, provider_id};

/// Time from the creation of a NodeClaim to EC2's response.
const ANSWERS: i64 = 2 * SECOND;
/// Registration timeout of an instance.
const GIVEN_UP: i64 = 15 * MINUTE;
/// Age at which an instance without a NodeClaim is terminated. A NodeClaim may just be in creation.
const ORPHANED: i64 = MINUTE;

/// Returns the NodeClaim of a launch.
pub(super) fn claim(
    launch: &Launch,
    name: &str,
    well_known: &BTreeSet<String>,
    expire_after: DurationText,
    now: Moment,
) -> NodeClaim {
    let mut requirements: Vec<Requirement> = launch.requirements.iter().map(requirement).collect();
    requirements.push(Requirement::new(label::INSTANCE_TYPE, Operator::In, launch.instance_types.iter().cloned()));
    let class = NodeClassRef {
        group: "karpenter.k8s.aws".to_owned(),
        kind: "EC2NodeClass".to_owned(),
        name: "default".to_owned(),
    };
    let spec = NodeClaimSpec {
        requirements: requirements.into(),
        node_class_ref: class,
        expire_after,
        ..NodeClaimSpec::default()
    };
    let own = |wanted: &&planner::Requirement| {
        let single = wanted.operator == planner::Operator::In && wanted.values.len() == 1;
        single && !well_known.contains(&wanted.key)
    };
    let mut claim = NodeClaim::new(name, spec);
    let chosen = launch.requirements.iter().filter(own).map(|wanted| (wanted.key.clone(), wanted.values[0].clone()));
    let mut labels: BTreeMap<String, String> = chosen.collect();
    labels.insert(label::NODEPOOL.to_owned(), launch.pool.clone());
    claim.metadata.labels = Some(labels);
    claim.metadata.uid = Some(name.to_owned());
    claim.metadata.creation_timestamp = Some(Time(timestamp(now)));
    claim
}

fn requirement(one: &planner::Requirement) -> Requirement {
    let operator = match one.operator {
        planner::Operator::In => Operator::In,
        planner::Operator::NotIn => Operator::NotIn,
        planner::Operator::Exists => Operator::Exists,
        planner::Operator::DoesNotExist => Operator::DoesNotExist,
        planner::Operator::Gt => Operator::Gt,
        planner::Operator::Lt => Operator::Lt,
        planner::Operator::Gte => Operator::Gte,
        planner::Operator::Lte => Operator::Lte,
    };
    Requirement::new(&one.key, operator, one.values.iter().cloned())
}

/// Returns the `expireAfter` for NodeClaims of a NodePool.
pub(super) fn expire_after(world: &World, pool: &str) -> DurationText {
    let found = world.pools.iter().find(|it| it.metadata.name.as_deref() == Some(pool));
    found.map_or_else(DurationText::never, |pool| pool.spec.template.spec.expire_after.clone())
}

impl Controller {
    /// Creates a NodeClaim; the next reconcile launches it.
    pub(super) fn create(&mut self, hands: &mut Hands<'_>, claim: NodeClaim) -> Result<(), Died> {
        self.step()?;
        let name = name(&claim);
        self.launches.insert(name.clone(), hands.world.now + ANSWERS);
        hands.world.claims.insert(name, Arc::new(claim));
        Ok(())
    }

    /// Reconciles every NodeClaim, the commands in progress, and instances without an owner.
    pub(super) fn look(&mut self, hands: &mut Hands<'_>) -> Result<(), Died> {
        while let Some(instance) = self.warned.last().cloned() {
            let claim = hands.world.market.instances.get(&instance).map(|it| it.claim.clone());
            self.delete(hands, &claim.unwrap_or_default())?;
            self.warned.pop();
        }
        let names: Vec<String> = hands.world.claims.keys().cloned().collect();
        for name in &names {
            let Some(claim) = hands.world.claims.get(name).cloned() else { continue };
            let instance = hands.world.instance_of(name).cloned();
            if self.peer.is_some() && is_expired(&claim, hands.world.now) {
                self.delete(hands, name)?;
            } else if claim.metadata.deletion_timestamp.is_some() {
                self.terminate(hands, &claim, instance.as_ref())?;
            } else if !claim.is_true(condition::LAUNCHED) {
                self.buy(hands, &claim)?;
            } else if let Some(instance) = instance {
                self.bring_up(hands, &claim, &instance)?;
            } else {
                // EC2 has terminated the instance.
                self.forget(hands, name)?;
            }
        }
        self.look_at_moves(hands)?;
        self.collect(hands)
    }

    fn buy(&mut self, hands: &mut Hands<'_>, claim: &NodeClaim) -> Result<(), Died> {
        let (name, now) = (name(claim), hands.world.now);
        let answered = *self.launches.entry(name.clone()).or_insert(now + ANSWERS);
        if answered > now {
            return Ok(());
        }
        // An instance with the tag of the NodeClaim was launched before a crash.
        let known = hands.world.instance_of(&name).cloned();
        let instance = match known {
            Some(known) => Some(known),
            None => {
                self.step()?;
                let asked = requirements(claim);
                let suits = |kind: &InstanceType, offering: &Offering| suits(&asked, kind, offering);
                let bought = hands.world.market.buy(&name, suits, now);
                if !bought.dry.is_empty() {
                    hands.world.changed = hands.world.changed.max(now + SHORT);
                    self.shortages.extend(bought.dry.into_iter().map(|shelf| (shelf, now + SHORT)));
                    self.catalogue = None;
                }
                bought.instance.iter().for_each(|it| hands.machines.bought(&it.id, now));
                bought.instance
            }
        };
        self.launches.remove(&name);
        match instance {
            Some(instance) => self.launched(hands, &name, &instance),
            None => {
                hands.record.refusals += 1;
                self.forget(hands, &name)
            }
        }
    }

    fn launched(&mut self, hands: &mut Hands<'_>, name: &str, instance: &Instance) -> Result<(), Died> {
        self.step()?;
        let kind = hands.world.market.kind(instance).clone();
        let at = timestamp(hands.world.now);
        hands.world.edit_claim(name, |claim| {
            let labels = claim.metadata.labels.get_or_insert_default();
            for (key, value) in [
                (label::INSTANCE_TYPE, kind.name.as_str()),
                (label::ZONE, &instance.zone),
                (label::CAPACITY_TYPE, instance.capacity_type.as_str()),
            ] {
                labels.insert(key.to_owned(), value.to_owned());
            }
            let own = kind.labels.iter().filter_map(|(key, values)| Some((key.clone(), values.first()?.clone())));
            labels.extend(own);
            let status = claim.status.get_or_insert_default();
            status.provider_id = provider_id(instance);
            let amounts = |all| amounts(all).into_iter().map(|(name, text)| (name, Quantity(text))).collect();
            (status.capacity, status.allocatable) = (amounts(&kind.capacity), amounts(&kind.allocatable));
            claim.set_true(condition::LAUNCHED, at);
        });
        hands.record.launches += 1;
        Ok(())
    }

    fn bring_up(&mut self, hands: &mut Hands<'_>, claim: &NodeClaim, instance: &Instance) -> Result<(), Died> {
        let (name, now, at) = (name(claim), hands.world.now, timestamp(hands.world.now));
        let Some(node) = hands.world.nodes.get(&instance.id).cloned() else {
            if now - instance.bought > GIVEN_UP {
                hands.world.changed = hands.world.changed.max(now);
                return self.delete(hands, &name);
            }
            return Ok(());
        };
        if !claim.is_true(condition::REGISTERED) {
            self.step()?;
            let labels = claim.metadata.labels.clone().unwrap_or_default();
            hands.world.edit_node(&instance.id, |node| {
                let all = node.metadata.labels.get_or_insert_default();
                all.extend(labels);
                all.insert(label::REGISTERED.to_owned(), label::TRUE.to_owned());
            });
            hands.world.edit_claim(&name, |claim| {
                claim.status.get_or_insert_default().node_name.clone_from(&instance.id);
                claim.set_true(condition::REGISTERED, at);
            });
        }
        if !claim.is_true(condition::INITIALIZED) {
            self.tell(hands, &name, &instance.id)?;
        }
        if node.is_ready() && !claim.is_true(condition::INITIALIZED) {
            self.step()?;
            hands.world.edit_node(&instance.id, |node| {
                let all = node.metadata.labels.get_or_insert_default();
                all.insert(label::INITIALIZED.to_owned(), label::TRUE.to_owned());
            });
            hands.world.edit_claim(&name, |claim| {
                claim.set_true(condition::INITIALIZED, at);
            });
            self.ask();
        }
        Ok(())
    }

    /// Nominates the pending pods of a new node before kube-scheduler may use it.
    fn tell(&mut self, hands: &mut Hands<'_>, claim: &str, node: &str) -> Result<(), Died> {
        let promised = |pod: &Running| {
            let promise = self.promises.get(pod.object.metadata.uid.as_deref().unwrap_or_default());
            promise.is_some_and(|(to, until, _)| (to == claim || to == node) && *until > hands.world.now)
        };
        let waits = |pod: &Running| pod.node.is_none() && pod.ending.is_none();
        let untold = |pod: &Running| waits(pod) && pod.expected.as_deref() != Some(node) && promised(pod);
        let pods = hands.world.pods.iter().filter(|(_, pod)| untold(pod)).map(|(name, _)| name.clone());
        for pod in pods.collect::<Vec<_>>() {
            self.step()?;
            hands.world.expect(&pod, Some(node));
        }
        Ok(())
    }

    /// Deletes a NodeClaim; its node is drained first.
    pub(super) fn delete(&mut self, hands: &mut Hands<'_>, claim: &str) -> Result<(), Died> {
        self.step()?;
        let at = Time(timestamp(hands.world.now));
        hands.world.edit_claim(claim, |claim| {
            claim.metadata.deletion_timestamp.get_or_insert(at);
        });
        Ok(())
    }

    fn terminate(&mut self, hands: &mut Hands<'_>, claim: &NodeClaim, instance: Option<&Instance>) -> Result<(), Died> {
        let (name, now) = (name(claim), hands.world.now);
        let Some(instance) = instance else { return self.forget(hands, &name) };
        // EC2 terminates the instance by itself, and its agent drains it.
        if instance.ending || instance.noticed && !instance.agent_dead {
            return Ok(());
        }
        if let Some(node) = hands.world.nodes.get(&instance.id).cloned() {
            if !node.has_taint(taint::DISRUPTED, taint::NO_SCHEDULE) {
                self.close(hands, &instance.id)?;
            }
            let cause = if saves(claim) { Cause::Saving } else { Cause::Wish };
            let start = || (now, Draining::for_termination(cause, now));
            let (_, draining) = self.drains.entry(instance.id.clone()).or_insert_with(start);
            if !draining.is_done() {
                return Ok(());
            }
        }
        self.step()?;
        hands.audit.ends(hands.world, &instance.id);
        if let Some(instance) = hands.world.market.instances.get_mut(&instance.id) {
            instance.ending = true;
        }
        hands.machines.ends(&instance.id, now + SHUTS_DOWN);
        self.drains.remove(&instance.id);
        hands.world.edit_claim(&name, |claim| {
            claim.set_true(condition::INSTANCE_TERMINATING, timestamp(now));
        });
        self.ask();
        Ok(())
    }

    /// Removes a NodeClaim without an instance, and its Node.
    fn forget(&mut self, hands: &mut Hands<'_>, claim: &str) -> Result<(), Died> {
        self.step()?;
        let removed = hands.world.claims.remove(claim);
        let node = removed.and_then(|claim| Some(claim.status.as_ref()?.node_name.clone())).unwrap_or_default();
        if hands.world.nodes.contains_key(&node) {
            hands.world.lose_node(&node);
        }
        self.drains.remove(&node);
        self.launches.remove(claim);
        self.ask();
        Ok(())
    }

    /// Terminates instances that no NodeClaim owns.
    fn collect(&mut self, hands: &mut Hands<'_>) -> Result<(), Died> {
        let now = hands.world.now;
        let owned = |it: &&Instance| hands.world.claims.contains_key(&it.claim);
        let alone = hands.world.market.instances.values().filter(|it| !it.ending && !owned(it));
        let ids: Vec<String> = alone.filter(|it| now - it.bought > ORPHANED).map(|it| it.id.clone()).collect();
        for id in ids {
            self.step()?;
            if let Some(instance) = hands.world.market.instances.get_mut(&id) {
                instance.ending = true;
            }
            hands.machines.ends(&id, now + SHUTS_DOWN);
        }
        Ok(())
    }
}

/// Reports whether Karpenter would expire a NodeClaim; expiration ignores budgets.
fn is_expired(claim: &NodeClaim, now: Moment) -> bool {
    let created = claim.metadata.creation_timestamp.as_ref().map(|at| at.0.as_millisecond());
    let lives = claim.spec.expire_after.nanos().ok().flatten().map(|nanos| nanos / 1_000_000);
    let over = created.zip(lives).is_some_and(|(created, lives)| created + lives <= now);
    over && claim.metadata.deletion_timestamp.is_none()
}

/// Reports whether a NodeClaim is disrupted to save money.
fn saves(claim: &NodeClaim) -> bool {
    let said = api::status::find(claim.conditions(), condition::DISRUPTION_REASON);
    said.is_some_and(|said| ["Empty", "Underutilized"].contains(&said.reason.as_str()))
}

fn requirements(claim: &NodeClaim) -> Requirements {
    cloud::requirements(&claim.spec.requirements)
}

fn suits(asked: &Requirements, kind: &InstanceType, offering: &Offering) -> bool {
    let named = asked.get(label::INSTANCE_TYPE).is_none_or(|set| set.allows(Some(&kind.name)));
    named && Offer::new(kind).offerings(asked).any(|found| found == offering)
}

pub(super) fn name(claim: &NodeClaim) -> String {
    claim.metadata.name.clone().unwrap_or_default()
}
