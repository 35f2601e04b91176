//! EKS' REST protocol: DescribeCluster, which Kerf uses, and access entries, which others use.

use cloud::Cloud;
use http::Method;
use serde_json::json;

use super::answer::{Failure, Reply, invalid};
use super::ec2::VPC;

/// Request: method, and path below `/clusters/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EksCall {
    pub(super) method: Method,
    pub(super) path: String,
}

impl EksCall {
    /// Returns AWS' name of the action.
    pub(super) fn action(&self) -> &'static str {
        match (&self.method, self.path.split_once('/')) {
            (&Method::GET, None) => "DescribeCluster",
            (&Method::POST, Some((_, "access-entries"))) => "CreateAccessEntry",
            (&Method::DELETE, Some((_, entry))) if entry.starts_with("access-entries/") => "DeleteAccessEntry",
            _ => "unknown",
        }
    }

    pub(super) async fn act(&self, cloud: &dyn Cloud) -> Result<Reply, Failure> {
        let name = self.path.split('/').next().unwrap_or_default();
        match self.action() {
            "DescribeCluster" => describe(cloud, name).await,
            // The emulated API server admits every role of the account.
            "CreateAccessEntry" => Ok(entry(json!({"accessEntry": {"clusterName": name, "type": "EC2_LINUX"}}))),
            "DeleteAccessEntry" => Ok(entry(json!({}))),
            _ => Err(invalid("InvalidRequestException", format!("{} {} is not known here", self.method, self.path))),
        }
    }
}

fn entry(answer: serde_json::Value) -> Reply {
    Reply { body: answer.to_string(), summary: "access entry".to_owned() }
}

async fn describe(cloud: &dyn Cloud, name: &str) -> Result<Reply, Failure> {
    let cluster = cloud.cluster(name).await?;
    let six = cluster.service_cidr.contains(':');
    let network = match six {
        true => json!({"ipFamily": "ipv6", "serviceIpv6Cidr": cluster.service_cidr}),
        false => json!({"ipFamily": "ipv4", "serviceIpv4Cidr": cluster.service_cidr}),
    };
    let answer = json!({"cluster": {
        "arn": cluster.arn,
        "name": name,
        "status": "ACTIVE",
        "version": cluster.version,
        "endpoint": cluster.endpoint,
        "certificateAuthority": {"data": cluster.ca},
        "kubernetesNetworkConfig": network,
        "resourcesVpcConfig": {"vpcId": VPC},
    }});
    Ok(Reply { body: answer.to_string(), summary: cluster.version })
}
