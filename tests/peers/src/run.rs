//! The command line: which comparison, and what is printed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};

use crate::karpenter::Karpenter;
use crate::memory::Size;
use crate::report::{Agent, Machine, Measure, Report};
use crate::{compare, curve, memory, price, workloads};

const USAGE: &str =
    "usage: peers [--quick]          everything: writes target/peers/planner.json and docs/performance.md
       peers bound [WORKLOAD...]  cost of Kerf's plans over the lower bound, one line a workload";

/// The fixtures of Karpenter's benchmark and its like.
const COMPARED: [&str; 5] = ["diverse-20000", "preferences-4000", "existing-500", "existing-2000", "pending-33000"];

/// Runs the command line. Exit code 1 says that a comparison could not be made, or that a plan breaks its own rules.
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
        ["bound", names @ ..] => bound(names),
        _ => bail!("{USAGE}"),
    }
}

fn bound(names: &[&str]) -> anyhow::Result<()> {
    println!("{}", price::HEADING);
    for workload in workloads::all().iter().filter(|it| names.is_empty() || names.contains(&it.name)) {
        let folder = fixtures().join(workload.name);
        workload.write(&folder)?;
        println!("{}", price::judge(workload.name, workload.about, &folder, None)?);
    }
    Ok(())
}

/// Everything, at full size.
fn full() -> anyhow::Result<()> {
    let machine = Machine::here("make peers");
    let karpenter = Karpenter::find()?;
    karpenter.write_fixtures(&fixtures())?;
    let mut compared = Vec::new();
    for name in COMPARED {
        let one = compare::compare(name, &fixtures().join(name), &karpenter)?;
        println!("{name}: {:?} against {:?}, {:.0} times faster", one.ours.took, one.peer.took, one.ratio());
        compared.push(one);
    }
    let mut judged = Vec::new();
    println!("{}", price::HEADING);
    for workload in workloads::all() {
        let folder = fixtures().join(workload.name);
        workload.write(&folder)?;
        let one = price::judge(workload.name, workload.about, &folder, Some(&karpenter))?;
        println!("{one}");
        judged.push(one);
    }
    let memory = memory::measure(Size { nodes: 5_000, pods: 100_000, owners: 500 })?;
    let curve = curve::curve(&[1_000, 3_000, 10_000, 30_000, 100_000], &[1, 10, 100, 1_000]);
    let strangers = curve::strangers(10_000);
    let agent = Agent::read(&results())?;
    let report = Report { machine, compared, judged, memory, curve, strangers, agent };
    let measures = report.measures();
    measures.iter().for_each(print);
    write(&results().join("planner.json"), &(serde_json::to_string_pretty(&measures)? + "\n"))?;
    write(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/performance.md"), &report.page())
}

/// A small sample of everything, for tests: writes `planner.json` and `performance.md` into the folder only.
///
/// # Errors
/// When Karpenter's program cannot be built, when a comparison cannot be made, or when a plan breaks its own rules.
pub fn quick(folder: &Path) -> anyhow::Result<Vec<Measure>> {
    let machine = Machine::here("make peers");
    let karpenter = Karpenter::find()?;
    karpenter.write_fixtures(folder)?;
    let compared = vec![compare::compare("diverse-1000", &folder.join("diverse-1000"), &karpenter)?];
    let mut judged = Vec::new();
    for workload in workloads::all().iter().filter(|it| it.name == "small-and-large") {
        let folder = folder.join(workload.name);
        workload.write(&folder)?;
        judged.push(price::judge(workload.name, workload.about, &folder, Some(&karpenter))?);
    }
    let memory = memory::measure(Size { nodes: 50, pods: 1_000, owners: 20 })?;
    let (curve, strangers) = (curve::curve(&[100, 1_000], &[1, 10, 1_000]), curve::strangers(200));
    let agent = Agent::default();
    let report = Report { machine, compared, judged, memory, curve, strangers, agent };
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

/// Where fixtures and results lie: `target/peers` of the checkout, wherever cargo builds.
fn results() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers")
}

fn fixtures() -> PathBuf {
    results().join("fixtures")
}
