//! What every implementation of [`Cloud`] must do, as cases that run against any of them: the fake, the fake over the
//! wire, and an emulator that is not ours.
//!
//! Test support, shipped with the trait so that each implementation is evaluated by the same words. The cases create and
//! remove what they need under names that begin with [`Abilities::name`]; nothing else is touched. What an emulator is
//! known to lack is said in [`Abilities`], and such a case reports [`Verdict::Skipped`], so that a list of what was
//! not tried is part of the result.

mod fleets;
mod reads;
mod stage;

use std::fmt;

use crate::calls::{Call, Cloud, Tags};

pub use stage::Stage;

/// What the cloud under test has and can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Prefix of everything that the run creates; must differ between runs against one server.
    pub name: String,
    /// Tags that select at least one subnet and one security group.
    pub network_tags: Tags,
    /// An x86_64 image that may be launched.
    pub image_id: String,
    /// An SSM parameter that exists.
    pub parameter: String,
    /// Whether spot prices are there and greater than zero.
    pub spot_prices: bool,
    /// Whether CreateFleet takes the override of the lowest priority value first.
    pub fleet_priorities: bool,
    /// Whether the same client token launches once, and is refused with other parameters.
    pub fleet_tokens: bool,
    /// An instance type whose spot pools are dry in every zone, if CreateFleet reports errors of single pools.
    pub dry_spot_type: Option<String>,
    /// Whether an instance shows the security groups of its launch template.
    pub template_network: bool,
}

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it must be.
    Passed,
    /// The abilities say that the cloud cannot do it.
    Skipped,
    /// Not as it must be, and how.
    Failed(String),
}

/// One case with its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The case, as a sentence.
    pub case: &'static str,
    /// How it ended.
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

/// What a case gives back: `Err` says what is not as it must be.
type Result = std::result::Result<(), String>;
type Case = for<'a> fn(&'a Stage<'a>) -> std::pin::Pin<Box<dyn Future<Output = Result> + Send + 'a>>;

type Needs = fn(&Abilities) -> bool;

/// Every case with what it needs.
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
    ("a fleet's instances are found by tag and end when told", always, |s| Box::pin(fleets::life(s))),
    ("an unknown instance is none, and cannot be ended", always, |s| Box::pin(fleets::unknown_instance(s))),
    ("tags are added to an instance", always, |s| Box::pin(fleets::tags(s))),
    ("spot is spot", always, |s| Box::pin(fleets::spot(s))),
    ("security groups come from the launch template", |a| a.template_network, |s| Box::pin(fleets::network(s))),
    ("the lowest priority value goes first", |a| a.fleet_priorities, |s| Box::pin(fleets::priorities(s))),
    ("a client token launches once", |a| a.fleet_tokens, |s| Box::pin(fleets::token_twice(s))),
    ("a client token refuses other parameters", |a| a.fleet_tokens, |s| Box::pin(fleets::token_misused(s))),
    (
        "a dry pool is an error beside what was launched",
        |a| a.dry_spot_type.is_some(),
        |s| Box::pin(fleets::dry_pool(s)),
    ),
    ("only dry pools: no instance, only errors", |a| a.dry_spot_type.is_some(), |s| Box::pin(fleets::all_dry(s))),
];

fn always(_: &Abilities) -> bool {
    true
}

/// Runs every case, one after the other; a failed one does not stop the rest.
pub async fn run(cloud: &dyn Cloud, abilities: &Abilities) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for (number, (case, needed, body)) in CASES.iter().enumerate() {
        let verdict = if needed(abilities) { attempt(cloud, abilities, number, *body).await } else { Verdict::Skipped };
        outcomes.push(Outcome { case, verdict });
    }
    outcomes
}

async fn attempt(cloud: &dyn Cloud, abilities: &Abilities, number: usize, body: Case) -> Verdict {
    let stage = Stage::new(cloud, abilities, number);
    let judged = body(&stage).await;
    let cleaned = stage.clear().await;
    match judged.and(cleaned) {
        Ok(()) => Verdict::Passed,
        Err(how) => Verdict::Failed(how),
    }
}

/// The cases that failed, one a line; empty when none did.
#[must_use]
pub fn failures(outcomes: &[Outcome]) -> String {
    let failed = outcomes.iter().filter(|outcome| matches!(outcome.verdict, Verdict::Failed(_)));
    failed.map(|outcome| format!("{outcome}\n")).collect()
}

/// The answer of a call, or the error as the end of the case.
async fn ok<T>(call: Call<'_, T>) -> std::result::Result<T, String> {
    call.await.map_err(|error| error.to_string())
}

fn check(holds: bool, otherwise: impl FnOnce() -> String) -> Result {
    if holds { Ok(()) } else { Err(otherwise()) }
}
