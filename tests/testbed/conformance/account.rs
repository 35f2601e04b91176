//! EC2 account that the suites expect: several security groups, images of each family and of earlier versions, and roles.

use cloud::fake::{AMAZON, Builder};
use cloud::{Image, SecurityGroup, Subnet, Tags};
use jiff::SignedDuration;

use super::suites::Suite;
use crate::controller_pods::ROLE;
use crate::environment::{CLUSTER, REGION};

/// Kubernetes version of the cluster.
const MINOR: &str = "1.36";
/// Role of the experiments that interrupt instances.
const EXPERIMENTS: &str = "FISInterruptionRole";
/// Time from the launch of an instance until its machine boots.
const BOOT: SignedDuration = SignedDuration::from_secs(3);
/// Creation date of earlier images.
const EARLIER: &str = "2026-05-20T00:00:00.000Z";
/// Creation date of current images.
const CURRENT: &str = "2026-11-01T00:00:00.000Z";
/// Versions of Bottlerocket, the current one last.
const BOTTLEROCKET: [(&str, &str); 2] = [("1.50.0-2f1ac7e4", EARLIER), ("1.56.0-8c0d3b71", CURRENT)];

/// Returns the changes of the account for a suite.
pub fn description(suite: &Suite) -> fn(Builder) -> Builder {
    if suite.package == "localzone" { with_local_zone } else { describe }
}

fn describe(ec2: Builder) -> Builder {
    let ec2 = ec2.pending_for(BOOT).role(EXPERIMENTS).role(ROLE).security_group(second_group());
    let images = earlier_images().into_iter().chain(bottlerocket_images()).chain(windows_images());
    images.enumerate().fold(ec2, |ec2, (number, found)| {
        let id = format!("ami-0{:016x}", 0xb1_2023 + number);
        let ec2 = found.parameters.iter().fold(ec2, |ec2, name| ec2.parameter(name, &id));
        ec2.image(Image {
            id,
            name: found.name,
            architecture: found.architecture.to_owned(),
            created: found.created.to_owned(),
            deprecated: false,
            owner: AMAZON.to_owned(),
            tags: Tags::new(),
        })
    })
}

/// Adds a subnet in a local zone.
fn with_local_zone(ec2: Builder) -> Builder {
    let zone = format!("{REGION}-lax-1a");
    let tags = tags(&format!("{CLUSTER}-Private-{zone}"));
    let (id, zone_id) = ("subnet-000000000000000f1".to_owned(), "usw2-lax1-az1".to_owned());
    describe(ec2).local_zone(&zone).subnet(Subnet { id, zone, zone_id, free_addresses: 8187, tags })
}

/// Image with the names of its SSM parameters.
struct Found {
    name: String,
    architecture: &'static str,
    created: &'static str,
    parameters: Vec<String>,
}

/// Returns AL2023 of an earlier version, and of an earlier Kubernetes.
fn earlier_images() -> Vec<Found> {
    let version = "v20260520";
    let image = |minor: &str, architecture: &'static str| {
        let name = format!("amazon-eks-node-al2023-{architecture}-standard-{minor}-{version}");
        let base = format!("/aws/service/eks/optimized-ami/{minor}/amazon-linux-2023/{architecture}/standard");
        let mut parameters = vec![format!("{base}/{name}/image_id")];
        parameters.extend((minor != MINOR).then(|| format!("{base}/recommended/image_id")));
        Found { name, architecture, created: EARLIER, parameters }
    };
    [MINOR, "1.35"]
        .iter()
        .flat_map(|minor| ["x86_64", "arm64"].map(|architecture| image(minor, architecture)))
        .collect()
}

fn bottlerocket_images() -> Vec<Found> {
    let image = |variant: &str, architecture: &'static str, (version, created): (&str, &'static str)| {
        let base = format!("/aws/service/bottlerocket/aws-k8s-{MINOR}{variant}/{architecture}");
        let mut parameters = vec![format!("{base}/{version}/image_id")];
        parameters.extend((created == CURRENT).then(|| format!("{base}/latest/image_id")));
        let name = format!("bottlerocket-aws-k8s-{MINOR}{variant}-{architecture}-v{version}");
        Found { name, architecture, created, parameters }
    };
    let mut found = Vec::new();
    for (variant, architecture) in [("", "x86_64"), ("", "arm64"), ("-nvidia", "x86_64"), ("-nvidia", "arm64")] {
        found.extend(BOTTLEROCKET.map(|version| image(variant, architecture, version)));
    }
    found
}

fn windows_images() -> Vec<Found> {
    let image = |year: &str| {
        let name = format!("Windows_Server-{year}-English-Core-EKS_Optimized-{MINOR}");
        let parameters = vec![format!("/aws/service/ami-windows-latest/{name}/image_id")];
        Found { name: format!("{name}-2026.10.14"), architecture: "x86_64", created: CURRENT, parameters }
    };
    ["2019", "2022", "2025"].map(image).into()
}

/// Returns a security group that the default selectors choose besides that of the nodes.
fn second_group() -> SecurityGroup {
    let name = format!("{CLUSTER}-cluster");
    SecurityGroup { id: "sg-00000000000000002".to_owned(), tags: tags(&name), name }
}

fn tags(name: &str) -> Tags {
    let tags = [("karpenter.sh/discovery", CLUSTER), ("Name", name)];
    tags.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}
