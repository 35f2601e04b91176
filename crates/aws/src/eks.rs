//! Description of the cluster by EKS, for the nodes that join it.

use aws_sdk_eks::Client;
use aws_sdk_eks::types as eks;
use cloud::{CloudError, ClusterDescription};

use crate::failure::{failure, incomplete};

pub(crate) async fn describe(client: &Client, name: &str) -> Result<ClusterDescription, CloudError> {
    const CALL: &str = "DescribeCluster";
    let answer = client.describe_cluster().name(name).send().await.map_err(|error| failure(CALL, error))?;
    answer.cluster.map(cluster).ok_or_else(|| incomplete(CALL, "cluster"))
}

fn cluster(cluster: eks::Cluster) -> ClusterDescription {
    let network = cluster.kubernetes_network_config;
    let (v4, v6) = network.map(|network| (network.service_ipv4_cidr, network.service_ipv6_cidr)).unwrap_or_default();
    ClusterDescription {
        arn: cluster.arn.unwrap_or_default(),
        version: cluster.version.unwrap_or_default(),
        endpoint: cluster.endpoint.unwrap_or_default(),
        ca: cluster.certificate_authority.and_then(|authority| authority.data).unwrap_or_default(),
        service_cidr: v6.filter(|range| !range.is_empty()).or(v4).unwrap_or_default(),
    }
}
