//! Runs the cases of a suite: each file in a cluster of its own, or all in a given one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use api::{annotation, label};
use futures::{StreamExt, TryStreamExt, stream};
use go_programs::go_program;
use serde_json::{Value, json};

use super::account;
use super::results::{Case, Outcome, Results};
use super::suites::Suite;
use super::{folder, ginkgo};
use crate::environment::{CLUSTER, Environment, REGION, Setup, examples};
use crate::process::{Process, RunFolder};

/// Feature gates of the controller: all that a suite tests.
const GATES: &str =
    "NodeRepair=true,StaticCapacity=true,CapacityBuffer=true,NodeOverlay=true,SpotToSpotConsolidation=true";
/// Interruption queue.
const QUEUE: &str = "karpenter";
/// Lines of a log in an error.
const TAIL: usize = 30;

/// What to run, and where.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Regular expression of the cases' full names; empty for all.
    pub cases: String,
    /// Clusters at the same time.
    pub clusters: usize,
    /// Cluster of the user; without it, clusters of our own.
    pub given: Option<Given>,
    /// Program of the real Karpenter, which runs in place of Kerf to judge the emulation.
    pub karpenter: Option<PathBuf>,
}

impl Plan {
    /// Reports whether the results are those of the checkout: of Kerf in clusters of our own.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.given.is_none() && self.karpenter.is_none()
    }
}

/// Cluster in which Kerf is installed.
#[derive(Clone, Debug)]
pub struct Given {
    /// Access to the cluster.
    pub kubeconfig: PathBuf,
    /// EC2NodeClass of the cases.
    pub class: PathBuf,
    /// NodePool of the cases; without it, the suite's own.
    pub pool: Option<PathBuf>,
}

/// Runs the suite and returns a result for each chosen case. `record` receives the cases of each file once it has run.
///
/// # Errors
/// Returns an error if the suite cannot be built, if one of its programs ends without a report, or if `record` fails.
pub async fn run(suite: &Suite, plan: &Plan, record: impl Fn(&[Case]) -> Result<()>) -> Result<Vec<Case>> {
    let program = build(suite.clone()).await?;
    let chosen = list(&program, plan).await?;
    let files = by_file(chosen, &Results::read(suite)?);
    let cases: usize = files.iter().map(|(_, names)| names.len()).sum();
    println!("==> {}: {cases} cases in {} files", suite.name(), files.len());
    let clusters = if plan.given.is_some() { 1 } else { plan.clusters };
    let run = |(file, names): (String, BTreeSet<String>)| {
        let (program, record) = (&program, &record);
        async move {
            let ran =
                run_file(suite, program, plan, &file).await.with_context(|| format!("{}: {file}", suite.name()))?;
            let ran = complete(&file, names, ran);
            ran.iter().for_each(print);
            record(&ran)?;
            Ok::<_, anyhow::Error>(ran)
        }
    };
    stream::iter(files).map(run).buffer_unordered(clusters).try_concat().await
}

/// Program of a suite, and the folder in which it runs.
struct Program {
    file: PathBuf,
    sources: PathBuf,
}

/// Builds the suite's program.
async fn build(suite: Suite) -> Result<Program> {
    let built = tokio::task::spawn_blocking(move || {
        let folder = go_program(&format!("conformance/{}", suite.module))?;
        let file = folder.join(format!("{}.test", suite.package));
        Ok::<_, anyhow::Error>(Program { file, sources: suite.sources()? })
    });
    built.await.context("the build was interrupted")?
}

/// Returns the chosen cases without running them.
async fn list(program: &Program, plan: &Plan) -> Result<Vec<Case>> {
    let folder = RunFolder::create("conformance")?;
    let mut command = suite_command(program, plan, &folder.path().join("report.json"));
    command.arg("-ginkgo.dry-run");
    report("list", command, folder.path()).await
}

/// Groups the cases by file; the files that took longest the last time come first.
fn by_file(chosen: Vec<Case>, last: &Results) -> Vec<(String, BTreeSet<String>)> {
    let mut files: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for case in chosen {
        files.entry(case.file).or_default().insert(case.name);
    }
    let took = |file: &str| -> f64 { last.cases().filter(|case| case.file == file).map(|case| case.seconds).sum() };
    let mut files: Vec<_> = files.into_iter().collect();
    files.sort_by(|(one, _), (other, _)| took(other).total_cmp(&took(one)));
    files
}

