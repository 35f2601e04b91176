//! Arguments of `kerf log`, `kerf report` and `kerf compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jiff::{SignedDuration, Span, SpanRelativeTo};

use super::LiveCluster;

/// Source and period of records.
#[derive(Debug, Args)]
pub struct History {
    /// Files with the output of the same command and -o json, - for standard input [default: --live]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Cluster as input.
    #[command(flatten)]
    pub cluster: LiveCluster,
    /// Namespace of the controller
    #[arg(short, long, value_name = "NAME", default_value = super::USUAL_NAMESPACE, conflicts_with = "paths")]
    pub namespace: String,
    /// Only the last part of the time, such as 90m, 24h or 7d
    #[arg(long, value_name = "DURATION", value_parser = period)]
    pub since: Option<SignedDuration>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = HistoryFormat::Table)]
    pub output: HistoryFormat,
}

/// Output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HistoryFormat {
    /// Text for people
    Table,
    /// Lines of JSON, which the same command reads
    Json,
}

/// Arguments of `kerf log`.
#[derive(Debug, Args)]
pub struct Log {
    /// Records.
    #[command(flatten)]
    pub history: History,
    /// Only decisions about this pod; NAME alone is in namespace default
    #[arg(long, value_name = "NS/NAME")]
    pub pod: Option<String>,
    /// Only decisions about this node
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Only decisions about this NodeClaim
    #[arg(long, value_name = "NAME")]
    pub nodeclaim: Option<String>,
    /// Only decisions about nodes of this NodePool
    #[arg(long, value_name = "NAME")]
    pub nodepool: Option<String>,
    /// Only decisions with this reason, such as Underutilized
    #[arg(long, value_name = "NAME")]
    pub reason: Option<String>,
}

/// Arguments of `kerf report`.
#[derive(Debug, Args)]
pub struct Report {
    /// Records.
    #[command(flatten)]
    pub history: History,
}

/// Arguments of `kerf compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// Records.
    #[command(flatten)]
    pub history: History,
    /// Length of a period, such as 1h or 1d; at least 15m
    #[arg(long, value_name = "DURATION", value_parser = comparison_period, default_value = "1h")]
    pub every: SignedDuration,
}

/// Parses the length of a period, which is not shorter than that of a summary.
fn comparison_period(text: &str) -> Result<SignedDuration, String> {
    let least = SignedDuration::from_mins(15);
    let period = period(text)?;
    if period < least {
        return Err(format!("{text:?} is too short: a summary has 15 minutes, write 15m or more"));
    }
    Ok(period)
}

/// Parses a duration with days of 24 hours.
pub(super) fn period(text: &str) -> Result<SignedDuration, String> {
    let span: Option<Span> = text.parse().ok();
    span.and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()).ok())
        .filter(|period| period.is_positive())
        .ok_or_else(|| format!("{text:?} is not a duration: write it like 90m, 24h or 7d"))
}
