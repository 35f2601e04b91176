//! Grafana boards on a real Prometheus that scrapes a live controller: after launches, an interruption, a shortage and a
//! consolidation and a drift, each panel has data.

#[path = "boards/board.rs"]
mod board;
#[path = "boards/picture.rs"]
mod picture;
#[path = "boards/prometheus.rs"]
mod prometheus;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use api::objects::Pod;
use api::status::Conditioned;
use api::{NodeClaim, NodePool, condition, label};
use cloud::fake::CapacityOutage;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::{Value, json};
use testbed::environment::{Environment, Setup};
use testbed::eventually;

use board::{Board, Panel, Target};
use picture::DrawnPanel;
use prometheus::Prometheus;

const LIMIT: Duration = Duration::from_secs(120);
/// Notice period of EC2.
const NOTICE: SignedDuration = SignedDuration::from_secs(120);

/// Panels, or lines of panels, without data here: nothing is wrong, there is no queue, the agents evict, and no pod requests memory.
/// That their metrics exist is checked in `tests/monitoring.rs`.
const QUIET: [&str; 10] = [
    "Pods per command: consolidation",
    "Memory: available, requested, used: requested",
    "Memory: available, requested, used: limits",
    "Evictions by status",
    "NodeClaims by condition",
    "Interruption queue",
    "Throttled and failed calls",
    "Failed writes",
    "Wait for rate limits",
    "Nodes by health",
];

/// Expression of a panel.
struct Line {
    name: String,
    expression: String,
}

impl Line {
    fn new(panel: &Panel, target: &Target) -> Self {
        Self { name: panel.name_of(target), expression: target.expression() }
    }

    fn is_quiet(&self) -> bool {
        QUIET.iter().any(|quiet| self.name == *quiet || self.name.starts_with(&format!("{quiet}: ")))
    }
}

/// Returns the file of each board.
fn files() -> Result<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../controller/monitoring/boards");
    std::fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect()
}

/// Returns the picture of a board in the documentation.
fn picture_of(board: &Path) -> Result<PathBuf> {
    let name = board.file_stem().and_then(|stem| stem.to_str()).context("a board without a name")?;
    Ok(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../docs/pictures/{name}.svg")))
}

/// Returns a NodePool whose empty nodes are removed at once.
fn pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {
            "limits": {"cpu": "100"},
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    {"key": label::CAPACITY_TYPE, "operator": "In", "values": ["spot", "on-demand"]},
                    {"key": label::INSTANCE_CATEGORY, "operator": "In", "values": ["c", "m", "r"]},
                ],
            }},
            "disruption": {
                "consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s", "budgets": [{"nodes": "100%"}],
            },
        },
    })
}

/// Returns the only running pod of a ReplicaSet, which is not on this node.
async fn runs_elsewhere(environment: &Environment, app: &str, node: &str) -> Result<String> {
    let pods: Api<Pod> = Api::namespaced(environment.client.clone(), "default");
    eventually(&format!("pod {app} to run"), LIMIT, async || {
        let pods = pods.list(&ListParams::default().labels(&format!("app={app}"))).await?.items;
        let is_running = |pod: &&Pod| pod.is_ready() && !pod.is_terminating() && pod.spec.node_name != node;
        Ok(pods.iter().find(is_running).map(|pod| pod.spec.node_name.clone()))
    })
    .await
}

async fn claims(environment: &Environment) -> Result<Vec<NodeClaim>> {
    Ok(Api::<NodeClaim>::all(environment.client.clone()).list(&ListParams::default()).await?.items)
}

/// EC2 interrupts the instance of a node, and its pod runs on another one.
async fn interruption(environment: &Environment, app: &str) -> Result<()> {
    let node = runs_elsewhere(environment, app, "").await?;
    let claims = claims(environment).await?;
    let claim = claims.iter().find(|claim| claim.status.as_ref().is_some_and(|status| status.node_name == node));
    let id = claim.and_then(NodeClaim::provider_id).and_then(cloud::launch::claim::instance_id);
    let deadline = Timestamp::now().checked_add(NOTICE)?;
    ensure!(environment.ec2.interrupt(id.context("the node has no instance")?, deadline), "EC2 does not know {id:?}");
    runs_elsewhere(environment, app, &node).await.map(drop)
}

/// No zone has spot capacity, so a pod gets an on-demand node.
async fn shortage(environment: &Environment) -> Result<()> {
    let spot = CapacityOutage { capacity_type: Some(label::CAPACITY_SPOT.to_owned()), ..CapacityOutage::default() };
    environment.ec2.start_outage(spot);
    environment.pod("late", "6", json!({})).await?;
    runs_elsewhere(environment, "late", "").await?;
    environment.ec2.end_outages();
    Ok(())
}

/// The last pod of a node is deleted, and the node goes.
async fn consolidation(environment: &Environment) -> Result<()> {
    let before = claims(environment).await?.len();
    let sets: Api<ReplicaSet> = Api::namespaced(environment.client.clone(), "default");
    sets.delete("late", &DeleteParams::background()).await?;
    eventually("the empty node to go", LIMIT, async || Ok((claims(environment).await?.len() < before).then_some(())))
        .await
}

/// The template of the NodePool changes, and the last node is replaced.
async fn drift(environment: &Environment, version: &str) -> Result<()> {
    let node = runs_elsewhere(environment, "batch", "").await?;
    let mut changed = pool();
    changed["spec"]["template"]["metadata"] = json!({"labels": {"version": version}});
    environment.apply_value(changed).await?;
    runs_elsewhere(environment, "batch", &node).await.map(drop)
}

