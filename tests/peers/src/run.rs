//! Command line of `peers`: selects a comparison and prints its results.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use day::clock::START;
use day::setup::{Replicas, Setup};
use day::verdict;

use crate::consolidation::Consolidation;
use crate::karpenter::Karpenter;
use crate::limited::{self, Hours};
use crate::memory::Size;
use crate::price::PricedWorkload;
use crate::report::{
    Agent, Constrained, Disruption, Growth, Live, Machine, Measure, PlayedTrace, Report, renewed,
    with_separate_sections,
};
use crate::traces::{self, Request};
use crate::workloads::Workload;
use crate::{compare, consolidation, curve, daily, disruption, growth, memory, price, workloads};

const USAGE: &str =
    "usage: peers [--quick]          everything: writes target/peers/planner.json, disruption.json and docs/performance.md
       peers fixtures FOLDER [WORKLOAD...]  pods and catalogues of the workloads, as files
       peers bound [WORKLOAD...]  cost of Kerf's plans over the lower bound, one line a workload
       peers constrained          workloads with constraints: writes their part of docs/performance.md
       peers growth               clusters of up to 15,000 nodes: writes their part of docs/performance.md
       peers disruption           disrupting nodes: writes target/peers/disruption.json and its part of docs/performance.md
       peers live                 writes what `make peers-live` measured last into docs/performance.md
       peers consolidation | give-back | drift    one part of that
       peers day SEED             the simulated day and its cost over the hourly lower bound
       peers day SEED limit=PERCENT  the day without and with a limit of its cost: waits by priority
       peers traces FOLDER [azure | openb] [hours=N] [every=N] [spot-to-spot] [limit=PERCENT] [report]
                                  a public trace (default: azure): its first hours, one of N owners;
                                  report writes its part of docs/performance.md
       peers pictures             the day of seed 1 without faults, as docs/pictures/fleet.svg and moves.svg";

/// Fixtures of Karpenter's benchmark and similar ones.
const COMPARED: [&str; 5] = ["diverse-20000", "preferences-4000", "existing-500", "existing-2000", "pending-33000"];

/// Runs the command line. Exit code 1 means that a comparison failed, or that a plan failed its validation.
pub fn run(arguments: impl Iterator<Item = String>) -> ExitCode {
    match carry_out(&arguments.collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn carry_out(arguments: &[String]) -> anyhow::Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => full(),
        ["--quick"] => quick(&results().join("quick")).map(|measures| measures.iter().for_each(print)),
        ["fixtures", folder, names @ ..] => {
            chosen(names).try_for_each(|workload| workload.write(&Path::new(folder).join(workload.name)))
        }
        ["bound", names @ ..] => bound(names),
        ["constrained"] => renew(&constrained(&Karpenter::find()?)?, &Machine::here("peers constrained").date),
        ["growth"] => renew(&growth(&growth::NODES)?, &Machine::here("peers growth").date),
        ["disruption"] => renew(&taking_away()?, &Machine::here("peers disruption").date),
        ["live"] => renew_live(&Live::day(&results())?),
        ["consolidation"] => whole_pass().map(|it| println!("{it}")),
        ["give-back"] => disruption::give_back(500).map(|it| println!("{it:?}")),
        ["drift"] => disruption::drift(1_000).map(|it| println!("{it:?}")),
        ["day", seed] => whole_day(seed),
        ["day", seed, limit] => limited_day(seed, limit),
        ["traces", folder, words @ ..] => trace(Path::new(folder), words),
        ["pictures"] => pictures(),
        _ => bail!("{USAGE}"),
    }
}

fn bound(names: &[&str]) -> anyhow::Result<()> {
    println!("{}", price::HEADING);
    for workload in chosen(names) {
        println!("{}", price::compare_price(&workload, &fixtures().join(workload.name), None)?);
    }
    Ok(())
}

/// Returns the workloads of these names, or all of them for an empty list.
fn chosen(names: &[&str]) -> impl Iterator<Item = Workload> {
    workloads::all().into_iter().filter(|it| names.is_empty() || names.contains(&it.name))
}

/// Measures clusters with these numbers of nodes.
fn growth(nodes: &[usize]) -> anyhow::Result<Growth> {
    let measured = |nodes: &usize| {
        let one = growth::measure(*nodes)?;
        println!("{one:?}");
        Ok(one)
    };
    nodes.iter().map(measured).collect::<anyhow::Result<_>>().map(Growth)
}

/// Measures the workloads with constraints.
fn constrained(karpenter: &Karpenter) -> anyhow::Result<Constrained> {
    println!("{}", price::HEADING);
    workloads::constrained()
        .iter()
        .map(|workload| priced(workload, &fixtures(), karpenter))
        .collect::<Result<_, _>>()
        .map(Constrained)
}

