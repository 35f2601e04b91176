//! Flags and environment as they are written; `settings` makes values of them.

use std::path::PathBuf;

use api::label;
use api::nodeclass::AmiFamily;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use jiff::Timestamp;

use crate::settings::{Settings, Sizes};
use crate::types::Selector;

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "kerf", version, about = "Simulates Kerf's decisions for a cluster, offline", max_term_width = 100)]
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
    /// Print the user data of a machine, as the controller would send it
    #[command(name = "userdata", next_line_help = true)]
    UserData(UserData),
    /// Turn what older versions of Karpenter read, or a node group, into what Kerf reads
    Convert(Convert),
    /// Tell what changes when Kerf takes over a cluster in which Karpenter runs
    Adopt(Adopt),
    /// Fetch AWS's public on-demand prices of a region
    Prices(Prices),
    /// Print the script that lets a shell complete these words
    Completions(Completions),
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

/// `kerf userdata`.
#[derive(Debug, Args)]
pub struct UserData {
    /// The EC2NodeClass, - for standard input
    #[arg(long, value_name = "FILE")]
    pub class: PathBuf,
    /// The NodePool; may be the same file
    #[arg(long, value_name = "FILE")]
    pub pool: PathBuf,
    /// The instance type, on which the number of pods depends
    #[arg(long = "type", value_name = "TYPE")]
    pub kind: Option<String>,
    /// How it is bought [default: spot where the pool allows it]
    #[arg(long, value_name = "WORD", value_enum)]
    pub capacity_type: Option<CapacityTypeArg>,
    /// Print it in base64, as a launch template takes it
    #[arg(long)]
    pub base64: bool,
    /// Network interfaces that pods cannot use
    #[arg(long, env = "RESERVED_ENIS", default_value_t = 0)]
    pub reserved_enis: u32,
    /// The cluster.
    #[command(flatten)]
    pub cluster: Cluster,
}

/// The cluster that machines join, under the controller's names.
#[derive(Args, Clone, Debug, Default)]
pub struct Cluster {
    /// The EKS cluster's name
    #[arg(long, env = "CLUSTER_NAME", value_name = "NAME")]
    pub cluster_name: Option<String>,
    /// The API server's address
    #[arg(long, env = "CLUSTER_ENDPOINT", value_name = "URL")]
    pub cluster_endpoint: Option<String>,
    /// Base64 of the cluster's CA certificate
    #[arg(long, env = "CLUSTER_CA_BUNDLE", value_name = "BASE64", hide_env_values = true)]
    pub cluster_ca_bundle: Option<String>,
    /// The cluster's service CIDR, which only AL2023 needs
    #[arg(long, env = "CLUSTER_CIDR", value_name = "CIDR")]
    pub cluster_cidr: Option<String>,
    /// Addresses of its DNS [default: the class's, else the machine's]
    #[arg(long, env = "CLUSTER_DNS", value_name = "IP", value_delimiter = ',')]
    pub cluster_dns: Vec<String>,
}

/// How a machine is bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CapacityTypeArg {
    /// From spare capacity
    Spot,
    /// At the list price
    OnDemand,
    /// From a reservation
    Reserved,
}

impl CapacityTypeArg {
    /// The value of label `karpenter.sh/capacity-type`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Spot => label::CAPACITY_SPOT,
            Self::OnDemand => label::CAPACITY_ON_DEMAND,
            Self::Reserved => label::CAPACITY_RESERVED,
        }
    }
}

/// `kerf convert`.
#[derive(Debug, Args)]
pub struct Convert {
    /// Files and folders with manifests, Helm values or Prometheus rules, - for standard input
    #[arg(required_unless_present = "live", value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Read pools and classes from the cluster of the kubeconfig
    #[arg(long, conflicts_with_all = ["paths", "from"])]
    pub live: bool,
    /// What the files are, if nothing of Karpenter's
    #[arg(long, value_name = "WHAT", value_enum)]
    pub from: Option<Origin>,
    /// The role of nodes, where a node group's description does not name it
    #[arg(long, value_name = "NAME", requires = "from")]
    pub role: Option<String>,
}

/// `kerf adopt`.
#[derive(Debug, Args)]
pub struct Adopt {
    /// Look, and change nothing
    #[arg(long, required = true)]
    pub check: bool,
    /// Files and folders with the cluster's objects, - for standard input [default: the cluster of the kubeconfig]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
}

/// What is converted, if nothing of Karpenter's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Origin {
    /// Node groups: aws autoscaling describe-auto-scaling-groups, aws eks describe-nodegroup
    ClusterAutoscaler,
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

/// `kerf completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell; for bash: source <(kerf completions bash)
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: Shell,
}

/// A family in any spelling of its letters.
fn family(text: &str) -> Result<AmiFamily, String> {
    let known = [AmiFamily::Custom].into_iter().chain(AmiFamily::ALIASES.map(|(_, family)| family));
    let names: Vec<&str> = known.clone().map(AmiFamily::as_str).collect();
    let mut known = known;
    known
        .find(|family| family.as_str().eq_ignore_ascii_case(text))
        .ok_or_else(|| format!("unknown image family {text:?}; known are {}", names.join(", ")))
}

fn moment(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| format!("{text:?} is not a timestamp: write it like 2026-11-21T12:00:00Z"))
}
