//! Flags and environment variables as they are written; `settings` converts them into values.

mod account;
mod history;
mod recording;
mod selector;
mod settings;

use std::net::SocketAddr;
use std::path::PathBuf;

use api::label;
use api::nodeclass::AmiFamily;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use jiff::Timestamp;

use crate::catalogue::{CatalogueOptions, MarketSources};
use crate::input::Change;
use crate::plan::top::SortKey;

pub use account::{Commitments, Prices};
pub use history::{Compare, History, HistoryFormat, Log, Report};
pub use recording::{CostFormat, Costs, Record, Replay};
pub use selector::Selector;
pub use settings::{Settings, Sizes};

/// Namespace of the controller, unless another one is given or its Deployment is in another one.
pub const USUAL_NAMESPACE: &str = "kube-system";

/// Command line of `kerf`.
#[derive(Debug, Parser)]
#[command(name = "kerf", version, about = "Simulates Kerf's decisions for a cluster, offline", max_term_width = 100)]
pub struct Command {
    /// Subcommand.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Subcommands of `kerf`.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Shows the nodes that the pods of these manifests need
    Plan(Plan),
    /// Explains the decisions for one pod or node, or the cost of the cluster
    Why(Why),
    /// Shows nodes with requests, usage, cost and pods, and why each stays or goes
    Top(Top),
    /// Serves a page with nodes, pods and decisions on the loopback address
    Ui(Ui),
    /// Lists the decisions of the controller: launches, disruption, refusals
    Log(Log),
    /// Sums the cost, savings, interruptions and waits of a period
    Report(Report),
    /// Compares the cost of the nodes with what Kerf would launch, from a controller that only observes
    Compare(Compare),
    /// Follows a cluster and writes what happens into files, for kerf replay
    Record(Record),
    /// Plays a recording again, perhaps with other settings, and compares cost, nodes, evictions and waits
    Replay(Replay),
    /// Divides the cost of a recording among teams, namespaces or other labels of pods
    Costs(Costs),
    /// Lists instance types: labels, allocatable resources, offerings with prices
    Types(Types),
    /// Prints the user data of an instance, as the controller would send it
    #[command(name = "userdata", next_line_help = true)]
    UserData(UserData),
    /// Converts manifests of older Karpenter versions, or a node group, into current ones
    Convert(Convert),
    /// Lists the changes when Kerf takes over a cluster in which Karpenter runs
    Adopt(Adopt),
    /// Downloads AWS's public on-demand prices of a region
    Prices(Prices),
    /// Prints the Savings Plans and Reserved Instances of your AWS account as manifests
    Commitments(Commitments),
    /// Prints the completion script for a shell
    Completions(Completions),
}

/// Arguments of `kerf plan`.
#[derive(Debug, Args)]
pub struct Plan {
    /// Input of the plan.
    #[command(flatten)]
    pub subject: Subject,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub output: Format,
}

/// Arguments of `kerf why`.
#[derive(Debug, Args)]
pub struct Why {
    /// Object of the question.
    #[command(subcommand)]
    pub object: ExplainedObject,
}

/// Objects that `kerf why` explains.
#[derive(Debug, Subcommand)]
pub enum ExplainedObject {
    /// Explains where a pod runs, or why it is unschedulable
    Pod(ExplainedPod),
    /// Explains why a node stays or goes
    Node(ExplainedNode),
    /// Explains why the node of a NodeClaim stays or goes
    #[command(name = "nodeclaim")]
    NodeClaim(ExplainedNode),
    /// Explains why a pod does not go to a new node of a NodePool
    Not(ExplainedPool),
    /// Explains the cost of the cluster: by NodePool and workload, and why nodes stay
    Cost(ExplainedCost),
}

/// Arguments of `kerf why cost`.
#[derive(Debug, Args)]
pub struct ExplainedCost {
    /// Label of pods or of their namespaces by which the cost is shown, such as team [default: by workload]
    #[arg(long, value_name = "LABEL")]
    pub by: Option<String>,
    /// Input of the plan.
    #[command(flatten)]
    pub subject: Subject,
}

