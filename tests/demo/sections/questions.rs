//! Commands of the page `getting-started` that ask a live cluster, run as the page writes them.

use std::path::Path;
use std::process::{ExitStatus, Stdio};

use anyhow::{Context, Result, bail, ensure};
use kube::ResourceExt;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testbed::machines::find_program;
use testbed::{controller, eventually};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::{Demo, PATIENCE};

/// Page, and the heading of its commands.
const PAGE: &str = include_str!("../../../docs/getting-started.md");
const HEADING: &str = "## On a laptop: questions to the demo";
/// Command that runs until Ctrl-C.
const SERVER: &str = "kerf ui";
/// Words in the output of each command. `POD` and `NODE` stand for names, as on the page.
const EXPECTED: [(&str, &[&str]); 11] = [
    ("kerf top --live", &["NODE", "default"]),
    ("kerf plan --live --set", &["spec.limits.cpu", "NodePool default"]),
    ("kerf plan --live", &["new nodes"]),
    ("kerf why pod", &["Pod default/POD", "NODE"]),
    ("kerf why node", &["Node NODE", "inflate"]),
    ("kerf why cost", &["WORKLOADS", "Deployment default/inflate"]),
    ("kerf log -n kerf-observer", &["kept"]),
    ("kerf log", &["created", "default"]),
    ("kerf report", &["default"]),
    ("kerf compare -n kerf-observer", &["NEW FLEET"]),
    ("kerf replay", &["REPLAYED", "KARPENTER"]),
];
/// Command that writes a folder and has no output to check.
const RECORD: &str = "kerf record";

/// Runs the commands of the page.
pub async fn run(demo: &mut Demo) -> Result<()> {
    demo.reporter.section("Questions to the cluster: the commands of docs/getting-started.md");
    let reader = Reader::new(demo).await?;
    for line in commands()? {
        let followed = async {
            if line.starts_with(SERVER) {
                return reader.visit(line).await;
            }
            // The first summary of the decision log is there after a minute.
            eventually(line, PATIENCE, async || reader.follow(line).await.map(Some)).await
        };
        demo.reporter.line(line, followed).await?;
    }
    let written = async {
        let chart = std::fs::read_to_string(reader.folder.path().join("cost.svg"))?;
        ensure!(chart.starts_with("<svg"), "cost.svg begins with {:.40}", chart);
        Ok(())
    };
    demo.reporter.line("the chart of the replay is an SVG", written).await
}

/// Returns the commands below the heading.
fn commands() -> Result<Vec<&'static str>> {
    let (_, section) = PAGE.split_once(HEADING).context("docs/getting-started.md has lost its heading")?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let blocks = section.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines: Vec<&str> = blocks.flat_map(str::lines).filter(|line| line.starts_with("kerf ")).collect();
    for (command, _) in EXPECTED {
        ensure!(lines.iter().any(|line| line.starts_with(command)), "the page has no command {command}");
    }
    Ok(lines)
}

/// A user who follows the page in a folder of their own.
struct Reader {
    folder: tempfile::TempDir,
    path: String,
    kubeconfig: std::path::PathBuf,
    names: [(&'static str, String); 2],
}

impl Reader {
    async fn new(demo: &Demo) -> Result<Self> {
        let program = find_program("kerf", "KERF_CLI", "cargo build --workspace")?;
        let programs = program.parent().unwrap_or(Path::new("/")).display().to_string();
        let running = demo.cluster.running().await?;
        let pod = running.first().context("no pod runs")?;
        Ok(Self {
            folder: tempfile::tempdir()?,
            path: format!("{programs}:{}", std::env::var("PATH").unwrap_or_default()),
            kubeconfig: demo.environment.control_plane.admin_kubeconfig(),
            names: [("POD", pod.name_any()), ("NODE", pod.spec.node_name.clone())],
        })
    }

    fn named(&self, text: &str) -> String {
        self.names.iter().fold(text.to_owned(), |text, (word, name)| text.replace(word, name))
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("exec {}", self.named(line))])
            .current_dir(self.folder.path())
            .env("PATH", &self.path)
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Runs a command and checks its output.
    async fn follow(&self, line: &str) -> Result<()> {
        let output = self.command(line).output().await?;
        let (out, error) = (String::from_utf8(output.stdout)?, String::from_utf8_lossy(&output.stderr).into_owned());
        ensure!(output.status.success(), "{}: {out}{error}", output.status);
        if line.starts_with(RECORD) {
            return Ok(());
        }
        let (_, words) = EXPECTED.iter().find(|(command, _)| line.starts_with(command)).context("no check for it")?;
        for word in *words {
            ensure!(out.contains(&self.named(word)), "no {} in {out}{error}", self.named(word));
        }
        Ok(())
    }

    /// Starts the page, reads it, and ends it with Ctrl-C.
    async fn visit(&self, line: &str) -> Result<()> {
        let mut child = self.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("no standard output")?).lines();
        let first = tokio::time::timeout(PATIENCE, lines.next_line()).await.context("no address in time")??;
        let first = first.context("the command ended without an address")?;
        let (address, path) = first.strip_prefix("http://").and_then(|rest| rest.split_once('/')).context("no URL")?;
        let page = controller::get(address, &format!("/{path}")).await?;
        ensure!(page.contains("<html"), "{page:.200}");
        let status = interrupt(&mut child).await?;
        if !status.success() {
            bail!("{status} after Ctrl-C");
        }
        Ok(())
    }
}

async fn interrupt(child: &mut Child) -> Result<ExitStatus> {
    let pid = i32::try_from(child.id().context("the command has ended")?)?;
    kill(Pid::from_raw(pid), Signal::SIGINT)?;
    tokio::time::timeout(PATIENCE, child.wait()).await.context("it does not end")?.context("it cannot be waited for")
}
