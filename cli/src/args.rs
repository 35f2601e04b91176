//! Flags and environment as they are written; `settings` makes values of them.

use std::path::PathBuf;

use api::nodeclass::AmiFamily;
use clap::{Args, Parser, Subcommand, ValueEnum};
use jiff::Timestamp;

use crate::settings::{Settings, Sizes};
use crate::types::Selector;

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "kerf", version, about = "What Kerf would do with a cluster, told without one", max_term_width = 100)]
pub struct Command {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Tell which nodes the pods of these manifests need
    Plan(Plan),
    /// Tell the whole story of one pod
    Why(Why),
    /// List instance types as nodes would be: labels, what pods get, offerings with prices
    Types(Types),
    /// Fetch AWS's public on-demand prices of a region
    Prices(Prices),
}

/// `kerf plan`.
#[derive(Debug, Args)]
pub struct Plan {
    /// What to plan.
    #[command(flatten)]
    pub subject: Subject,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub output: Format,
}

/// `kerf why`.
#[derive(Debug, Args)]
pub struct Why {
    /// What to plan.
    #[command(flatten)]
    pub subject: Subject,
    /// The pod, as NAMESPACE/NAME; NAME alone is in namespace default
    #[arg(long, value_name = "NS/NAME")]
    pub pod: String,
}

/// What to plan.
#[derive(Debug, Args)]
pub struct Subject {
    /// Files and folders with Kubernetes manifests, - for standard input
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// A catalogue of instance types in place of EC2's (docs/plan-format.md)
    #[arg(long, value_name = "FILE")]
    pub catalogue: Option<PathBuf>,
    /// us-east-1, us-west-2 or eu-west-2 [default: the objects' own, else us-east-1]
    #[arg(long)]
    pub region: Option<String>,
    /// Spot prices, as `aws ec2 describe-spot-price-history` prints them
    #[arg(long, value_name = "FILE")]
    pub spot_prices: Option<PathBuf>,
    /// On-demand prices, as `kerf prices` writes them [default: where it writes them]
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
    /// The moment to plan for [default: now]
    #[arg(long, value_name = "RFC3339", value_parser = moment)]
    pub now: Option<Timestamp>,
    /// Breaks ties that nothing else breaks
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Karpenter's settings.
    #[command(flatten)]
    pub settings: Settings,
}

/// How to print a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Table,
    /// For programs (docs/plan-format.md)
    Json,
    /// The same as YAML
    Yaml,
}

/// `kerf types`.
#[derive(Debug, Args)]
pub struct Types {
    /// Only these types, such as m7g.large; one alone is shown with everything that is known of it
    #[arg(value_name = "TYPE")]
    pub names: Vec<String>,
    /// How to print them
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub output: Format,
    /// Only types whose labels match, as kubectl has it: key=value, key!=value, key in (a,b), key>1, key, !key
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "", value_parser = Selector::parse)]
    pub selector: Selector,
    /// The image family that nodes run: AL2023, AL2, Bottlerocket, Custom, Windows2019, Windows2022 or Windows2025
    #[arg(long, value_name = "FAMILY", value_parser = family, conflicts_with = "class")]
    pub family: Option<AmiFamily>,
    /// A file with the EC2NodeClass whose kubelet settings, disks and images count
    #[arg(long, value_name = "FILE")]
    pub class: Option<PathBuf>,
    /// us-east-1, us-west-2 or eu-west-2
    #[arg(long, default_value = crate::catalogue::DEFAULT_REGION)]
    pub region: String,
    /// Spot prices, as `aws ec2 describe-spot-price-history` prints them
    #[arg(long, value_name = "FILE")]
    pub spot_prices: Option<PathBuf>,
    /// On-demand prices, as `kerf prices` writes them [default: where it writes them]
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
    /// Settings on which sizes depend.
    #[command(flatten)]
    pub sizes: Sizes,
}

/// `kerf prices`.
#[derive(Debug, Args)]
pub struct Prices {
    /// The region
    #[arg(long, default_value = crate::catalogue::DEFAULT_REGION)]
    pub region: String,
    /// Where to write the table [default: where kerf plan looks: ~/.local/share/kerf/prices-REGION.csv]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Where the price list is served
    #[arg(long, value_name = "URL", default_value = "https://pricing.us-east-1.amazonaws.com")]
    pub endpoint: String,
}

/// A family in any spelling of its letters.
fn family(text: &str) -> Result<AmiFamily, String> {
    let known = [AmiFamily::Custom].into_iter().chain(AmiFamily::ALIASES.map(|(_, family)| family));
    let names: Vec<&str> = known.clone().map(AmiFamily::as_str).collect();
    let mut known = known;
    known
        .find(|family| family.as_str().eq_ignore_ascii_case(text))
        .ok_or_else(|| format!("there is no image family {text:?}; known are {}", names.join(", ")))
}

fn moment(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| format!("{text:?} is not a moment: write it like 2026-11-21T12:00:00Z"))
}