/// Arguments of `kerf why not`.
#[derive(Debug, Args)]
pub struct ExplainedPool {
    /// Name of the NodePool
    #[arg(value_name = "NODEPOOL")]
    pub name: String,
    /// Pod as NAMESPACE/NAME; NAME alone is in namespace default
    #[arg(long, value_name = "NS/NAME")]
    pub pod: String,
    /// Input of the plan.
    #[command(flatten)]
    pub subject: Subject,
}

/// Arguments of `kerf why pod`.
#[derive(Debug, Args)]
pub struct ExplainedPod {
    /// Pod as NAMESPACE/NAME; NAME alone is in namespace default
    #[arg(value_name = "NS/NAME")]
    pub name: String,
    /// Input of the plan.
    #[command(flatten)]
    pub subject: Subject,
}

/// Arguments of `kerf why node` and `kerf why nodeclaim`.
#[derive(Debug, Args)]
pub struct ExplainedNode {
    /// Name of the object
    pub name: String,
    /// Input of the plan.
    #[command(flatten)]
    pub subject: Subject,
}

/// Arguments of `kerf top`.
#[derive(Debug, Args)]
pub struct Top {
    /// Input of the plan.
    #[command(flatten)]
    pub subject: Subject,
    /// Print a table in place of the terminal view, as for a pipe
    #[arg(long)]
    pub once: bool,
    /// Order of the nodes
    #[arg(long, value_enum, default_value_t = SortKey::Cost)]
    pub sort: SortKey,
    /// Only nodes whose labels match, as in kubectl
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "", value_parser = Selector::parse)]
    pub selector: Selector,
    /// Labels that are shown as columns, as in kubectl
    #[arg(short = 'L', long, value_name = "KEY", value_delimiter = ',')]
    pub label_columns: Vec<String>,
    /// Resources whose requested part is shown in percent, such as nvidia.com/gpu, beside cpu and memory
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',')]
    pub resources: Vec<String>,
    /// Seconds between two readings of the cluster, with --live
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub interval: u64,
}

/// Arguments of `kerf ui`.
#[derive(Debug, Args)]
pub struct Ui {
    /// Input of the plan.
    #[command(flatten)]
    pub subject: Subject,
    /// Port on the loopback address; 0 for any free one
    #[arg(long, default_value_t = 8877)]
    pub port: u16,
    /// Address for readers on other machines, such as 0.0.0.0:8877; without a secret path, so put authentication in front of it
    #[arg(long, value_name = "IP:PORT", conflicts_with = "port")]
    pub listen: Option<SocketAddr>,
    /// Namespace of the controller, for its decisions, with --live
    #[arg(short, long, value_name = "NAME", default_value = USUAL_NAMESPACE, conflicts_with = "paths")]
    pub namespace: String,
    /// Seconds between two readings of the cluster, with --live
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub interval: u64,
}

/// Input of a plan.
#[derive(Clone, Debug, Args)]
pub struct Subject {
    /// Files and folders with Kubernetes manifests, - for standard input
    #[arg(required_unless_present_any = ["live", "context"], value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Cluster as input.
    #[command(flatten)]
    pub cluster: LiveCluster,
    /// Changed field of an object, such as nodepool.general.spec.disruption.consolidateAfter=5m; may be repeated
    #[arg(long = "set", value_name = "KIND.NAME.FIELD=VALUE", value_parser = Change::parse)]
    pub changes: Vec<Change>,
    /// Instance types and prices.
    #[command(flatten)]
    pub catalogue: CatalogueSources,
    /// Time to plan for [default: now]
    #[arg(long, value_name = "RFC3339", value_parser = timestamp)]
    pub now: Option<Timestamp>,
    /// Seed for ties that no other rule breaks
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Karpenter's settings.
    #[command(flatten)]
    pub settings: Settings,
}

/// Instance types and prices in place of those of the controller or of EC2.
#[derive(Args, Clone, Debug, Default)]
pub struct CatalogueSources {
    /// Catalogue of instance types in place of EC2's (docs/plan-format.md)
    #[arg(long, value_name = "FILE")]
    catalogue: Option<PathBuf>,
    /// AWS region [default: the objects' own, else us-east-1]
    #[arg(long)]
    region: Option<String>,
    /// Sources of offerings and prices.
    #[command(flatten)]
    market: MarketSources,
}

