//! What is measured of a program that guards nodes, and how two of them compare.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;
use world::controlplane::ControlPlane;

use crate::rounds;
use crate::subject::{Program, Subject};

/// How long a program is watched while nothing happens.
const IDLE: Duration = Duration::from_secs(30);
/// The kernel's clock ticks a second, as user space sees them on every platform that Linux runs on today.
const TICKS: f64 = 100.0;

/// One line of `agent.json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measure {
    measure: &'static str,
    ours: f64,
    peer: Option<f64>,
    ratio: Option<f64>,
    unit: &'static str,
}

impl Measure {
    /// A figure that the peer has no like of.
    pub fn alone(measure: &'static str, ours: f64, unit: &'static str) -> Self {
        Self { measure, ours, peer: None, ratio: None, unit }
    }

    /// A figure beside the peer's.
    pub fn beside(measure: &'static str, ours: f64, peer: f64, unit: &'static str) -> Self {
        Self { measure, ours, peer: Some(peer), ratio: Some(peer / ours), unit }
    }
}

/// Everything that is measured of one program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    binary_mib: f64,
    rss_idle_mib: f64,
    cpu_idle_percent: f64,
    cordon_median_s: f64,
    cordon_p99_s: f64,
}

impl Figures {
    /// Runs the program on `machines` machines until they have seen `notices` notices together.
    pub async fn of(
        control_plane: &Arc<ControlPlane>,
        program: &Program,
        machines: usize,
        notices: usize,
    ) -> Result<Self> {
        let mut subjects = Vec::new();
        for number in 0..machines {
            subjects.push(Subject::start(control_plane, program, number).await?);
        }
        for subject in &subjects {
            subject.watches().await?;
        }
        let (rss_idle_mib, cpu_idle_percent) = idle(&subjects).await?;
        let mut delays = rounds::cordons(control_plane, &mut subjects, notices).await?;
        delays.sort();
        let percentile = |share: f64| delays[((delays.len() as f64 * share).ceil() as usize).max(1) - 1].as_secs_f64();
        Ok(Self {
            binary_mib: mebibytes(std::fs::metadata(&program.path)?.len()),
            rss_idle_mib,
            cpu_idle_percent,
            cordon_median_s: percentile(0.5),
            cordon_p99_s: percentile(0.99),
        })
    }
}

/// The lines of `agent.json` that both have.
pub fn beside(ours: &Figures, peer: &Figures) -> Vec<Measure> {
    vec![
        Measure::beside("binary-mib", ours.binary_mib, peer.binary_mib, "MiB"),
        Measure::beside("rss-idle-mib", ours.rss_idle_mib, peer.rss_idle_mib, "MiB"),
        Measure::beside("cpu-idle-percent", ours.cpu_idle_percent, peer.cpu_idle_percent, "% of a core"),
        Measure::beside("notice-to-cordon-median-s", ours.cordon_median_s, peer.cordon_median_s, "s"),
        Measure::beside("notice-to-cordon-p99-s", ours.cordon_p99_s, peer.cordon_p99_s, "s"),
    ]
}

/// Mean resident memory in MiB and mean share of a core in percent, while nothing happens.
pub async fn idle(subjects: &[Subject]) -> Result<(f64, f64)> {
    let (before, start) = (ticks(subjects)?, Instant::now());
    tokio::time::sleep(IDLE).await;
    let spent = (ticks(subjects)? - before) / TICKS / start.elapsed().as_secs_f64();
    let resident: Result<Vec<u64>> = subjects.iter().map(|subject| resident(subject.pid())).collect();
    let count = subjects.len() as f64;
    Ok((mebibytes(resident?.iter().sum()) / count, spent * 100.0 / count))
}

fn ticks(subjects: &[Subject]) -> Result<f64> {
    subjects.iter().map(|subject| processor_ticks(subject.pid())).sum()
}

/// User and system time so far, in clock ticks: fields 14 and 15 of `/proc/PID/stat`, counted behind the name in brackets.
fn processor_ticks(pid: u32) -> Result<f64> {
    let text = read(&format!("/proc/{pid}/stat"))?;
    let (_, fields) = text.rsplit_once(") ").context("a process without a name")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let field = |index: usize| fields.get(index).and_then(|text| text.parse::<f64>().ok()).context("no time");
    Ok(field(11)? + field(12)?)
}

/// Resident bytes.
pub fn resident(pid: u32) -> Result<u64> {
    let text = read(&format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("a process without memory")?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().context("VmRSS is no number")?;
    Ok(kibibytes * 1024)
}

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(Path::new(path)).with_context(|| format!("cannot read {path}"))
}

pub fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
