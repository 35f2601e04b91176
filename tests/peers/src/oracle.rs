//! Oracle for placements: the real kube-scheduler.
//!
//! `tests/peers/scheduler` is a Go program with kube-scheduler's own plugins. A [`Case`] is a cluster with a plan for it, in
//! the program's format. A [`CaseResult`] lists the placements that kube-scheduler rejects, and the pods that kube-scheduler would
//! place although the plan reports them as unschedulable.

mod case;
mod tally;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::mem::take;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use go_programs::go_program;
use serde::{Deserialize, Serialize};

pub use case::{Case, Variant};
pub use tally::Tally;

/// Program that contains kube-scheduler.
#[derive(Clone, Debug)]
pub struct SchedulerOracle {
    program: PathBuf,
}

/// Result of kube-scheduler for one case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseResult {
    /// Seed of the cluster.
    pub seed: u64,
    /// Variant of the plan's open choices.
    pub variant: String,
    /// Placements that kube-scheduler rejects, and DaemonSet pods that do not fit on planned nodes.
    pub disagreements: Vec<Disagreement>,
    /// Unschedulable pods that kube-scheduler would place on a ready node; after [`CaseResult::reconcile`], for every choice of
    /// EC2.
    pub missed: Vec<Place>,
    /// Unschedulable pods that kube-scheduler would place on a planned or starting node. Such a pod is no bug by itself: the
    /// node that EC2 chose for this case may be larger than the plan can assume.
    pub roomy: Vec<Place>,
}

/// Placement that kube-scheduler rejects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disagreement {
    /// `namespace/name`.
    pub pod: String,
    /// Name of the node.
    pub node: String,
    /// Name of the plugin that rejected the placement.
    pub plugin: String,
    /// Messages of the plugin.
    pub reasons: Vec<String>,
}

/// Pod and node of a placement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// `namespace/name`.
    pub pod: String,
    /// Name of the node.
    pub node: String,
}

impl CaseResult {
    /// Reconciles the results of all choices of one plan: a missed pod remains missed only if it is missed in every choice.
    /// Where EC2's choice decides, the plan cannot promise a placement, so the other pods become roomy.
    pub fn reconcile(mut choices: Vec<&mut Self>) {
        let missed = |it: &&mut Self| it.missed.iter().map(|place| place.pod.clone()).collect::<BTreeSet<String>>();
        let each: Vec<BTreeSet<String>> = choices.iter().map(missed).collect();
        for choice in &mut choices {
            let (always, sometimes) =
                take(&mut choice.missed).into_iter().partition(|place| each.iter().all(|it| it.contains(&place.pod)));
            choice.missed = always;
            choice.roomy.extend::<Vec<Place>>(sometimes);
        }
    }
}

impl SchedulerOracle {
    /// Finds the program in the cache folder, or builds it there, which takes minutes with an empty Go cache.
    ///
    /// # Errors
    /// Returns an error if the program is missing and cannot be built, for example without Go.
    pub fn find() -> Result<Self> {
        Ok(Self { program: go_program("peers/scheduler")? })
    }

    /// Checks the cases, in their order.
    ///
    /// # Errors
    /// Returns an error if the program fails because Kubernetes rejected a case. The program prints the seed of that case.
    pub fn check(&self, cases: &[Case]) -> Result<Vec<CaseResult>> {
        let mut child = Command::new(&self.program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        let results = exchange(&mut child, cases);
        let status = child.wait()?;
        let results = results?;
        ensure!(status.success() && results.len() == cases.len(), "the oracle failed ({status}); see above");
        Ok(results)
    }
}

/// Writes and reads at the same time, because the program responds to each line before it reads the next one.
fn exchange(child: &mut Child, cases: &[Case]) -> Result<Vec<CaseResult>> {
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        bail!("the oracle has no standard input or output")
    };
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            let mut input = BufWriter::new(input);
            for case in cases {
                // After a failure, the program's own message has the reason.
                if writeln!(input, "{}", case.line()).is_err() {
                    break;
                }
            }
        });
        let read = |line: std::io::Result<String>| Ok(serde_json::from_str(&line?)?);
        let results = BufReader::new(output).lines().map(read).collect();
        drop(writer.join());
        results
    })
}
