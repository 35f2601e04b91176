//! The real kube-scheduler judges our placements.
//!
//! `tests/peers/scheduler` is a Go program around kube-scheduler's own plugins. A [`Case`] is a cluster with a plan for it,
//! in the program's words; a [`Verdict`] says which placements kube-scheduler would not make, and which pods it would
//! place although the plan says that they have no place.

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

/// The program that holds kube-scheduler.
#[derive(Clone, Debug)]
pub struct Referee {
    program: PathBuf,
}

/// What kube-scheduler says of one case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The cluster's seed.
    pub seed: u64,
    /// Which of the plan's open choices was taken.
    pub variant: String,
    /// Placements that it would not make, and DaemonSet pods that planned nodes have no room for.
    pub disagreements: Vec<Disagreement>,
    /// Pods without a place that it would put on a node that is ready; after [`Verdict::reconcile`], whatever EC2 chooses.
    pub missed: Vec<Place>,
    /// Pods without a place that it would put on a node that is planned or on its way. Not a fault in itself: what EC2
    /// chose for this case may be larger than what the plan can count on.
    pub roomy: Vec<Place>,
}

/// A placement that kube-scheduler would not make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disagreement {
    /// `namespace/name`.
    pub pod: String,
    /// The node.
    pub node: String,
    /// The plugin that refused.
    pub plugin: String,
    /// Its words.
    pub reasons: Vec<String>,
}

/// A pod and a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// `namespace/name`.
    pub pod: String,
    /// The node.
    pub node: String,
}

impl Verdict {
    /// Leaves, of the verdicts on all choices of one plan, those missed pods that none of the choices keeps away: where EC2
    /// decides whether there is a place, the plan cannot promise it. The others become roomy.
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

impl Referee {
    /// Finds the program in the cache folder, or builds it there: minutes when Go's own cache is cold.
    ///
    /// # Errors
    /// When it is not there and cannot be built, because Go is missing for example.
    pub fn find() -> Result<Self> {
        Ok(Self { program: go_program("peers/scheduler")? })
    }

    /// Judges the cases, in their order.
    ///
    /// # Errors
    /// When the program does not run to its end: a case made no sense to Kubernetes. The program names its seed.
    pub fn judge(&self, cases: &[Case]) -> Result<Vec<Verdict>> {
        let mut child = Command::new(&self.program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        let verdicts = talk(&mut child, cases);
        let status = child.wait()?;
        let verdicts = verdicts?;
        ensure!(status.success() && verdicts.len() == cases.len(), "the referee gave up ({status}); see above");
        Ok(verdicts)
    }
}

/// Writes and reads at once, for the program answers each line before it takes the next.
fn talk(child: &mut Child, cases: &[Case]) -> Result<Vec<Verdict>> {
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        bail!("the referee has no standard input or output")
    };
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            let mut input = BufWriter::new(input);
            for case in cases {
                // When the program has given up, its own message says why.
                if writeln!(input, "{}", case.line()).is_err() {
                    break;
                }
            }
        });
        let read = |line: std::io::Result<String>| Ok(serde_json::from_str(&line?)?);
        let verdicts = BufReader::new(output).lines().map(read).collect();
        drop(writer.join());
        verdicts
    })
}
