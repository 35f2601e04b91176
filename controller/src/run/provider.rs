//! Provider of nodes: EC2, or KWOK for trials without AWS.

use std::sync::Arc;

use anyhow::Context;
use cloud::Cloud;
use cloud::fake::FakeCloud;
use kube::Client;

use super::kwok;
use crate::settings::{NodeProvider, Settings};

/// Region of nodes of KWOK, if the settings name none.
const TRIAL_REGION: &str = "us-east-1";

/// Client of the provider.
pub(super) enum Provider {
    /// EC2 and the other APIs of AWS.
    Aws(aws::AwsCloud),
    /// EC2 in memory, whose instances become nodes of KWOK.
    Kwok(FakeCloud),
}

impl Provider {
    /// Returns the client of the provider that the settings name, and completes the settings by its region.
    pub(super) async fn connect(settings: &mut Settings, client: &Client) -> anyhow::Result<Self> {
        match settings.provider {
            NodeProvider::Aws => connect_aws(settings).await.map(Self::Aws),
            NodeProvider::Kwok => {
                if settings.region.is_empty() {
                    TRIAL_REGION.clone_into(&mut settings.region);
                }
                kwok::emulate_ec2(settings, client).await.map(Self::Kwok)
            }
        }
    }

    /// Returns the APIs of AWS, or their emulation.
    pub(super) fn cloud(&self) -> Arc<dyn Cloud> {
        match self {
            Self::Aws(client) => Arc::new(client.clone()),
            Self::Kwok(ec2) => Arc::new(ec2.clone()),
        }
    }

    /// Returns the emulated EC2.
    pub(super) fn emulation(&self) -> Option<&FakeCloud> {
        match self {
            Self::Aws(_) => None,
            Self::Kwok(ec2) => Some(ec2),
        }
    }
}

async fn connect_aws(settings: &mut Settings) -> anyhow::Result<aws::AwsCloud> {
    let region = Some(settings.region.clone()).filter(|region| !region.is_empty());
    let endpoint_url = settings.endpoint_url.clone();
    let client = aws::AwsCloud::connect(&aws::Settings { region, endpoint_url, ..aws::Settings::default() }).await;
    let region = client.region().context(
        "the AWS region is unknown: set AWS_REGION (kerf.region of the chart), or let the pod reach instance metadata \
         (a hop limit of 2)",
    )?;
    region.clone_into(&mut settings.region);
    Ok(client)
}
