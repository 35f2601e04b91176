//! Runs Karpenter's own end-to-end suites with Kerf's controller and writes docs/conformance.md. `make conformance` starts it.
//!
//! Each file of a suite runs in a cluster of its own: a real control plane, the fake EC2, machines with real agents (those of
//! performance and scale without, because a machine of two cores does not run the agents of hundreds of nodes). A run of all
//! files of a suite, or of cases that match `--cases`, replaces these cases' results in `tests/conformance/results`. With
//! `--kubeconfig` the suites run in that cluster, in which Kerf is installed, and no file of the checkout changes.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Parser;
use testbed::conformance::page;
use testbed::conformance::results::{self, Case, Results};
use testbed::conformance::run::{self, Given, Plan};
use testbed::conformance::suites::{self, Suite};

/// Runs Karpenter's own end-to-end suites with Kerf.
#[derive(Parser)]
struct Arguments {
    /// Suites such as `core/regression`; all without any.
    suites: Vec<String>,
    /// Runs the cases whose full names match this regular expression.
    #[arg(long, default_value = "")]
    cases: String,
    /// Clusters at the same time; each takes 1.2 GB of memory.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..))]
    clusters: u8,
    /// Runs in the cluster of this kubeconfig, in which Kerf is installed.
    #[arg(long, requires = "node_class")]
    kubeconfig: Option<PathBuf>,
    /// EC2NodeClass for the cases, with `--kubeconfig`.
    #[arg(long, requires = "kubeconfig")]
    node_class: Option<PathBuf>,
    /// NodePool for the cases, with `--kubeconfig`; without it, the suite's own.
    #[arg(long, requires = "kubeconfig")]
    node_pool: Option<PathBuf>,
    /// Runs the real Karpenter in place of Kerf, as the judge of the emulation; no file of the checkout changes.
    #[arg(long, conflicts_with = "kubeconfig")]
    karpenter: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let suites = suites::named(&arguments.suites)?;
    let given = arguments.kubeconfig.zip(arguments.node_class);
    let given = given.map(|(kubeconfig, class)| Given { kubeconfig, class, pool: arguments.node_pool });
    let karpenter = if arguments.karpenter { Some(testbed::karpenter::program().await?) } else { None };
    let plan = Plan { cases: arguments.cases, clusters: arguments.clusters.into(), given, karpenter };
    let mut failed = 0;
    for suite in suites {
        failed += run_suite(&suite, &plan).await?;
    }
    if plan.is_recorded() {
        page::write()?;
    }
    ensure!(failed == 0, "{failed} cases failed");
    Ok(())
}

/// Runs one suite, stores its results, and returns the number of failed cases.
async fn run_suite(suite: &Suite, plan: &Plan) -> Result<usize> {
    let record = |ran: &[Case]| if plan.is_recorded() { store(suite, ran) } else { Ok(()) };
    let ran = run::run(suite, plan, record).await?;
    let failed = ran.iter().filter(|case| case.outcome == results::Outcome::Failed).count();
    println!("==> {}: {} cases ran, {failed} failed", suite.name(), ran.len());
    Ok(failed)
}

/// Replaces the stored results of these cases. A run that ends early keeps what it has measured.
fn store(suite: &Suite, ran: &[Case]) -> Result<()> {
    let mut results = Results::read(suite)?;
    results.replace(ran.to_vec());
    results.write(suite)
}
