//! Launches as the plan says them: types that the limits leave room for, requirements as objects write them.

use std::collections::BTreeSet;

use crate::{
    Launch, MicroDollars, Operator, Plan, PodVerdict, Purpose, Report, Requirement, Requirements, Resources, ValueSet,
    label,
};

use super::Solver;
use super::claim::Claim;
use super::dimensions::Amounts;
use super::join::holding;
use super::limits::{Headroom, maximum};
use super::template::{Candidate, Template};

impl Solver<'_> {
    pub(super) fn finish(mut self) -> Plan {
        let claims = std::mem::take(&mut self.claims.list);
        let launches: Vec<Launch> = claims.into_iter().map(|claim| self.close(claim)).collect();
        let mut plan = Plan {
            nominations: std::mem::take(&mut self.nominations),
            removals: Vec::new(),
            report: Report {
                pods: self.verdicts.drain(..).map(|it| it.unwrap_or(PodVerdict::Postponed)).collect(),
                nodes: Vec::new(),
                order: std::mem::take(&mut self.order),
                steps: self.steps,
            },
            launches,
        };
        plan.launches.extend(self.keep_static_pools());
        plan
    }

    fn close(&mut self, claim: Claim) -> Launch {
        let (seated, used) = self.seated(&claim);
        let frame = self.frames.get(claim.frame);
        let fitting: Vec<usize> = holding(&self.frames, claim.frame, 0, &used, &claim.ports)
            .map(|position| frame.entries[position].candidate)
            .collect();
        let index = frame.template;
        let listed = self.widest(&claim, index, fitting);
        let frame = self.frames.get(claim.frame);
        let template = &self.frames.templates[index];
        let kinds: Vec<&Candidate<'_>> = listed.iter().map(|candidate| &template.candidates[*candidate]).collect();
        let min_values = self.min_values(claim.frame);
        let found = |key: &str| self.count_values(claim.frame, key, &used, &claim.ports);
        let lowered: Vec<(String, u32)> = claim.lowered.keys().map(|key| (key.clone(), found(key))).collect();
        let relaxed =
            lowered.iter().any(|(key, found)| min_values.iter().any(|(own, asked)| own == key && found < asked));
        let mut requests = seated;
        requests.add(&least(kinds.iter().map(|candidate| &candidate.overhead)));
        let mut requirements = written(&frame.requirements, template, &kinds);
        for requirement in &mut requirements {
            let lower = lowered.iter().find(|(key, _)| *key == requirement.key);
            requirement.min_values =
                requirement.min_values.map(|asked| lower.map_or(asked, |(_, found)| asked.min(*found)));
        }
        let of_types = min_values.iter().find(|(key, _)| key == label::INSTANCE_TYPE).map(|(_, asked)| *asked);
        let lower = lowered.iter().find(|(key, _)| key == label::INSTANCE_TYPE).map(|(_, found)| *found);
        Launch {
            pool: template.pool.name.clone(),
            requirements,
            price: MicroDollars(kinds.iter().filter_map(|it| cheapest(it, &frame.requirements)).min().unwrap_or(0)),
            instance_types: kinds.iter().map(|candidate| candidate.offer.kind.name.clone()).collect(),
            requests,
            min_instance_types: of_types.map(|asked| lower.map_or(asked, |lower| lower.min(asked))),
            pods: claim.pods,
            purpose: Purpose::Provision,
            min_values_relaxed: relaxed,
        }
    }

    /// What the launch's pods request in fact, without seats that nobody took.
    fn seated(&self, claim: &Claim) -> (Resources, Amounts) {
        let mut seated = Resources::default();
        let mut attachments: Amounts = self.dimensions.amounts(&Resources::default());
        for pod in &claim.pods {
            seated.add(&self.demands[self.snapshot.pods[*pod].shape].shape.requests);
        }
        for (driver, _) in &claim.attached {
            self.dimensions.add_attachments(&mut attachments, driver, 1);
        }
        let mut used = self.dimensions.amounts(&seated);
        used.iter_mut().zip(&attachments).for_each(|(used, more)| *used += more);
        (seated, used)
    }

    /// As many candidates, cheapest first, as a claim may list and as the limits can bear at once.
    fn widest(&mut self, claim: &Claim, template: usize, fitting: Vec<usize>) -> Vec<usize> {
        let most = self.snapshot.policy.max_instance_types.max(1);
        if !self.headroom.is_bounded(template) {
            return fitting.into_iter().take(most).collect();
        }
        let candidates = &self.frames.templates[template].candidates;
        let mut held = claim.held.clone();
        let mut kept = Vec::new();
        for candidate in fitting {
            let wanted = maximum(&held, &candidates[candidate].footprint);
            if kept.len() < most && bears(&self.headroom, template, &wanted, &held) {
                self.headroom.exchange(template, &held, &wanted);
                held = wanted;
                kept.push(candidate);
            }
        }
        kept
    }
}

fn bears(headroom: &Headroom, template: usize, wanted: &[i64], held: &[i64]) -> bool {
    headroom.first_exceeded(template, wanted, held).is_none()
}

fn cheapest(candidate: &Candidate<'_>, requirements: &Requirements) -> Option<i64> {
    candidate.offerings(requirements).map(|offering| offering.price.0).min()
}

/// Requirements as objects write them: settled where only the claim can, with the capacity types that can be had.
pub(super) fn written(
    requirements: &Requirements,
    template: &Template<'_>,
    kinds: &[&Candidate<'_>],
) -> Vec<Requirement> {
    let sold = kinds.iter().flat_map(|candidate| candidate.offerings(requirements));
    let capacity_types: BTreeSet<&str> = sold.map(|offering| offering.capacity_type.as_str()).collect();
    let mut requirements = requirements.clone();
    settle(&mut requirements, template);
    requirements.add(&Requirement::new(label::CAPACITY_TYPE, Operator::In, capacity_types));
    requirements.remove(label::HOSTNAME);
    requirements.remove(label::INSTANCE_TYPE);
    requirements.to_vec()
}

/// Settles labels that nobody but the claim can give the node: where one must be there and several values are possible,
/// one of them is chosen, for the node would otherwise come up without it.
fn settle(requirements: &mut Requirements, template: &Template<'_>) {
    let open = |(key, set): &(&str, &ValueSet)| !template.decides(key) && !set.allows(None);
    let chosen: Vec<(String, String)> =
        requirements.iter().filter(open).filter_map(|(key, set)| Some((key.to_owned(), set.any()?))).collect();
    for (key, value) in chosen {
        requirements.narrow(&key, &ValueSet::one(&value));
    }
}

/// The least amount of every resource over all.
fn least<'r>(all: impl Iterator<Item = &'r Resources>) -> Resources {
    let minimum = |one: Resources, other: &Resources| {
        one.iter().filter(|(name, _)| other.names(name)).map(|(name, it)| (name, it.min(other.get(name)))).collect()
    };
    let mut all = all;
    let first = all.next().cloned().unwrap_or_default();
    all.fold(first, minimum)
}