/// Runs the cases of a file. Cases that did not run because another one of their container failed get a run of their own.
async fn run_file(suite: &Suite, program: &Program, plan: &Plan, file: &str) -> Result<Vec<Case>> {
    let mut ran = run_once(suite, program, plan, file).await?;
    loop {
        let left: BTreeSet<String> =
            ran.iter().filter(|case| ginkgo::was_not_reached(case)).map(|case| case.name.clone()).collect();
        if left.is_empty() {
            return Ok(ran);
        }
        println!("    {} cases of {} {file} run again behind a failed one", left.len(), suite.name());
        let again = run_once(suite, program, &Plan { cases: any_of(&left), ..plan.clone() }, file).await?;
        let has_progress = again.iter().any(|case| !ginkgo::was_not_reached(case));
        ran.retain(|case| !again.iter().any(|new| new.name == case.name));
        ran.extend(again);
        if !has_progress {
            return Ok(ran);
        }
    }
}

/// Returns a regular expression for exactly these names, in Go's syntax.
fn any_of(names: &BTreeSet<String>) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!(r"\Q{name}\E")).collect();
    format!("(?:{})$", quoted.join("|"))
}

async fn run_once(suite: &Suite, program: &Program, plan: &Plan, file: &str) -> Result<Vec<Case>> {
    match &plan.given {
        Some(given) => run_in_given_cluster(suite, program, plan, given, file).await,
        None => run_in_own_cluster(suite, program, plan, file).await,
    }
}

async fn run_in_given_cluster(
    suite: &Suite,
    program: &Program,
    plan: &Plan,
    given: &Given,
    file: &str,
) -> Result<Vec<Case>> {
    let folder = RunFolder::create("conformance")?;
    let mut command = suite_command(program, plan, &folder.path().join("report.json"));
    command.arg(focus(file)).env("KUBECONFIG", &given.kubeconfig);
    add_objects(&mut command, suite, &given.class, given.pool.as_deref());
    report("suite", command, folder.path()).await
}

async fn run_in_own_cluster(suite: &Suite, program: &Program, plan: &Plan, file: &str) -> Result<Vec<Case>> {
    let environment = start(suite, plan.karpenter.clone()).await?;
    let mut command = suite_command(program, plan, &environment.folder().join("report.json"));
    command
        .arg(focus(file))
        .env("KUBECONFIG", environment.control_plane.admin_kubeconfig())
        .env("CLUSTER_NAME", CLUSTER)
        .env("CLUSTER_ENDPOINT", environment.control_plane.url())
        .env("AWS_REGION", REGION)
        .env("INTERRUPTION_QUEUE", QUEUE)
        .env("AWS_ENDPOINT_URL", environment.wire.url())
        .env("AWS_ACCESS_KEY_ID", "suite")
        .env("AWS_SECRET_ACCESS_KEY", "suite");
    let pool = write_pool(file, environment.folder())?;
    let class = write_class(suite, environment.folder())?;
    add_objects(&mut command, suite, &class, Some(&pool));
    let ran = report("suite", command, environment.folder()).await;
    let is_clean = ran.as_ref().is_ok_and(|ran| ran.iter().all(|case| case.outcome != Outcome::Failed));
    if !is_clean {
        environment.keep_logs();
        println!("    logs of {} {file} are in {}", suite.name(), environment.folder().display());
    }
    environment.stop().await?;
    ran
}

/// Starts a cluster with a controller and the CNI's DaemonSet and settings.
async fn start(suite: &Suite, karpenter: Option<PathBuf>) -> Result<Environment> {
    let (describe, ipv6) = (Some(account::description(suite)), suite.package == "ipv6");
    let setup = Setup { describe, ipv6, pod_network: true, many_nodes: suite.has_many_nodes(), ..Setup::default() };
    let mut environment = Environment::start_with(setup).await?;
    if ipv6 {
        environment.apply_value(ipv6_cluster_dns()).await?;
    }
    environment.set_karpenter(karpenter);
    let settings = json!({"name": "amazon-vpc-cni", "namespace": "kube-system"});
    environment.apply_value(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": settings})).await?;
    environment.apply("getting-started/aws-node.yaml").await?;
    environment.apply_value(read_yaml(&folder().join("securitygrouppolicies.yaml"))?).await?;
    environment.ec2.create_queue(QUEUE);
    environment.ec2.events_to(Some(QUEUE));
    environment.set_queue(QUEUE);
    environment.set_gates(GATES);
    environment.start_controller_pods().await?;
    Ok(environment)
}

/// Returns the Service of cluster DNS in an IPv6 cluster.
fn ipv6_cluster_dns() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {
            "ipFamilies": ["IPv6"], "clusterIP": "fd00:10:96::a",
            "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}],
        },
    })
}

