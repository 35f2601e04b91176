//! How the SDK is set up: where calls go, how long they may take, how often they are tried.
//!
//! Every call of Kerf may be tried again after an unknown outcome. CreateFleet is tried again by its caller, who must know of
//! each unknown outcome; its client token stays the same, as that of CreateLaunchTemplate over the attempts of one call, so EC2
//! acts once. TerminateInstances, CreateTags and
//! DeleteLaunchTemplate end in the same state however often they happen. So do the calls to IAM and SQS: what a second
//! attempt finds done is an error of its own kind (`AlreadyExists`, `NotFound`), which their callers take for done.

use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{AppName, BehaviorVersion, Region, SdkConfig};
use aws_sdk_ec2::config::Credentials as SdkCredentials;
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};

use crate::pricing::endpoint_region;

/// A TCP and TLS handshake takes less, or the address does not answer at all.
const CONNECT: Duration = Duration::from_secs(3);

/// Keys that are given outright instead of found by the SDK's chain.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Access key id.
    pub access_key_id: String,
    /// Secret access key.
    pub secret_access_key: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Credentials").field("access_key_id", &self.access_key_id).finish_non_exhaustive()
    }
}

/// What the owner of an [`AwsCloud`](crate::AwsCloud) may choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Region, such as `us-west-2`; `None` asks environment, profile and instance metadata.
    pub region: Option<String>,
    /// Where every service answers, such as `http://127.0.0.1:5001`; `None` takes `AWS_ENDPOINT_URL` and its kin, then AWS'.
    pub endpoint_url: Option<String>,
    /// Fixed keys; `None` asks the SDK's default chain.
    pub credentials: Option<Credentials>,
    /// How often one call is tried, the first time included; at least 1. Only throttling, 5xx and lost answers repeat.
    pub attempts: u32,
    /// The longest pause before the second attempt; it doubles from there. The pause is drawn between zero and this.
    pub backoff: Duration,
    /// How long one attempt may take.
    pub attempt_timeout: Duration,
    /// How long a call may take with all its attempts and pauses; pages are calls of their own.
    pub call_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            region: None,
            endpoint_url: None,
            credentials: None,
            attempts: 3,
            backoff: Duration::from_secs(1),
            attempt_timeout: Duration::from_secs(60),
            call_timeout: Duration::from_secs(240),
        }
    }
}

/// The SDK's configuration for `settings`.
pub(crate) async fn load(settings: &Settings) -> SdkConfig {
    let client = Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https();
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(client)
        .retry_config(retries(settings))
        .timeout_config(timeouts(settings));
    if let Ok(name) = AppName::new("kerf") {
        loader = loader.app_name(name);
    }
    if let Some(region) = &settings.region {
        loader = loader.region(Region::new(region.clone()));
    }
    if let Some(url) = &settings.endpoint_url {
        loader = loader.endpoint_url(url);
    }
    if let Some(keys) = &settings.credentials {
        let (id, secret) = (&keys.access_key_id, &keys.secret_access_key);
        loader = loader.credentials_provider(SdkCredentials::new(id, secret, None, None, "settings"));
    }
    loader.load().await
}

/// The same for the price list, which is not served in every region.
pub(crate) fn for_pricing(config: &SdkConfig) -> aws_sdk_pricing::Config {
    let near = config.region().map(|region| Region::new(endpoint_region(region.as_ref())));
    aws_sdk_pricing::config::Builder::from(config).region(near).build()
}

fn retries(settings: &Settings) -> RetryConfig {
    RetryConfig::standard()
        .with_max_attempts(settings.attempts.max(1))
        .with_initial_backoff(settings.backoff)
        .with_max_backoff(settings.backoff * 8)
}

fn timeouts(settings: &Settings) -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(CONNECT)
        .operation_attempt_timeout(settings.attempt_timeout)
        .operation_timeout(settings.call_timeout)
        .build()
}
