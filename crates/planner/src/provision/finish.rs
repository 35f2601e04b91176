//! Conversion of planned nodes into launches: instance types within the limits, and requirements in the form of the API.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{
    CapacityType, Launch, MicroDollars, Operator, Plan, PodVerdict, Purpose, Report, Requirement, Requirements,
    Resources, ValueSet, label,
};

use super::Solver;
use super::dimensions::Amounts;
use super::join::{holding, within};
use super::limits::maximum;
use super::new_node::NewNode;
use super::node_template::{CapacityTypes, PricedType, TemplateId};
use super::pool_template::PoolTemplate;

/// Instance types that a launch lists.
#[derive(Clone)]
pub(super) struct TypeList {
    names: Arc<Vec<String>>,
    /// Minimum DaemonSet overhead over all of them.
    overhead: Resources,
    /// Price of the cheapest one.
    price: MicroDollars,
    sold_as: CapacityTypes,
}

impl Solver<'_> {
    pub(super) fn finish(mut self) -> Plan {
        let claims = std::mem::take(&mut self.claims.list);
        let launches: Vec<Launch> = claims.into_iter().map(|claim| self.close(claim)).collect();
        Plan {
            nominations: std::mem::take(&mut self.nominations),
            moves: Vec::new(),
            resizes: Vec::new(),
            saved_by_usage: MicroDollars::default(),
            report: Report {
                pods: self.verdicts.drain(..).map(|it| it.unwrap_or(PodVerdict::Postponed)).collect(),
                nodes: Vec::new(),
                pools_without_types: self.barren(),
                unpacked: Vec::new(),
                order: std::mem::take(&mut self.order),
                steps: self.steps,
            },
            launches,
        }
    }

    /// Returns NodePools without any available instance type, independent of the pods.
    fn barren(&self) -> Vec<String> {
        let offers = |template: &PoolTemplate<'_>| {
            let sound = template.requirements.iter().all(|(_, set)| !set.is_empty());
            sound && template.candidates.iter().any(|it| it.sold(&template.requirements).next().is_some())
        };
        let mut names: Vec<String> =
            self.frames.templates.iter().filter(|it| !offers(it)).map(|it| it.pool.name.clone()).collect();
        names.sort();
        names
    }

    pub(super) fn close(&mut self, claim: NewNode) -> Launch {
        let (seated, used) = self.seated(&claim);
        let listed = self.listed(&claim, &used);
        let list = self.list(claim.frame, listed);
        let frame = self.frames.get(claim.frame);
        let template = &self.frames.templates[frame.template];
        let (lowered, relaxed) = self.lowered(&claim, &used);
        let mut requests = seated;
        if !claim.pods.is_empty() {
            requests.add(&list.overhead);
        }
        let purpose = if template.pool.replicas.is_some() { Purpose::Static } else { Purpose::Provision };
        let mut requirements = written(&frame.requirements, template, list.sold_as);
        for requirement in &mut requirements {
            let lower = |asked: u32| lowered.get(&requirement.key).map_or(asked, |found| asked.min(*found));
            requirement.min_values = requirement.min_values.map(lower);
        }
        Launch {
            pool: template.pool.name.clone(),
            requirements,
            price: list.price,
            requests,
            min_instance_types: self.min_instance_types(claim.frame, &lowered),
            instance_types: list.names,
            pods: claim.pods,
            purpose,
            min_values_relaxed: relaxed,
        }
    }

    /// Returns entries that hold the used resources, as many as a claim may list and the limits allow.
    fn listed(&mut self, claim: &NewNode, used: &[i64]) -> Vec<usize> {
        let fitting: Vec<usize> = holding(&self.frames, claim.frame, 0, used, &claim.ports).collect();
        self.widest(claim, fitting)
    }

    /// Returns labels with fewer values than `minValues` requires, with their number, and reports whether there are any.
    fn lowered(&self, claim: &NewNode, used: &[i64]) -> (BTreeMap<String, u32>, bool) {
        let found = |key: &String| self.count_values(claim.frame, key, used, &claim.ports, &claim.held);
        let lowered: BTreeMap<String, u32> = claim.lowered.keys().map(|key| (key.clone(), found(key))).collect();
        let asked = self.min_values(claim.frame);
        let relaxed = asked.iter().any(|(key, asked)| lowered.get(key).is_some_and(|found| found < asked));
        (lowered, relaxed)
    }

    fn min_instance_types(&self, frame: TemplateId, lowered: &BTreeMap<String, u32>) -> Option<u32> {
        let (_, asked) = self.min_values(frame).into_iter().find(|(key, _)| key == label::INSTANCE_TYPE)?;
        Some(lowered.get(label::INSTANCE_TYPE).map_or(asked, |found| asked.min(*found)))
    }

    /// Returns the data that launches with these entries of a template share; equal lists are computed once.
    fn list(&mut self, frame: TemplateId, listed: Vec<usize>) -> TypeList {
        let own = self.frames.get(frame);
        let candidates = &self.frames.templates[own.template].candidates;
        let list = |(_, listed): &(TemplateId, Vec<usize>)| {
            let entries = || listed.iter().map(|position| &own.entries[*position]);
            let name = |entry: &PricedType| candidates[entry.candidate].offer.kind.name.clone();
            TypeList {
                names: Arc::new(entries().map(name).collect()),
                overhead: least(entries().map(|entry| &candidates[entry.candidate].overhead)),
                price: MicroDollars(entries().map(|entry| entry.price).min().unwrap_or(0)),
                sold_as: entries().fold(CapacityTypes::default(), |all, entry| all.with(entry.sold_as)),
            }
        };
        self.lists.entry((frame, listed)).or_insert_with_key(list).clone()
    }

    /// Returns the actual requests of the launch's pods, without unused slots.
    pub(super) fn seated(&self, claim: &NewNode) -> (Resources, Amounts) {
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

    /// Returns as many of the fitting entries, cheapest first, as a claim may list and as the limits allow together.
    fn widest(&mut self, claim: &NewNode, mut fitting: Vec<usize>) -> Vec<usize> {
        let most = self.snapshot.policy.max_instance_types.max(1);
        let frame = self.frames.get(claim.frame);
        if !self.headroom.is_bounded(frame.template) {
            fitting.truncate(most);
            return fitting;
        }
        let candidates = &self.frames.templates[frame.template].candidates;
        let mut held = claim.held.clone();
        let mut kept = Vec::new();
        for position in fitting {
            if kept.len() == most {
                break;
            }
            let wanted = maximum(&held, &candidates[frame.entries[position].candidate].footprint);
            if wanted == held || within(&self.headroom, frame.template, &wanted, &held) {
                self.headroom.exchange(frame.template, &held, &wanted);
                held = wanted;
                kept.push(position);
            }
        }
        kept
    }
}

