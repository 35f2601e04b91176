//! Metadata client for commands that are not restarted after a failure: with many retries, but not forever.

use std::time::Duration;

use hyper::body::Bytes;

use crate::aws::imds::backoff::Backoff;
use crate::aws::imds::{IdentityDocument, Imds, ImdsError};

/// Retry limits of requests to IMDS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetadataRetries {
    /// Greatest number of attempts.
    pub attempts: u32,
    /// Delays between attempts.
    pub backoff: Backoff,
}

impl MetadataRetries {
    /// Returns the limits of EKS's bootstrap: 60 attempts, at most a second apart. The client fails after half a minute or
    /// more.
    #[must_use]
    pub const fn nodeadm(seed: u64) -> Self {
        let (start, ceiling) = (Duration::from_millis(100), Duration::from_secs(1));
        Self { attempts: 60, backoff: Backoff { start, ceiling, seed } }
    }
}

/// Metadata client with retries.
#[derive(Debug, Clone, Copy)]
pub struct Metadata<'a> {
    /// The client.
    pub imds: &'a Imds,
    /// Retry limits.
    pub patience: MetadataRetries,
}

impl Metadata<'_> {
    /// Returns the identity document of this instance.
    ///
    /// # Errors
    /// The last [`ImdsError`] after all attempts.
    pub async fn identity(&self) -> Result<IdentityDocument, ImdsError> {
        self.insist(|| self.imds.identity()).await
    }

    /// Returns the hardware address of the primary interface.
    ///
    /// # Errors
    /// As [`Metadata::identity`].
    pub async fn mac(&self) -> Result<String, ImdsError> {
        self.insist(|| self.imds.mac()).await
    }

    /// Returns the primary private IPv4 address.
    ///
    /// # Errors
    /// As [`Metadata::identity`].
    pub async fn local_ipv4(&self) -> Result<String, ImdsError> {
        self.insist(|| self.imds.local_ipv4()).await
    }

    /// Returns the first IPv6 address of the interface `mac`; `None` when the interface has none.
    ///
    /// # Errors
    /// As [`Metadata::identity`].
    pub async fn ipv6(&self, mac: &str) -> Result<Option<String>, ImdsError> {
        self.insist(|| self.imds.ipv6(mac)).await
    }

    /// Returns the user data; `None` when the instance was launched without user data.
    ///
    /// Early in a boot all items are absent, so absence counts only once the instance's identity exists.
    ///
    /// # Errors
    /// As [`Metadata::identity`].
    pub async fn user_data(&self) -> Result<Option<Bytes>, ImdsError> {
        let mut found = self.insist(|| self.imds.user_data()).await?;
        if found.is_none() {
            self.identity().await?;
            found = self.insist(|| self.imds.user_data()).await?;
        }
        Ok(found)
    }

    /// Returns an item below `/latest/` that is optional.
    ///
    /// # Errors
    /// As [`Metadata::identity`].
    pub async fn optional(&self, path: &str) -> Result<Option<String>, ImdsError> {
        let body = self.insist(|| self.imds.get(path)).await?;
        Ok(body.map(|body| String::from_utf8_lossy(&body).trim().to_owned()))
    }

    async fn insist<T, F: Future<Output = Result<T, ImdsError>>>(&self, ask: impl Fn() -> F) -> Result<T, ImdsError> {
        let mut attempt = 0;
        loop {
            let error = match ask().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if attempt + 1 >= self.patience.attempts {
                return Err(error);
            }
            log::info!(attempt, error = daemon::error::chain(&error).as_str(); "retrying metadata");
            tokio::time::sleep(self.patience.backoff.delay(attempt)).await;
            attempt += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodeadm_retries_for_half_a_minute_before_it_fails() {
        for seed in 0..100 {
            let patience = MetadataRetries::nodeadm(seed);
            let waits: Duration = (0..patience.attempts - 1).map(|attempt| patience.backoff.delay(attempt)).sum();
            assert!(waits > Duration::from_secs(25) && waits < Duration::from_secs(60), "{waits:?}");
        }
    }
}
