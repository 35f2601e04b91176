//! EKS' DescribeCluster.

use cloud::Cloud;
use serde_json::json;

use super::answer::{Failure, Reply};

pub(super) async fn describe(cloud: &dyn Cloud, name: &str) -> Result<Reply, Failure> {
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
    }});
    Ok(Reply { body: answer.to_string(), summary: cluster.version })
}
