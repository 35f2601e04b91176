//! Machine, date and versions of a comparison.

use std::fmt;
use std::fs;
use std::process::Command;

use jiff::Timestamp;

/// Machine, date and versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Command that produced the report.
    pub command: String,
    /// Date in UTC.
    pub date: String,
    /// Name of the processor.
    pub processor: String,
    /// Number of available processors.
    pub processors: usize,
    /// Memory in GiB.
    pub memory: u64,
    /// Load average of the last minute before the run: well below 1 on a quiet machine.
    pub load: String,
    /// Version of the Rust compiler.
    pub rust: String,
    /// Version of Go.
    pub go: String,
    /// Version of Karpenter, from the program's module file.
    pub karpenter: String,
}

impl Machine {
    /// Describes this machine; values that cannot be determined are `unknown`.
    #[must_use]
    pub fn here(command: &str) -> Self {
        let line = |path: &str, key: &str| {
            let text = fs::read_to_string(path).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with(key)).and_then(|line| line.split_once(':'));
            line.map(|(_, value)| value.trim().to_owned())
        };
        let unknown = || "unknown".to_owned();
        let kibibytes = line("/proc/meminfo", "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        let load = fs::read_to_string("/proc/loadavg").ok();
        Self {
            command: command.to_owned(),
            date: Timestamp::now().strftime("%Y-%m-%d").to_string(),
            processor: line("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory: kibibytes.unwrap_or(0).div_ceil(1 << 20),
            load: load.and_then(|text| text.split(' ').next().map(str::to_owned)).unwrap_or_else(unknown),
            rust: output_of("rustc", &["--version"]),
            go: output_of("go", &["version"]),
            karpenter: karpenter().unwrap_or_else(unknown),
        }
    }
}

fn karpenter() -> Option<String> {
    const MODULES: &str = include_str!("../../karpenter/go.mod");
    let line = MODULES.lines().map(str::trim).find(|line| line.contains("sigs.k8s.io/karpenter v"))?;
    line.split_whitespace().find(|word| word.starts_with('v')).map(str::to_owned)
}

/// Returns the first line of a program's output.
fn output_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().ok();
    let text = output.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    text.lines().next().map_or_else(|| format!("{program}: unknown"), str::to_owned)
}

impl fmt::Display for Machine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "- {}: `{}`, release profile.", self.date, self.command)?;
        writeln!(
            out,
            "- {}, {} processors, {} GiB of memory; load at the start {}.",
            self.processor, self.processors, self.memory, self.load
        )?;
        writeln!(out, "- Karpenter {}, {}, {}.", self.karpenter, self.go, self.rust)
    }
}