/// Measures a workload in a folder of its own, and prints its line.
fn priced(workload: &Workload, fixtures: &Path, karpenter: &Karpenter) -> anyhow::Result<PricedWorkload> {
    let one = price::compare_price(workload, &fixtures.join(workload.name), Some(karpenter))?;
    println!("{one}");
    Ok(one)
}

/// Measures one pass over 5,000 nodes. Karpenter simulates only a few candidates, because each takes long.
fn whole_pass() -> anyhow::Result<Consolidation> {
    consolidation::measure(&fixtures().join("settled-5000"), &Karpenter::find()?, 20)
}

/// Measures disruption at full size. Load on this machine does not affect the simulated results, but the pass.
fn taking_away() -> anyhow::Result<Disruption> {
    let consolidation = whole_pass()?;
    println!("{consolidation:?}");
    let give_back = disruption::give_back(500)?;
    println!("{give_back:?}");
    let drift = disruption::drift(1_000)?;
    println!("{drift:?}");
    let mut days = Vec::new();
    for policy in disruption::POLICIES {
        let day = disruption::cost(policy, daily::SIZE, policy == "ignore")?;
        println!("{day:?}");
        days.push(day);
    }
    let (_, bound) = daily::simulate(&Setup::default(), daily::SIZE, true)?;
    let outcome =
        Disruption { consolidation: Some(consolidation), give_back: Some(give_back), drift: Some(drift), days, bound };
    write(&results().join("disruption.json"), &(serde_json::to_string_pretty(&outcome.measures())? + "\n"))?;
    Ok(outcome)
}

fn seed_of(text: &str) -> anyhow::Result<u64> {
    text.parse().with_context(|| format!("{text:?} is no seed: write a whole number"))
}

/// Returns the percentage of a word such as `limit=80`.
fn percent_of(word: &str) -> Option<i64> {
    word.strip_prefix("limit=")?.parse().ok().filter(|percent| (1..=100).contains(percent))
}

fn limited_day(seed: &str, limit: &str) -> anyhow::Result<()> {
    let percent = percent_of(limit).with_context(|| format!("{limit:?}: write a percentage, such as limit=80"))?;
    let setup = Setup { seed: seed_of(seed)?, replicas: Replicas::Elected, ..Setup::default() };
    let hours = Hours { count: daily::SIZE.hours, events: day::trace::day(setup.seed, daily::SIZE, START) };
    print!("{}", limited::compare(&setup, &hours, percent)?);
    Ok(())
}

fn whole_day(seed: &str) -> anyhow::Result<()> {
    let seed = seed_of(seed)?;
    let setup = Setup { seed, replicas: Replicas::Elected, ..Setup::default() };
    let (mut simulation, bounded) = daily::simulate(&setup, daily::HARD, true)?;
    println!("{}", daily::describe(&simulation, bounded, daily::HARD));
    let left_over = verdict::left_over(&mut simulation);
    anyhow::ensure!(left_over.is_empty(), "pods without a node at the end: {}", left_over.join(", "));
    let broken = verdict::broken(&simulation);
    anyhow::ensure!(broken.is_empty(), "the simulated day violated invariants:\n  {}", broken.join("\n  "));
    println!("no leaked instance, no repeated launch, no violation, and every pod has a node");
    Ok(())
}

/// Plays the trace by the rules of both sides.
fn trace(folder: &Path, words: &[&str]) -> anyhow::Result<()> {
    anyhow::ensure!(!folder.as_os_str().is_empty(), "no folder with traces: write TRACES=FOLDER");
    let request = Request::parse(words)?;
    let (trace, setup) = (request.read(folder)?, request.setup());
    println!("{}: {} pods within {} hours", trace.name, trace.pods, trace.hours);
    if let Some(percent) = request.limit {
        print!("{}", traces::limited(trace, &setup, percent)?);
        return Ok(());
    }
    let ours = traces::play(&trace, &setup, false)?;
    println!("Kerf: {ours}");
    let peer = traces::play(&trace, &setup, true)?;
    println!("Karpenter's rules: {peer}");
    if request.is_reported {
        let section = PlayedTrace { request, pods: trace.pods, ours, peer };
        renew(&section, &Machine::here("peers traces").date)?;
    }
    Ok(())
}

fn pictures() -> anyhow::Result<()> {
    let (simulation, _) = daily::simulate(&Setup::default(), daily::CALM, false)?;
    println!("{}", daily::describe(&simulation, None, daily::CALM));
    daily::draw(&simulation, &pictures_folder())
}