/// Writes the NodePool for the cases of a file. Those of capacity buffers need machines of 2 vCPUs, which their suite chooses itself
/// only with its own provider.
fn write_pool(file: &str, to: &Path) -> Result<PathBuf> {
    let mut pool = read_yaml(&folder().join("nodepool.yaml"))?;
    if file == "capacitybuffer_test.go" {
        let requirements = pool["spec"]["template"]["spec"]["requirements"].as_array_mut();
        let small = json!({"key": label::INSTANCE_CPU, "operator": "In", "values": ["2"]});
        requirements.context("the NodePool has no requirements")?.push(small);
    }
    write_json(&to.join("nodepool.json"), &pool)
}

/// Writes the EC2NodeClass for the cases of a suite: that of the examples, without the agent where no machine has one.
fn write_class(suite: &Suite, to: &Path) -> Result<PathBuf> {
    let mut class = read_yaml(&examples().join("getting-started/ec2nodeclass.yaml"))?;
    if suite.has_many_nodes() {
        let annotations = class["metadata"]["annotations"].as_object_mut();
        let removed = annotations.and_then(|annotations| annotations.remove(annotation::AGENT));
        removed.context("the EC2NodeClass has no annotation for the agent")?;
    }
    write_json(&to.join("ec2nodeclass.json"), &class)
}

fn read_yaml(file: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_saphyr::from_str(&text).with_context(|| format!("{} is no YAML", file.display()))
}

fn write_json(file: &Path, value: &Value) -> Result<PathBuf> {
    std::fs::write(file, value.to_string()).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file.to_owned())
}

/// Passes the objects of the cases to a suite of core; the provider's suites have their own ones.
fn add_objects(command: &mut Command, suite: &Suite, class: &Path, pool: Option<&Path>) {
    if suite.module == "core" {
        command.arg(flag("default-nodeclass", class)).args(pool.map(|pool| flag("default-nodepool", pool)));
    }
}

fn suite_command(program: &Program, plan: &Plan, report: &Path) -> Command {
    let mut command = Command::new(&program.file);
    command.current_dir(&program.sources);
    command.args(["-test.timeout=0", "-ginkgo.timeout=4h", "-ginkgo.no-color", "-ginkgo.v"]);
    command.arg(flag("ginkgo.json-report", report));
    if !plan.cases.is_empty() {
        command.arg(format!("-ginkgo.focus={}", plan.cases));
    }
    command
}

/// Chooses the cases of one file.
fn focus(file: &str) -> String {
    format!("-ginkgo.focus-file=/{file}")
}

fn flag(name: &str, path: &Path) -> String {
    format!("-{name}={}", path.display())
}

/// Runs the program to its end and returns its report, which it also writes when cases fail.
async fn report(name: &str, command: Command, folder: &Path) -> Result<Vec<Case>> {
    let mut process = Process::spawn(name, command, &folder.join(format!("{name}.log")))?;
    process.wait().await?;
    let file = folder.join("report.json");
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("the suite ended without a report:\n{}", process.log_tail(TAIL)))?;
    std::fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
    ginkgo::cases(&text).with_context(|| format!("the end of its log:\n{}", process.log_tail(TAIL)))
}

/// Adds the chosen cases that the program did not report, as failed.
fn complete(file: &str, mut names: BTreeSet<String>, mut ran: Vec<Case>) -> Vec<Case> {
    for case in &ran {
        names.remove(&case.name);
    }
    ran.extend(names.into_iter().map(|name| Case {
        file: file.to_owned(),
        name,
        outcome: Outcome::Failed,
        seconds: 0.0,
        message: "the suite did not run it".to_owned(),
    }));
    ran
}

fn print(case: &Case) {
    let word = match case.outcome {
        Outcome::Passed => "ok  ",
        Outcome::Skipped => "skip",
        Outcome::NotRun => "none",
        Outcome::Failed => "FAIL",
    };
    println!("{:8.1} s {word} {}", case.seconds, case.name);
    if case.outcome != Outcome::Passed {
        println!("           {}", case.message.lines().next().unwrap_or_default());
    }
}

/// Asserts that every case of this run passed.
///
/// # Errors
/// Returns an error with the names and messages of the others.
pub fn ensure_passed(ran: &[Case]) -> Result<()> {
    let others: Vec<String> = ran
        .iter()
        .filter(|case| case.outcome != Outcome::Passed)
        .map(|case| format!("{}: {}", case.name, case.message))
        .collect();
    ensure!(!ran.is_empty(), "no case ran");
    ensure!(others.is_empty(), "{} of {} cases did not pass:\n{}", others.len(), ran.len(), others.join("\n"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::any_of;

    #[test]
    fn any_of_quotes_names() {
        let names = ["Drift (a|b) [x]", "c"].map(str::to_owned).into();
        assert_eq!(any_of(&names), r"(?:\QDrift (a|b) [x]\E|\Qc\E)$");
    }
}
