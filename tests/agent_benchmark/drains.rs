//! Drains: CPU and memory of a program while it drains a full node, and its progress until the deadline if a budget permits one
//! unavailable pod.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testbed::controlplane::{Account, ControlPlane, Options};
use testbed::eventually;
use testbed::measure::Measure;
use testbed::process::usage::{mebibytes, resident};

use crate::figures;
use crate::pod_set::{self, PodSet};
use crate::subject::{Program, Subject};

/// Number of pods that an ordinary node can have.
const FULL: usize = 110;
/// Number of pods that share a budget.
const BUDGETED: usize = 30;
/// Time between a spot notice and its deadline.
const DEADLINE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);

/// Returns the measurements of both programs.
pub async fn beside(control_plane: &Arc<ControlPlane>, ours: &Program, peer: &Program) -> Result<Vec<Measure>> {
    let full = (full_node(control_plane, ours).await?, full_node(control_plane, peer).await?);
    let held = (under_a_budget(ours).await?, under_a_budget(peer).await?);
    Ok(vec![
        Measure::alone("cpu-110-pods-percent", full.0.cpu_percent, "% of a core"),
        Measure::beside("rss-drain-mib", full.0.rss_mib, full.1.rss_mib, "MiB"),
        Measure::beside("budget-30-pods-s", held.0.seconds, held.1.seconds, "s"),
        Measure::beside("budget-30-pods-left", held.0.left as f64, held.1.left as f64, "pods"),
        Measure::beside("budget-30-pods-broken-by", held.0.broken_by as f64, held.1.broken_by as f64, "pods"),
    ])
}

struct FullNode {
    cpu_percent: f64,
    rss_mib: f64,
}

/// Measures the CPU use with 110 idle pods, then the peak memory during their drain.
async fn full_node(control_plane: &Arc<ControlPlane>, program: &Program) -> Result<FullNode> {
    println!("==> {}: a full node", program.kind.name());
    let client = control_plane.admin().await?;
    let mut subject = Subject::start(control_plane, program, FULL).await?;
    pod_set::cgroups(subject.root(), FULL)?;
    let pod_set = PodSet::bound(&client, subject.node(), FULL).await?;
    subject.begin_anew().await?;
    subject.watches().await?;
    let (_, cpu_percent) = figures::idle(std::slice::from_ref(&subject)).await?;
    subject.interrupt();
    let emptied = async {
        let empty = async || Ok((pod_set.left(subject.node()).await? == 0).then_some(()));
        eventually("the node to be empty", DEADLINE, empty).await.with_context(|| subject.exit_report())
    };
    let rss_mib = mebibytes(peak(subject.pid(), emptied).await?);
    Ok(FullNode { cpu_percent, rss_mib })
}

/// Returns the peak of resident memory until the work is done.
async fn peak(pid: u32, work: impl Future<Output = Result<()>>) -> Result<u64> {
    let mut work = std::pin::pin!(work);
    let mut most = 0;
    loop {
        most = resident(pid)?.max(most);
        tokio::select! {
            done = &mut work => return done.map(|()| most),
            () = tokio::time::sleep(POLL) => {}
        }
    }
}

struct Held {
    /// Seconds until the node was empty, or until the deadline.
    seconds: f64,
    /// Number of pods that were left at the deadline.
    left: usize,
    /// Highest number of unavailable pods above the budget.
    broken_by: usize,
}

/// Measures a drain with a budget. A control plane of its own is needed, because its disruption controller must see replacement
/// pods elsewhere.
async fn under_a_budget(program: &Program) -> Result<Held> {
    println!("==> {}: {BUDGETED} pods under a budget", program.kind.name());
    let control_plane = Arc::new(ControlPlane::start(Options::full("budget")).await?);
    control_plane.apply_crds().await?;
    control_plane.apply_rights(Account::Controller).await?;
    let client = control_plane.admin().await?;
    let subject = Subject::start(&control_plane, program, BUDGETED).await?;
    let pod_set = PodSet::budgeted(&client, subject.node(), BUDGETED).await?;
    pod_set::open(&client, "spare").await?;
    subject.watches().await?;
    subject.interrupt();
    let (begin, mut least, mut left) = (Instant::now(), BUDGETED, BUDGETED);
    while left > 0 && begin.elapsed() < DEADLINE {
        least = least.min(pod_set.serving().await?);
        left = pod_set.left(subject.node()).await?;
        tokio::time::sleep(POLL).await;
    }
    ensure!(subject.pid() != 0, "{}", subject.exit_report());
    let away = BUDGETED - least;
    Ok(Held { seconds: begin.elapsed().as_secs_f64(), left, broken_by: away.saturating_sub(1) })
}
