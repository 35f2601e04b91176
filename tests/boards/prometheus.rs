//! Prometheus, which scrapes one address every second.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use testbed::controlplane::ports;
use testbed::process::Process;
use testbed::{controller, eventually, linters};

/// Time limit of the start.
const LIMIT: Duration = Duration::from_secs(60);
/// Lines of its log in an error.
const LINES: usize = 20;

/// Distance of the points of a curve.
const STEP: &str = "2s";

/// Values of one series over time.
pub struct Curve {
    pub name: String,
    /// Seconds since the begin, and value.
    pub points: Vec<(f64, f64)>,
}

/// Series in Prometheus' answer, with time and value of each point.
#[derive(Deserialize)]
struct Series {
    metric: BTreeMap<String, String>,
    values: Vec<(f64, String)>,
}

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
        let samples = self.promtool(&["instant"], expression).await?;
        Ok(samples.as_array().map_or(0, Vec::len))
    }

    /// Returns the curves of an expression since a time. The name of a curve is the legend with the values of its labels.
    pub async fn curves(&self, expression: &str, legend: &str, since: Timestamp) -> Result<Vec<Curve>> {
        let now = Timestamp::now();
        let times = [format!("--start={since}"), format!("--end={now}"), format!("--step={STEP}")];
        let words = ["range", &times[0], &times[1], &times[2]];
        let found: Vec<Series> = serde_json::from_value(self.promtool(&words, expression).await?)?;
        Ok(found.into_iter().map(|series| series.curve(legend, since)).filter(|it| !it.points.is_empty()).collect())
    }

    async fn promtool(&self, query: &[&str], expression: &str) -> Result<Value> {
        let mut command = Command::new(&self.promtool);
        command.arg("query").args(query).args(["--format=json", &format!("http://{}", self.address), expression]);
        let run = move || command.stdin(Stdio::null()).output();
        let output = tokio::task::spawn_blocking(run).await?.context("cannot run promtool")?;
        ensure!(output.status.success(), "{expression}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Returns the end of its log.
    pub fn log(&self) -> String {
        self.process.log_tail(LINES)
    }
}

impl Series {
    /// Returns the finite values as a curve.
    fn curve(self, legend: &str, since: Timestamp) -> Curve {
        let begin = since.as_millisecond() as f64 / 1000.0;
        let point =
            |(at, value): (f64, String)| Some((at - begin, value.parse().ok().filter(|it: &f64| it.is_finite())?));
        Curve { name: self.name(legend), points: self.values.into_iter().filter_map(point).collect() }
    }

    fn name(&self, legend: &str) -> String {
        if legend.is_empty() {
            let values: Vec<&str> = self.metric.values().map(String::as_str).collect();
            return values.join(" ");
        }
        let filled =
            |text: String, (label, value): (&String, &String)| text.replace(&format!("{{{{{label}}}}}"), value);
        self.metric.iter().fold(legend.to_owned(), filled)
    }
}

impl Curve {
    /// Returns the newest value.
    pub fn last(&self) -> f64 {
        self.points.last().map_or(0.0, |point| point.1)
    }
}
