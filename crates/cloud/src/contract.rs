//! The contract of [`Cloud`] as test cases that run against any implementation: the fake, the fake over HTTP, and a third-party
//! emulator.
//!
//! The module is test support, and part of the crate so that each implementation runs the same cases. The cases create and
//! delete only resources whose names begin with [`Abilities::name`]. [`Abilities`] lists what an emulator lacks. A case that
//! needs a missing ability reports [`Verdict::Skipped`], so the result also lists the cases that did not run.

mod fixture;
mod fleets;
mod reads;

use std::fmt;

use crate::calls::{Call, Cloud, Tags};

pub use fixture::Fixture;

/// Test resources and abilities of the cloud under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Name prefix of all created resources; must differ between runs against one server.
    pub name: String,
    /// Tags that select at least one subnet and one security group.
    pub network_tags: Tags,
    /// An x86_64 image that can be launched.
    pub image_id: String,
    /// An existing SSM parameter.
    pub parameter: String,
    /// True if spot prices exist and are greater than zero.
    pub spot_prices: bool,
    /// True if CreateFleet uses the override with the lowest priority value first.
    pub fleet_priorities: bool,
    /// True if a client token launches once and is refused with other parameters.
    pub fleet_tokens: bool,
    /// An instance type whose spot pools have no capacity in any zone; `None` if CreateFleet does not report errors of single
    /// pools.
    pub exhausted_spot_type: Option<String>,
    /// True if an instance shows the security groups of its launch template.
    pub template_network: bool,
}

/// Result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The contract holds.
    Passed,
    /// The cloud lacks an ability that the case needs.
    Skipped,
    /// The contract is broken; the text describes how.
    Failed(String),
}

/// A case with its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Description of the case.
    pub case: &'static str,
    /// Result of the case.
    pub verdict: Verdict,
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.verdict {
            Verdict::Passed => write!(out, "passed: {}", self.case),
            Verdict::Skipped => write!(out, "skipped: {}", self.case),
            Verdict::Failed(how) => write!(out, "FAILED: {}: {how}", self.case),
        }
    }
}

/// Result of a case; `Err` describes the broken contract.
type Result = std::result::Result<(), String>;
type Case = for<'a> fn(&'a Fixture<'a>) -> std::pin::Pin<Box<dyn Future<Output = Result> + Send + 'a>>;

type Needs = fn(&Abilities) -> bool;

/// All cases, each with the abilities that it needs.
const CASES: &[(&str, Needs, Case)] = &[
    ("instance types carry what capacity is computed from", always, |s| Box::pin(reads::types(s))),
    ("GPUs and Neuron devices are counted once", always, |s| Box::pin(reads::accelerators(s))),
    ("types are offered in the zones of the subnets", always, |s| Box::pin(reads::offerings(s))),
    ("spot prices are positive", |a| a.spot_prices, |s| Box::pin(reads::spot_prices(s))),
    ("subnets are found by tag, by tag key and by id", always, |s| Box::pin(reads::subnets(s))),
    ("security groups are found by tag, by id and by name", always, |s| Box::pin(reads::security_groups(s))),
    ("images are found by id and by name pattern", always, |s| Box::pin(reads::images(s))),
    ("a missing parameter is no error", always, |s| Box::pin(reads::parameters(s))),
    ("a launch template is made once, found and deleted once", always, |s| Box::pin(fleets::template(s))),
    ("a fleet without its launch template is refused", always, |s| Box::pin(fleets::missing_template(s))),
    ("a fleet's instances are found by tag and end on request", always, |s| Box::pin(fleets::life(s))),
    ("an unknown instance is none, and cannot be ended", always, |s| Box::pin(fleets::unknown_instance(s))),
    ("tags are added to an instance", always, |s| Box::pin(fleets::tags(s))),
    ("spot is spot", always, |s| Box::pin(fleets::spot(s))),
    ("security groups come from the launch template", |a| a.template_network, |s| Box::pin(fleets::network(s))),
    ("the lowest priority value goes first", |a| a.fleet_priorities, |s| Box::pin(fleets::priorities(s))),
    ("a client token launches once", |a| a.fleet_tokens, |s| Box::pin(fleets::token_twice(s))),
    ("a client token refuses other parameters", |a| a.fleet_tokens, |s| Box::pin(fleets::token_misused(s))),
    (
        "a pool without capacity is an error beside what was launched",
        |a| a.exhausted_spot_type.is_some(),
        |s| Box::pin(fleets::exhausted_pool(s)),
    ),
    (
        "only pools without capacity: no instance, only errors",
        |a| a.exhausted_spot_type.is_some(),
        |s| Box::pin(fleets::all_exhausted(s)),
    ),
];

fn always(_: &Abilities) -> bool {
    true
}

/// Runs all cases, one after the other. A failed case does not stop the run.
pub async fn run(cloud: &dyn Cloud, abilities: &Abilities) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for (number, (case, needed, body)) in CASES.iter().enumerate() {
        let verdict = if needed(abilities) { attempt(cloud, abilities, number, *body).await } else { Verdict::Skipped };
        outcomes.push(Outcome { case, verdict });
    }
    outcomes
}

async fn attempt(cloud: &dyn Cloud, abilities: &Abilities, number: usize, body: Case) -> Verdict {
    let fixture = Fixture::new(cloud, abilities, number);
    let result = body(&fixture).await;
    let cleaned = fixture.clear().await;
    match result.and(cleaned) {
        Ok(()) => Verdict::Passed,
        Err(how) => Verdict::Failed(how),
    }
}

/// Lists the failed cases, one per line; empty if none failed.
#[must_use]
pub fn failures(outcomes: &[Outcome]) -> String {
    let failed = outcomes.iter().filter(|outcome| matches!(outcome.verdict, Verdict::Failed(_)));
    failed.map(|outcome| format!("{outcome}\n")).collect()
}

/// Returns the answer of a call, or its error as text, which fails the case.
async fn ok<T>(call: Call<'_, T>) -> std::result::Result<T, String> {
    call.await.map_err(|error| error.to_string())
}

fn check(holds: bool, otherwise: impl FnOnce() -> String) -> Result {
    if holds { Ok(()) } else { Err(otherwise()) }
}
