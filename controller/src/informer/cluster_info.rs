//! Data of the cluster from EKS that the settings lack: endpoint, certificates, service addresses and version.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use cloud::{Cloud, CloudError, ClusterDescription, ErrorKind};
use daemon::backoff::RetryDelays;
use kube::Client;

use crate::capacity::offerings::Offerings;
use crate::reconcile::work::WorkItem;
use crate::settings::Settings;
use crate::state::cluster::Cluster;

const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(60);
/// Interval between checks of the control plane's version.
const VERSION: Duration = Duration::from_secs(5 * 60);

/// Reports whether data from EKS is needed. `has_ca` is true if a certificate is already known.
fn is_needed(settings: &Settings, has_ca: bool) -> bool {
    settings.cluster_endpoint.is_empty() || settings.cluster_cidr.is_empty() || settings.eks_control_plane || !has_ca
}

/// Returns the description of the cluster from EKS, with retries until EKS answers. Returns `None` if nothing is missing, or if
/// only some EC2NodeClasses need the missing data.
///
/// # Errors
/// Returns an error if EKS refuses the call and nodes could not reach the cluster without the data.
pub async fn describe(
    cloud: &dyn Cloud,
    settings: &Settings,
    has_ca: bool,
) -> anyhow::Result<Option<ClusterDescription>> {
    if !is_needed(settings, has_ca) {
        return Ok(None);
    }
    let mut delays = RetryDelays::new(FIRST_RETRY, LAST_RETRY);
    loop {
        match cloud.cluster(&settings.cluster_name).await {
            Ok(found) => return Ok(Some(found)),
            Err(error) if is_passing(&error) => {
                tracing::warn!(error = daemon::error::chain(&error).as_str(), "eks:DescribeCluster failed, retrying");
                tokio::time::sleep(delays.next_delay()).await;
            }
            Err(error) if settings.cluster_endpoint.is_empty() || !has_ca => {
                let name = &settings.cluster_name;
                return Err(error).with_context(|| {
                    format!(
                        "eks:DescribeCluster failed for cluster {name:?}: allow it, or set CLUSTER_ENDPOINT, \
                             CLUSTER_CA_BUNDLE and CLUSTER_CIDR"
                    )
                });
            }
            Err(error) => {
                tracing::warn!(
                    error = daemon::error::chain(&error).as_str(),
                    "eks:DescribeCluster failed: allow it, or set CLUSTER_CIDR, which EC2NodeClasses of family AL2023 need"
                );
                return Ok(None);
            }
        }
    }
}

fn is_passing(error: &CloudError) -> bool {
    matches!(error.kind, ErrorKind::Throttled | ErrorKind::Server | ErrorKind::Transport)
}

/// Returns the minor version of the API server, such as `1.36`.
///
/// # Errors
/// Returns an error if the API server does not answer.
pub async fn served_version(client: &Client) -> anyhow::Result<String> {
    let version = client.apiserver_version().await.context("failed to read the version of the API server")?;
    let minor: String = version.minor.chars().take_while(char::is_ascii_digit).collect();
    Ok(format!("{}.{minor}", version.major))
}

/// Follows the version of the cluster forever. A new version changes the images of aliases, so all EC2NodeClasses are enqueued.
pub async fn follow_version(settings: Settings, client: Client, offerings: Arc<Offerings>, cluster: Arc<Cluster>) {
    loop {
        tokio::time::sleep(VERSION).await;
        let found = match settings.eks_control_plane {
            true => {
                offerings.cloud().cluster(&settings.cluster_name).await.map(|found| found.version).map_err(Into::into)
            }
            false => served_version(&client).await,
        };
        match found {
            Ok(version) if offerings.cluster().follow(&version) => {
                tracing::info!(version = version.as_str(), "cluster version changed");
                let classes: Vec<String> = cluster.read(|index| index.classes.keys().cloned().collect());
                classes.into_iter().for_each(|name| cluster.queue.add(WorkItem::Class(name)));
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(error = format!("{error:#}").as_str(), "cluster version is unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use cloud::fake::{FakeCloud, Fault};

    use super::describe;
    use crate::settings::{Args, Settings};

    fn settings(more: &[&str]) -> Settings {
        let given = ["kerf-controller", "--cluster-name=kerf", "--region=us-west-2"];
        Args::try_parse_from(given.iter().chain(more)).unwrap().settings()
    }

    const ENDPOINT: &str = "--cluster-endpoint=https://10.0.0.1";
    const CIDR: &str = "--cluster-cidr=10.96.0.0/12";

    /// Rows: settings, whether a certificate is known, and the number of calls to EKS.
    #[tokio::test]
    async fn describe_calls_eks_when_a_setting_is_missing() {
        let rows: [(&[&str], bool, usize); 5] = [
            (&[ENDPOINT, CIDR], true, 0),
            (&[ENDPOINT, CIDR], false, 1),
            (&[ENDPOINT], true, 1),
            (&[CIDR], true, 1),
            (&[ENDPOINT, CIDR, "--eks-control-plane=true"], true, 1),
        ];
        for (given, has_ca, asked) in rows {
            let cloud = FakeCloud::builder("us-west-2").build().unwrap();
            let found = describe(&cloud, &settings(given), has_ca).await.unwrap();
            assert_eq!((found.is_some(), cloud.count("DescribeCluster")), (asked > 0, asked), "{given:?} {has_ca}");
        }
    }

    #[tokio::test]
    async fn describe_fails_when_eks_refuses_and_nodes_need_the_data() {
        let cloud = FakeCloud::builder("us-west-2").build().unwrap();
        cloud.fail("DescribeCluster", 1, Fault::unauthorized());
        let error = describe(&cloud, &settings(&[CIDR]), true).await.unwrap_err();
        assert!(format!("{error:#}").contains("allow it, or set CLUSTER_ENDPOINT"), "{error:#}");
        cloud.fail("DescribeCluster", 1, Fault::unauthorized());
        assert_eq!(describe(&cloud, &settings(&[ENDPOINT]), true).await.unwrap(), None);
        cloud.fail("DescribeCluster", 1, Fault::throttled());
        assert!(describe(&cloud, &settings(&[ENDPOINT]), true).await.unwrap().is_some(), "asked again");
    }
}