async fn events(environment: &mut Environment) -> Result<()> {
    for file in ["ec2nodeclass.yaml", "aws-node.yaml"] {
        environment.apply(&format!("getting-started/{file}")).await?;
    }
    environment.apply_value(pool()).await?;
    environment.set_cost_label("app");
    environment.start_controller()?;
    eventually("the NodePool to be ready", LIMIT, async || {
        let pool = Api::<NodePool>::all(environment.client.clone()).get("default").await?;
        Ok(pool.is_true(condition::READY).then_some(()))
    })
    .await?;
    environment.pod("batch", "1", json!({label::CAPACITY_TYPE: label::CAPACITY_SPOT})).await?;
    interruption(environment, "batch").await?;
    shortage(environment).await?;
    consolidation(environment).await?;
    // The first event creates a counter, so only the second one is an increase.
    drift(environment, "2").await?;
    drift(environment, "3").await?;
    environment.pod("larger-than-any-node", "500", json!({})).await
}

/// Checks that each line has data, apart from the quiet ones.
async fn have_data(prometheus: &Prometheus, boards: &[Board]) -> Result<()> {
    let lines = |panel: &'_ Panel| panel.targets.iter().map(|target| Line::new(panel, target)).collect::<Vec<_>>();
    let all: Vec<Line> = boards.iter().flat_map(Board::with_data).flat_map(lines).collect();
    let unknown = QUIET.iter().find(|quiet| !all.iter().any(|line| line.name.starts_with(**quiet)));
    ensure!(unknown.is_none() && all.len() > 40, "{unknown:?} among {} lines", all.len());
    let mut empty: Vec<Line> = all.into_iter().filter(|line| !line.is_quiet()).collect();
    eventually("data for each line", LIMIT, async || {
        let mut still = Vec::new();
        for line in std::mem::take(&mut empty) {
            if prometheus.query(&line.expression).await? == 0 {
                still.push(line);
            }
        }
        let report: Vec<String> = still.iter().map(|line| format!("{}: {}", line.name, line.expression)).collect();
        empty = still;
        ensure!(empty.is_empty(), "{} have none:\n{}", empty.len(), report.join("\n"));
        Ok(Some(()))
    })
    .await
}

/// Returns the panels of a board with what Prometheus has recorded since a time.
async fn drawn<'b>(prometheus: &Prometheus, board: &'b Board, since: Timestamp) -> Result<Vec<DrawnPanel<'b>>> {
    let mut panels = Vec::new();
    for panel in board.with_data() {
        let mut curves = Vec::new();
        for target in &panel.targets {
            curves.extend(prometheus.curves(&target.expression(), &target.legend, since).await?);
        }
        panels.push(DrawnPanel { panel, curves });
    }
    Ok(panels)
}

/// Reports whether a panel has no curve although one of its lines has data.
fn is_blank(drawn: &DrawnPanel<'_>) -> bool {
    drawn.curves.is_empty() && !drawn.panel.targets.iter().all(|target| Line::new(drawn.panel, target).is_quiet())
}

/// Draws each board. With `BLESS=1` the pictures are those of the documentation.
async fn draw(prometheus: &Prometheus, since: Timestamp) -> Result<()> {
    for file in files()? {
        let board = Board::read(&file)?;
        let panels = eventually("a curve in each panel", LIMIT, async || {
            let panels = drawn(prometheus, &board, since).await?;
            let blank = panels.iter().find(|drawn| is_blank(drawn));
            ensure!(blank.is_none(), "none in {:?}", blank.map(|drawn| &drawn.panel.title));
            Ok(Some(panels))
        })
        .await?;
        let svg = picture::svg(&board, &panels)?;
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(picture_of(&file)?, svg)?;
        }
    }
    Ok(())
}

async fn boards(environment: &mut Environment) -> Result<()> {
    let prometheus = Prometheus::start(environment.folder(), &environment.probes()).await?;
    let begin = Timestamp::now();
    events(environment).await?;
    let boards: Vec<Board> = files()?.iter().map(|file| Board::read(file)).collect::<Result<_>>()?;
    if let Err(error) = have_data(&prometheus, &boards).await {
        bail!("{error:#}\nlog of Prometheus:\n{}", prometheus.log());
    }
    draw(&prometheus, begin).await
}

#[test]
fn each_panel_has_data_on_a_real_prometheus() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let outcome = runtime.block_on(async {
        let mut environment = Environment::start_with(Setup::default()).await?;
        let outcome = boards(&mut environment).await;
        if outcome.is_err() {
            environment.keep_logs();
        }
        let outcome = outcome.with_context(|| format!("logs are in {}", environment.folder().display()));
        environment.stop().await?;
        outcome
    });
    if let Err(error) = outcome {
        panic!("{error:?}");
    }
}

/// A panel that was added since needs new pictures: run the test above with `BLESS=1`.
#[test]
fn pictures_of_the_documentation_show_each_panel() {
    for file in files().unwrap() {
        let picture = picture_of(&file).unwrap();
        let svg = std::fs::read_to_string(&picture).unwrap_or_else(|error| panic!("{}: {error}", picture.display()));
        let board = Board::read(&file).unwrap();
        let missing = board.panels.iter().find(|panel| !svg.contains(&panel.title));
        assert!(missing.is_none(), "{} lacks {:?}", picture.display(), missing.map(|panel| &panel.title));
    }
}
