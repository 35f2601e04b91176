//! Comparison of the agent and AWS's Node Termination Handler, in one run against the same API server and the same metadata.
//! `make peers` starts the program and writes its results into docs/performance.md.

mod drains;
mod figures;
mod pod_set;
mod rounds;
mod subject;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use go_programs::go_program;
use testbed::controlplane::{Account, ControlPlane, Options};
use testbed::machines::find_program;
use testbed::measure::{self, Measure};

use figures::Figures;
use subject::{Kind, Program};

/// Number of notices for each program.
const NOTICES: usize = 100;
/// Number of machines that run side by side; each receives its share of the notices.
const MACHINES: usize = 10;

#[tokio::main]
async fn main() -> Result<()> {
    let control_plane = Arc::new(ControlPlane::start(Options::api_server("numbers")).await?);
    control_plane.apply_crds().await?;
    control_plane.apply_rights(Account::Controller).await?;
    let agent = Program { kind: Kind::Agent, path: find_program("kerf-agent", "KERF_AGENT", "make agent")? };
    let peer = tokio::task::spawn_blocking(|| go_program("peers/nth")).await??.join("cmd");
    let peer = Program { kind: Kind::TerminationHandler, path: peer };
    let mut measures =
        figures::beside(&figures_of(&control_plane, &agent).await?, &figures_of(&control_plane, &peer).await?);
    measures.extend(drains::beside(&control_plane, &agent, &peer).await?);
    measures.push(bootstrap(&control_plane, &agent.path).await?);
    measure::write("agent", &measures)
}

async fn figures_of(control_plane: &Arc<ControlPlane>, program: &Program) -> Result<Figures> {
    println!("==> {}", program.kind.name());
    let figures = Figures::of(control_plane, program, MACHINES, NOTICES).await;
    figures.with_context(|| format!("{} cannot be measured", program.kind.name()))
}

async fn bootstrap(control_plane: &Arc<ControlPlane>, path: &Path) -> Result<Measure> {
    let took = subject::bootstrap(control_plane, path).await.context("bootstrap cannot be measured")?;
    Ok(Measure::alone("bootstrap-ms", took.as_secs_f64() * 1000.0, "ms"))
}
