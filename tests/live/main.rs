//! Comparison of Kerf's controller and the real Karpenter, with its kwok provider and with its AWS provider. They run one after
//! the other on equal control planes. Pods, instance types, prices and simulated kubelets are the same. `make peers-live` starts
//! the program, docs/performance.md shows its results.
//!
//! `live-benchmark [SCENARIO...]` runs some of the scenarios; `KERF_LIVE_PERCENT=2` runs them with 2 % of their pods. Results
//! with all pods go to `target/peers/live.json` and `live-ec2.json`, scenario by scenario, other results to `live-sample.json` and
//! `live-ec2-sample.json`. The course of a run is in `live-SCENARIO-SIDE.csv`, the moment of each stage of each object in
//! `live-SCENARIO-SIDE-stages.csv`. `KERF_LIVE_ALONE=1` runs only Kerf's side, for work on the controller, and keeps the logs.
//! `KERF_LIVE_RECORD=FOLDER` records Kerf's side with `kerf record`, to measure the error of a replay.

mod benchmark;
mod catalogue;
mod ec2;
mod figures;
mod karpenter;
mod kubelets;
mod machines;
mod observation;
mod pool;
mod recording;
mod scenarios;
mod stages;
mod subject;
#[cfg(test)]
mod tests;
mod timeline;
mod workload;

use anyhow::{Context, Result, ensure};
use testbed::measure;

use figures::Figures;
use scenarios::Scenario;
use subject::{Fixtures, Side};

/// Percentage for all pods of a scenario.
const WHOLE: usize = 100;

/// Peers, with the files of their results.
const PEERS: [(Side, &str); 2] = [(Side::Karpenter, "live"), (Side::KarpenterOnEc2, "live-ec2")];

#[tokio::main]
async fn main() -> Result<()> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let percent = percent()?;
    let alone = std::env::var_os("KERF_LIVE_ALONE").is_some();
    let fixtures = Fixtures::make().await?;
    for scenario in chosen(&names, scenarios::all(&fixtures, percent)?)? {
        let ours = run(&scenario, Side::Kerf, &fixtures, alone).await?;
        if alone {
            continue;
        }
        for (side, file) in PEERS {
            let peer = run(&scenario, side, &fixtures, false).await?;
            let file = if percent == WHOLE { file.to_owned() } else { format!("{file}-sample") };
            measure::write_group(&file, scenario.name, &figures::beside(scenario.name, &ours, &peer))?;
        }
    }
    Ok(())
}

async fn run(scenario: &Scenario, side: Side, fixtures: &Fixtures, keep_logs: bool) -> Result<Figures> {
    println!("==> {}: {}", scenario.name, side.name());
    let figures = benchmark::run(scenario, side, fixtures, keep_logs).await;
    let figures = figures.with_context(|| format!("{} cannot be played with {}", scenario.name, side.name()))?;
    println!("    {figures:?}");
    Ok(figures)
}

fn percent() -> Result<usize> {
    let Ok(text) = std::env::var("KERF_LIVE_PERCENT") else { return Ok(WHOLE) };
    let percent = text.parse().ok().filter(|percent| (1..=WHOLE).contains(percent));
    percent.with_context(|| format!("KERF_LIVE_PERCENT is {text:?}: write a whole number from 1 to {WHOLE}"))
}

fn chosen(names: &[String], all: Vec<Scenario>) -> Result<Vec<Scenario>> {
    for name in names {
        let known: Vec<&str> = all.iter().map(|scenario| scenario.name).collect();
        ensure!(known.contains(&name.as_str()), "there is no scenario {name}: choose among {}", known.join(", "));
    }
    let wanted = |scenario: &Scenario| names.is_empty() || names.iter().any(|name| name == scenario.name);
    Ok(all.into_iter().filter(wanted).collect())
}