impl CatalogueSources {
    /// Returns options with these sources in place of theirs.
    #[must_use]
    pub fn options(&self, others: CatalogueOptions) -> CatalogueOptions {
        let Self { catalogue, region, market } = self.clone();
        CatalogueOptions { file: catalogue, region, market, ..others }
    }
}

/// Cluster as input, in place of files.
#[derive(Args, Clone, Debug, Default)]
pub struct LiveCluster {
    /// The kubeconfig's cluster as input; its objects are only listed
    #[arg(long, conflicts_with = "paths")]
    pub live: bool,
    /// Context of the kubeconfig as input; --live alone reads the current one
    #[arg(long, value_name = "NAME", conflicts_with = "paths")]
    pub context: Option<String>,
}

impl LiveCluster {
    /// Reports whether the command line names a cluster.
    #[must_use]
    pub fn is_named(&self) -> bool {
        self.live || self.context.is_some()
    }
}

/// Output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for people
    Table,
    /// JSON for programs (docs/plan-format.md)
    Json,
    /// The same as YAML
    Yaml,
}

/// Arguments of `kerf types`.
#[derive(Debug, Args)]
pub struct Types {
    /// Only these types, such as m7g.large; a single one is shown with all its data
    #[arg(value_name = "TYPE")]
    pub names: Vec<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub output: Format,
    /// Only types whose labels match, as in kubectl: key=value, key!=value, key in (a,b), key>1, key, !key
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "", value_parser = Selector::parse)]
    pub selector: Selector,
    /// Image family of the nodes: AL2023, AL2, Bottlerocket, Custom, Windows2019, Windows2022 or Windows2025
    #[arg(long, value_name = "FAMILY", value_parser = family, conflicts_with = "class")]
    pub family: Option<AmiFamily>,
    /// File with the EC2NodeClass whose kubelet settings, disks and images apply
    #[arg(long, value_name = "FILE")]
    pub class: Option<PathBuf>,
    /// AWS region
    #[arg(long, default_value = crate::catalogue::DEFAULT_REGION)]
    pub region: String,
    /// Sources of offerings and prices.
    #[command(flatten)]
    pub market: MarketSources,
    /// Settings that affect allocatable resources.
    #[command(flatten)]
    pub sizes: Sizes,
}

/// Arguments of `kerf userdata`.
#[derive(Debug, Args)]
pub struct UserData {
    /// File with the EC2NodeClass, - for standard input
    #[arg(long, value_name = "FILE")]
    pub class: PathBuf,
    /// File with the NodePool; may be the same file
    #[arg(long, value_name = "FILE")]
    pub pool: PathBuf,
    /// Instance type, on which the maximum number of pods depends
    #[arg(long = "type", value_name = "TYPE")]
    pub kind: Option<String>,
    /// Capacity type [default: spot where the NodePool allows it]
    #[arg(long, value_name = "WORD", value_enum)]
    pub capacity_type: Option<CapacityTypeArg>,
    /// Output in base64, as a launch template needs it
    #[arg(long)]
    pub base64: bool,
    /// Network interfaces that pods cannot use
    #[arg(long, env = "RESERVED_ENIS", default_value_t = 0)]
    pub reserved_enis: u32,
    /// Cluster of the node.
    #[command(flatten)]
    pub cluster: Cluster,
}

/// Cluster that nodes join, with the variable names of the controller.
#[derive(Args, Clone, Debug, Default)]
pub struct Cluster {
    /// Name of the EKS cluster
    #[arg(long, env = "CLUSTER_NAME", value_name = "NAME")]
    pub cluster_name: Option<String>,
    /// Address of the API server
    #[arg(long, env = "CLUSTER_ENDPOINT", value_name = "URL", value_parser = cluster_endpoint)]
    pub cluster_endpoint: Option<String>,
    /// Base64 of the cluster's CA certificate
    #[arg(long, env = "CLUSTER_CA_BUNDLE", value_name = "BASE64", hide_env_values = true)]
    pub cluster_ca_bundle: Option<String>,
    /// Service CIDR of the cluster, needed only for AL2023
    #[arg(long, env = "CLUSTER_CIDR", value_name = "CIDR")]
    pub cluster_cidr: Option<String>,
    /// Addresses of the cluster's DNS [default: EC2NodeClass, else instance]
    #[arg(long, env = "CLUSTER_DNS", value_name = "IP", value_delimiter = ',')]
    pub cluster_dns: Vec<String>,
}