/// Measures everything at full size.
fn full() -> anyhow::Result<()> {
    let machine = Machine::here("make peers");
    let karpenter = Karpenter::find()?;
    let mut compared = Vec::new();
    for name in COMPARED {
        let one = compare::compare(name, &fixtures().join(name), &karpenter)?;
        println!("{name}: {:?} against {:?}, {:.0} times faster", one.ours.took, one.peer.took, one.ratio());
        compared.push(one);
    }
    println!("{}", price::HEADING);
    let plain = workloads::plain();
    let plain = plain.iter().map(|workload| priced(workload, &fixtures(), &karpenter)).collect::<Result<_, _>>()?;
    let constrained = constrained(&karpenter)?;
    let memory = memory::measure(Size { nodes: 5_000, pods: 100_000, owners: 500 })?;
    let curve = curve::curve(&[1_000, 3_000, 10_000, 30_000, 100_000], &[1, 10, 100, 1_000]);
    let strangers = curve::strangers(10_000);
    let (disruption, agent) = (Disruption::default(), Agent::read(&results())?);
    let growth = growth(&growth::NODES)?;
    let report =
        Report { machine, compared, priced: plain, constrained, memory, growth, curve, strangers, disruption, agent };
    let measures = report.measures();
    measures.iter().for_each(print);
    write(&results().join("planner.json"), &(serde_json::to_string_pretty(&measures)? + "\n"))?;
    let before = fs::read_to_string(page()).unwrap_or_default();
    write(&page(), &with_separate_sections(&report.page(), &before))?;
    if let Ok(day) = Live::day(&results()) {
        renew_live(&day)?;
    }
    // The simulations take longest.
    renew(&taking_away()?, &Machine::here("make peers").date)
}

/// Writes the last measurement of `make peers-live`, with its charts.
fn renew_live(day: &str) -> anyhow::Result<()> {
    let live = Live::read(&results())?;
    live.draw(&pictures_folder())?;
    renew(&live, day)
}

/// Writes sections of docs/performance.md that were measured separately.
fn renew(sections: &impl ToString, day: &str) -> anyhow::Result<()> {
    let before = fs::read_to_string(page()).with_context(|| page().display().to_string())?;
    write(&page(), &renewed(&before, &sections.to_string(), day))
}

/// Measures a small sample of everything, for tests. Writes `planner.json` and `performance.md` only into the folder.
///
/// # Errors
/// Returns an error if Karpenter's program cannot be built, if a comparison fails, or if a plan fails its validation.
pub fn quick(folder: &Path) -> anyhow::Result<Vec<Measure>> {
    let machine = Machine::here("make peers");
    let karpenter = Karpenter::find()?;
    let compared = vec![compare::compare("diverse-1000", &folder.join("diverse-1000"), &karpenter)?];
    let sample = |workloads: Vec<Workload>, name: &str| -> anyhow::Result<Vec<PricedWorkload>> {
        workloads.iter().filter(|it| it.name == name).map(|it| priced(it, folder, &karpenter)).collect()
    };
    let plain = sample(workloads::plain(), "small-and-large")?;
    let constrained = Constrained(sample(workloads::constrained(), "hosts-20")?);
    let memory = memory::measure(Size { nodes: 50, pods: 1_000, owners: 20 })?;
    let (curve, strangers) = (curve::curve(&[100, 1_000], &[1, 10, 1_000]), curve::strangers(200));
    let give_back = Some(disruption::give_back(20)?);
    let consolidation = Some(consolidation::measure(&folder.join("settled-50"), &karpenter, 3)?);
    let disruption = Disruption { consolidation, give_back, ..Disruption::default() };
    let agent = Agent::default();
    let growth = growth(&[30])?;
    let report =
        Report { machine, compared, priced: plain, constrained, memory, growth, curve, strangers, disruption, agent };
    write(&folder.join("disruption.json"), &serde_json::to_string_pretty(&report.disruption.measures())?)?;
    write(&folder.join("planner.json"), &serde_json::to_string_pretty(&report.measures())?)?;
    write(&folder.join("performance.md"), &report.page())?;
    Ok(report.measures())
}

fn print(it: &Measure) {
    let peer = it.peer.map_or_else(String::new, |peer| format!(", Karpenter {peer:.4}"));
    let ratio = it.ratio.map_or_else(String::new, |ratio| format!(", {ratio:.2} times better"));
    println!("{}: {:.4} {}{peer}{ratio}", it.measure, it.ours, it.unit);
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| path.display().to_string())
}

/// Returns the folder of fixtures and results: `target/peers` of the checkout, for any target directory of cargo.
fn results() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers")
}

fn pictures_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures")
}

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/performance.md")
}

fn fixtures() -> PathBuf {
    results().join("fixtures")
}
