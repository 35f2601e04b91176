//! Completes the lifecycle hook of the machine's Auto Scaling group. The call needs a permission of its own in the instance's
//! role, so it is only made where the settings name a lifecycle hook.

use std::sync::Arc;
use std::time::Duration;

use machine::agent::notices::LifecycleHook;
use thiserror::Error;

use super::{Ec2, Ec2Error, Ec2Retries, Service};
use crate::aws::imds::{Imds, ImdsError};
use crate::host::Host;
use crate::host::environment::Environment;

const AUTO_SCALING: Service =
    Service { name: "autoscaling", version: "2011-01-01", endpoint: "AWS_ENDPOINT_URL_AUTO_SCALING" };
const GROUP: &str = "meta-data/tags/instance/aws:autoscaling:groupName";
/// Attempts of one call; few, because the caller retries.
const ATTEMPTS: u32 = 2;

/// Reasons why the lifecycle hook was not completed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CompleteError {
    /// IMDS does not return the identity or the tags of the instance.
    #[error("metadata has no instance id or Auto Scaling group")]
    Metadata(#[from] ImdsError),
    /// Neither settings nor tags name the group.
    #[error("unknown Auto Scaling group; set `notices.autoScaling.complete.group`, or allow tags in metadata")]
    NoGroup,
    /// The call failed.
    #[error("cannot complete the lifecycle hook; the role needs autoscaling:CompleteLifecycleAction")]
    Call(#[from] Ec2Error),
}

/// Completes the lifecycle hook of this machine's group, so that the group may terminate the instance.
///
/// # Errors
/// [`CompleteError`]; a later retry is safe.
pub async fn complete(
    imds: Arc<Imds>,
    environment: &Environment,
    host: &Host,
    hook: &LifecycleHook,
) -> Result<(), CompleteError> {
    let identity = imds.identity().await?;
    let group = match &hook.group {
        Some(group) => group.clone(),
        None => tagged(&imds).await?.ok_or(CompleteError::NoGroup)?,
    };
    let patience = Ec2Retries { exchange: Duration::from_secs(10), attempts: ATTEMPTS, ..Ec2Retries::nodeadm(0) };
    let client = Ec2 { service: AUTO_SCALING, ..Ec2::new(&identity.region, environment, host, imds, patience) };
    let parameters = [
        ("AutoScalingGroupName", group.as_str()),
        ("InstanceId", identity.instance_id.as_str()),
        ("LifecycleActionResult", "CONTINUE"),
        ("LifecycleHookName", hook.hook.as_str()),
    ];
    client.call("CompleteLifecycleAction", &parameters).await?;
    log::info!(
        group = group.as_str(), hook = hook.hook.as_str();
        "completed the lifecycle hook, the Auto Scaling group may terminate this instance"
    );
    Ok(())
}

async fn tagged(imds: &Imds) -> Result<Option<String>, ImdsError> {
    let body = imds.get(GROUP).await?;
    let text = body.map(|body| String::from_utf8_lossy(&body).trim().to_owned());
    Ok(text.filter(|text| !text.is_empty()))
}