/// Parses the address of an API server.
fn cluster_endpoint(text: &str) -> Result<String, String> {
    if api::endpoint::is_plain_remote(text) { Err(api::endpoint::CURE.to_owned()) } else { Ok(text.to_owned()) }
}

/// Capacity types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CapacityTypeArg {
    /// Spare capacity
    Spot,
    /// On-demand capacity at the list price
    OnDemand,
    /// Capacity of a reservation
    Reserved,
}

impl CapacityTypeArg {
    /// Returns the value of label `karpenter.sh/capacity-type`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Spot => label::CAPACITY_SPOT,
            Self::OnDemand => label::CAPACITY_ON_DEMAND,
            Self::Reserved => label::CAPACITY_RESERVED,
        }
    }
}

/// Arguments of `kerf convert`.
#[derive(Debug, Args)]
pub struct Convert {
    /// Files and folders with manifests, Helm values, Prometheus rules or a Grafana board, - for standard input
    #[arg(required_unless_present_any = ["live", "context"], value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Cluster as input.
    #[command(flatten)]
    pub cluster: LiveCluster,
    /// Origin of the files, if not Karpenter
    #[arg(long, value_name = "WHAT", value_enum, conflicts_with_all = ["live", "context"])]
    pub from: Option<Origin>,
    /// Role of nodes, for EC2NodeClasses and node groups that name neither a role nor an instance profile
    #[arg(long, value_name = "NAME")]
    pub role: Option<String>,
    /// Instance profile of nodes, in place of --role
    #[arg(long, value_name = "NAME", conflicts_with = "role")]
    pub instance_profile: Option<String>,
    /// Name of the cluster, for node groups whose tags do not contain it
    #[arg(long, value_name = "NAME", requires = "from")]
    pub cluster_name: Option<String>,
}

/// Arguments of `kerf adopt`.
#[derive(Debug, Args)]
#[command(after_help = crate::adopt::IAM_COMMANDS)]
pub struct Adopt {
    /// Check only, no change
    #[arg(long, required = true)]
    pub check: bool,
    /// Files and folders with the cluster's objects, - for standard input [default: --live]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Cluster as input.
    #[command(flatten)]
    pub live: LiveCluster,
    /// Check the IAM policies of the controller's role too, which --iam-policy names
    #[arg(long)]
    pub iam: bool,
    /// File with IAM policies of the controller's role, - for standard input; may be repeated
    #[arg(long, value_name = "FILE")]
    pub iam_policy: Vec<PathBuf>,
    /// File with policies that limit the role: its permissions boundary, or service control policies; may be repeated
    #[arg(long, value_name = "FILE", requires = "iam_policy")]
    pub iam_limit: Vec<PathBuf>,
    /// Name of the cluster in the IAM policies [default: CLUSTER_NAME of the controller's Deployment]
    #[arg(long, value_name = "NAME")]
    pub cluster_name: Option<String>,
}

/// Origins of converted files other than Karpenter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Origin {
    /// Node groups: aws autoscaling describe-auto-scaling-groups, aws eks describe-nodegroup
    ClusterAutoscaler,
}

/// Arguments of `kerf completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// Shell; for bash: source <(kerf completions bash)
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: Shell,
}

/// Parses an image family; letter case does not matter.
fn family(text: &str) -> Result<AmiFamily, String> {
    let known = [AmiFamily::Custom].into_iter().chain(AmiFamily::ALIASES.map(|(_, family)| family));
    let names: Vec<&str> = known.clone().map(AmiFamily::as_str).collect();
    let mut known = known;
    known
        .find(|family| family.as_str().eq_ignore_ascii_case(text))
        .ok_or_else(|| format!("unknown image family {text:?}; known are {}", names.join(", ")))
}

fn timestamp(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| format!("{text:?} is not a timestamp: write it like 2026-11-21T12:00:00Z"))
}
