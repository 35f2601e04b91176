//! Arguments of `kerf record`, `kerf replay` and `kerf costs`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jiff::SignedDuration;

use super::history::period;
use super::{CatalogueSources, Format, Settings};
use crate::input::Change;

/// Smallest maximum size of a recording, in bytes.
const LEAST_SIZE: u64 = 8 << 20;

/// Arguments of `kerf record`.
#[derive(Debug, Args)]
pub struct Record {
    /// Folder of the recording; a recording that is already there is continued
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Audit logs, and dumps of kubectl get --watch --output-watch-events -o json, in place of a cluster; may be repeated
    #[arg(long, value_name = "FILE")]
    pub from: Vec<PathBuf>,
    /// Context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME", conflicts_with = "from")]
    pub context: Option<String>,
    /// End after this time, such as 90m, 24h or 7d [default: at Ctrl-C]
    #[arg(long = "for", value_name = "DURATION", value_parser = period, conflicts_with = "from")]
    pub lasts: Option<SignedDuration>,
    /// Replace names by pseudonyms; FILE has the key, and is created if it does not exist
    #[arg(long, value_name = "FILE")]
    pub pseudonyms: Option<PathBuf>,
    /// Maximum size; the oldest part is deleted beyond it
    #[arg(long, value_name = "SIZE", default_value = "1Gi", value_parser = size)]
    pub max_size: u64,
}

/// Arguments of `kerf replay`.
#[derive(Debug, Args)]
pub struct Replay {
    /// Folders and files of `kerf record`
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Changed field of an object, such as nodepool.general.spec.disruption.consolidateAfter=5m; may be repeated
    #[arg(long = "set", value_name = "KIND.NAME.FIELD=VALUE", value_parser = Change::parse)]
    pub changes: Vec<Change>,
    /// Replay with Karpenter's rules for disruption too
    #[arg(long)]
    pub karpenter: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub output: Format,
    /// File for a picture of nodes and cost over time (SVG)
    #[arg(long, value_name = "FILE")]
    pub chart: Option<PathBuf>,
    /// Instance types and prices in place of the recorded ones.
    #[command(flatten)]
    pub catalogue: CatalogueSources,
    /// Karpenter's settings in place of the recorded ones.
    #[command(flatten)]
    pub settings: Settings,
}

/// Arguments of `kerf costs`.
#[derive(Debug, Args)]
pub struct Costs {
    /// Folders and files of `kerf record`
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Label of pods or of their namespaces, such as team, or the word namespace
    #[arg(long, value_name = "LABEL", default_value = "namespace")]
    pub by: String,
    /// Length of the periods of -o json and -o focus, such as 1h or 1d
    #[arg(long, value_name = "DURATION", value_parser = period, default_value = "1d")]
    pub every: SignedDuration,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = CostFormat::Table)]
    pub output: CostFormat,
    /// Instance types and prices in place of the recorded ones.
    #[command(flatten)]
    pub catalogue: CatalogueSources,
    /// Karpenter's settings in place of the recorded ones.
    #[command(flatten)]
    pub settings: Settings,
}

/// Output formats of costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CostFormat {
    /// Text for people
    Table,
    /// Lines of JSON
    Json,
    /// CSV with columns of FOCUS, the FinOps Open Cost and Usage Specification
    Focus,
}

/// Parses a size in bytes.
fn size(text: &str) -> Result<u64, String> {
    let bytes = api::quantity::units(text).ok().and_then(|bytes| u64::try_from(bytes).ok());
    bytes.filter(|bytes| *bytes >= LEAST_SIZE).ok_or_else(|| format!("{text:?} is not a size: write 8Mi, 1Gi or more"))
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn size_parses_quantities_from_eight_mebibytes_on() {
        assert_eq!(size("1Gi"), Ok(1 << 30));
        for text in ["1Ki", "much", "-1Gi", "8388607"] {
            assert!(size(text).is_err_and(|error| error.contains("write 8Mi")), "{text}");
        }
    }
}
