//! Commitments: what Savings Plans and Reserved Instances pay for, and which nodes use them.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::commitment::{CommitmentTerm, OnDemandType};
use api::{Commitment, FieldFault};
use planner::{CapacityType, InstanceType, MicroDollars, Snapshot};

use crate::{Input, Problem};

/// State of a Commitment at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitmentState {
    /// Name of the Commitment.
    pub commitment: String,
    /// Its use by nodes, or the reason why it pays for none.
    pub verdict: Result<CommitmentUse, UnusableCommitment>,
}

/// Use of a Commitment by nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitmentUse {
    /// Amount that it has.
    pub amount: i64,
    /// Amount that nodes use.
    pub used: i64,
    /// Number of nodes that use it.
    pub nodes: usize,
    /// Cost per hour of these nodes without it.
    pub covered: MicroDollars,
}

impl CommitmentUse {
    /// Returns the used part in percent, with one decimal.
    #[must_use]
    pub fn used_percent(&self) -> String {
        let share = i128::from(self.used) * 1000 / i128::from(self.amount.max(1));
        format!("{}.{}", share / 10, share % 10)
    }
}

/// Reason why a Commitment pays for no node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnusableCommitment {
    /// Fields are invalid.
    Invalid(Vec<FieldFault>),
    /// It pays later.
    NotStarted,
    /// It no longer pays.
    Ended,
    /// No EC2NodeClass has an instance type for which it pays.
    NoTypes,
}

/// Commitments of a snapshot before nodes use them, and those that cannot be used.
pub(crate) struct Commitments {
    pub(crate) usable: Vec<planner::Commitment>,
    unusable: Vec<CommitmentState>,
}

/// Evaluates all Commitments. They are in the order in which EC2 uses them.
pub(crate) fn evaluate(input: &Input<'_>, problems: &mut Vec<Problem>) -> Commitments {
    let types = if input.commitments.is_empty() { Vec::new() } else { on_demand_types(input) };
    let mut all: Vec<&Commitment> = input.commitments.iter().map(|it| it.as_ref()).collect();
    all.sort_by_key(|it| (it.spec.rank(), it.metadata.name.clone()));
    let (mut usable, mut unusable) = (Vec::new(), Vec::new());
    for commitment in all {
        match usable_commitment(input, commitment, &types) {
            Ok(commitment) => usable.push(commitment),
            Err(reason) => {
                let name = commitment.metadata.name.clone().unwrap_or_default();
                problems.extend(problems_of(&name, &reason));
                unusable.push(CommitmentState { commitment: name, verdict: Err(reason) });
            }
        }
    }
    Commitments { usable, unusable }
}

fn usable_commitment(
    input: &Input<'_>,
    commitment: &Commitment,
    types: &[OnDemandType<'_>],
) -> Result<planner::Commitment, UnusableCommitment> {
    let spec = &commitment.spec;
    let faults = spec.faults();
    if !faults.is_empty() {
        return Err(UnusableCommitment::Invalid(faults));
    }
    match spec.term(input.now) {
        CommitmentTerm::Future => return Err(UnusableCommitment::NotStarted),
        CommitmentTerm::Past => return Err(UnusableCommitment::Ended),
        CommitmentTerm::Present => {}
    }
    let uses: BTreeMap<String, i64> =
        types.iter().filter_map(|kind| Some((kind.name.to_owned(), spec.use_of(kind)?))).collect();
    if uses.is_empty() {
        return Err(UnusableCommitment::NoTypes);
    }
    Ok(planner::Commitment {
        name: commitment.metadata.name.clone().unwrap_or_default(),
        left: spec.amount(),
        uses: Arc::new(uses),
        zone: spec.reserved_instances.as_ref().and_then(|it| it.zone.clone()),
    })
}

fn problems_of(name: &str, reason: &UnusableCommitment) -> Vec<Problem> {
    match reason {
        UnusableCommitment::Invalid(faults) => {
            let problem =
                |fault: &FieldFault| Problem::Commitment { commitment: name.to_owned(), fault: fault.clone() };
            faults.iter().map(problem).collect()
        }
        UnusableCommitment::NoTypes => vec![Problem::CommitmentWithoutTypes { commitment: name.to_owned() }],
        UnusableCommitment::NotStarted | UnusableCommitment::Ended => Vec::new(),
    }
}

/// Returns the on-demand types of all EC2NodeClasses, by name.
fn on_demand_types<'a>(input: &'a Input<'_>) -> Vec<OnDemandType<'a>> {
    let all = input.catalogues.values().flat_map(|catalogue| &catalogue.types);
    let types: BTreeMap<&str, OnDemandType<'_>> =
        all.filter_map(on_demand_type).map(|kind| (kind.name, kind)).collect();
    types.into_values().collect()
}

fn on_demand_type(kind: &InstanceType) -> Option<OnDemandType<'_>> {
    let offerings = kind.offerings.iter().filter(|it| it.capacity_type == CapacityType::OnDemand);
    let price = offerings.map(|it| it.charged().0).min()?;
    let cpus = kind.labels.get(api::label::INSTANCE_CPU).and_then(|values| values.first()?.parse().ok());
    Some(OnDemandType { name: &kind.name, price, cpus: cpus.unwrap_or_default() })
}

impl Commitments {
    /// Returns the states of all Commitments, by name, once they pay for the nodes of the snapshot.
    pub(crate) fn states(self, snapshot: &Snapshot) -> Vec<CommitmentState> {
        let mut states = self.unusable;
        for (before, after) in self.usable.iter().zip(&snapshot.commitments) {
            let nodes = snapshot.nodes.iter().flat_map(|node| &node.paid);
            let shares = || nodes.clone().filter(|share| share.commitment == before.name);
            let verdict = Ok(CommitmentUse {
                amount: before.left,
                used: before.left - after.left,
                nodes: shares().count(),
                covered: MicroDollars(shares().map(|share| share.price.0).sum()),
            });
            states.push(CommitmentState { commitment: before.name.clone(), verdict });
        }
        states.sort_by(|one, other| one.commitment.cmp(&other.commitment));
        states
    }
}