/// Converts requirements into the form of the API: fixes values that only the claim can decide, and lists the available
/// capacity types.
fn written(requirements: &Requirements, template: &PoolTemplate<'_>, sold_as: CapacityTypes) -> Vec<Requirement> {
    let mut requirements = requirements.clone();
    settle(&mut requirements, template);
    let sold_as = sold_as.iter().map(CapacityType::as_str);
    requirements.add(&Requirement::new(label::CAPACITY_TYPE, Operator::In, sold_as));
    requirements.remove(label::HOSTNAME);
    requirements.remove(label::INSTANCE_TYPE);
    requirements.to_vec()
}

/// Fixes labels that only the claim can give the node. Where such a label is required and several values are possible, one is
/// chosen; otherwise the node would start without the label.
fn settle(requirements: &mut Requirements, template: &PoolTemplate<'_>) {
    let open = |(key, set): &(&str, &ValueSet)| !template.decides(key) && !set.allows(None);
    let chosen: Vec<(String, String)> =
        requirements.iter().filter(open).filter_map(|(key, set)| Some((key.to_owned(), set.any()?))).collect();
    for (key, value) in chosen {
        requirements.narrow(&key, &ValueSet::one(&value));
    }
}

/// Returns the least amount of every resource over all.
fn least<'r>(all: impl Iterator<Item = &'r Resources>) -> Resources {
    let minimum = |one: Resources, other: &Resources| {
        one.iter().filter(|(name, _)| other.names(name)).map(|(name, it)| (name, it.min(other.get(name)))).collect()
    };
    let mut all = all;
    let first = all.next().cloned().unwrap_or_default();
    all.fold(first, minimum)
}
