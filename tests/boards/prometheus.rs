//! Prometheus, which scrapes one address every second.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testbed::controlplane::ports;
use testbed::process::Process;
use testbed::{controller, eventually, linters};

/// Time limit of the start.
const LIMIT: Duration = Duration::from_secs(60);
/// Lines of its log in an error.
const LINES: usize = 20;

/// Running Prometheus, which ends with this value.
pub struct Prometheus {
    process: Process,
    promtool: PathBuf,
    address: String,
}

impl Prometheus {
    /// Starts Prometheus with its files in this folder; it scrapes `target`.
    pub async fn start(folder: &Path, target: &str) -> Result<Self> {
        let scrape = json!({"job_name": "kerf", "static_configs": [{"targets": [target]}]});
        let settings = json!({"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": [scrape]});
        let file = folder.join("prometheus.yaml");
        fs::write(&file, settings.to_string())?;
        let port = ports::bind()?.0;
        let address = format!("{}:{port}", Ipv4Addr::LOCALHOST);
        let mut command = Command::new(linters::prometheus("prometheus")?);
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.tsdb.path={}", folder.join("prometheus").display()));
        command.arg(format!("--web.listen-address={address}"));
        let process = Process::spawn("prometheus", command, &folder.join("prometheus.log"))?;
        let prometheus = Self { process, promtool: linters::prometheus("promtool")?, address };
        eventually("Prometheus to be ready", LIMIT, async || {
            controller::get(&prometheus.address, "/-/ready").await.map(|_| Some(()))
        })
        .await?;
        Ok(prometheus)
    }

    /// Returns the number of samples that an expression has now.
    pub async fn query(&self, expression: &str) -> Result<usize> {
        let mut command = Command::new(&self.promtool);
        command.args(["query", "instant", "--format=json", &format!("http://{}", self.address), expression]);
        let run = move || command.stdin(Stdio::null()).output();
        let output = tokio::task::spawn_blocking(run).await?.context("cannot run promtool")?;
        ensure!(output.status.success(), "{expression}: {}", String::from_utf8_lossy(&output.stderr));
        let samples: Value = serde_json::from_slice(&output.stdout)?;
        Ok(samples.as_array().map_or(0, Vec::len))
    }

    /// Returns the end of its log.
    pub fn log(&self) -> String {
        self.process.log_tail(LINES)
    }
}
