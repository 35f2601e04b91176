//! Configuration of the SDK: destination, timeouts and retries of calls.
//!
//! Every call of Kerf may be repeated after an unknown outcome. CreateFleet is repeated by its caller, which must receive each
//! unknown outcome. Its client token remains the same, like that of CreateLaunchTemplate within one call, so EC2 acts once.
//! TerminateInstances, CreateTags and DeleteLaunchTemplate have the same result after any number of calls. The same applies to
//! calls to IAM and SQS: the second attempt returns an error of its own kind (`AlreadyExists`, `NotFound`), which callers treat
//! as success.

use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{AppName, BehaviorVersion, Region, SdkConfig};
use aws_sdk_ec2::config::Credentials as SdkCredentials;
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::http::SharedHttpClient;

use crate::body_limit::LimitedClient;
use crate::pricing::endpoint_region;

/// Timeout of a connection: a TCP and TLS handshake takes less, or the address does not respond at all.
const CONNECT: Duration = Duration::from_secs(3);

/// Static credentials instead of the SDK's credential chain.
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

/// Settings of an [`AwsCloud`](crate::AwsCloud).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Region, such as `us-west-2`; `None` uses environment, profile and instance metadata.
    pub region: Option<String>,
    /// Endpoint of every service, such as `http://127.0.0.1:5001`; `None` uses `AWS_ENDPOINT_URL` and similar variables, then
    /// AWS' own endpoints.
    pub endpoint_url: Option<String>,
    /// Static credentials; `None` uses the SDK's default chain.
    pub credentials: Option<Credentials>,
    /// Maximum number of attempts per call, including the first; at least 1. Only throttling, 5xx and lost responses are
    /// repeated.
    pub attempts: u32,
    /// Maximum pause before the second attempt; the maximum doubles for later ones. The pause is random between zero and the
    /// maximum.
    pub backoff: Duration,
    /// Timeout of one attempt.
    pub attempt_timeout: Duration,
    /// Timeout of a call with all its attempts and pauses; each page is a separate call.
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

/// Returns the SDK's configuration for `settings`.
pub(crate) async fn load(settings: &Settings) -> SdkConfig {
    let client = Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https();
    let client = SharedHttpClient::new(LimitedClient(client));
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

/// Returns the configuration for the price list, which not every region serves.
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
