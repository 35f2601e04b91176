//! Measurements of a program that handles notices of a node, and the comparison of two such programs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use testbed::controlplane::ControlPlane;
use testbed::measure::Measure;
use testbed::process::usage::{mebibytes, processor_time, resident};

use crate::rounds;
use crate::subject::{Program, Subject};

/// Duration of the measurement without events.
const IDLE: Duration = Duration::from_secs(30);

/// Measurements of one program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    binary_mib: f64,
    rss_idle_mib: f64,
    cpu_idle_percent: f64,
    cordon_median_s: f64,
    cordon_p99_s: f64,
}

impl Figures {
    /// Runs the program on `machines` machines until they have received `notices` notices in total.
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

/// Returns the lines of `agent.json` that both programs have.
pub fn beside(ours: &Figures, peer: &Figures) -> Vec<Measure> {
    vec![
        Measure::beside("binary-mib", ours.binary_mib, peer.binary_mib, "MiB"),
        Measure::beside("rss-idle-mib", ours.rss_idle_mib, peer.rss_idle_mib, "MiB"),
        Measure::beside("cpu-idle-percent", ours.cpu_idle_percent, peer.cpu_idle_percent, "% of a core"),
        Measure::beside("notice-to-cordon-median-s", ours.cordon_median_s, peer.cordon_median_s, "s"),
        Measure::beside("notice-to-cordon-p99-s", ours.cordon_p99_s, peer.cordon_p99_s, "s"),
    ]
}

/// Returns the mean resident memory in MiB and the mean share of a core in percent, without events.
pub async fn idle(subjects: &[Subject]) -> Result<(f64, f64)> {
    let (before, start) = (spent(subjects)?, Instant::now());
    tokio::time::sleep(IDLE).await;
    let share = (spent(subjects)? - before).as_secs_f64() / start.elapsed().as_secs_f64();
    let resident: Result<Vec<u64>> = subjects.iter().map(|subject| resident(subject.pid())).collect();
    let count = subjects.len() as f64;
    Ok((mebibytes(resident?.iter().sum()) / count, share * 100.0 / count))
}

fn spent(subjects: &[Subject]) -> Result<Duration> {
    subjects.iter().map(|subject| processor_time(subject.pid())).sum()
}
