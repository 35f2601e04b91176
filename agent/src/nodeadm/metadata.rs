//! Instance metadata as a command asks for it that is not started again when it fails: insistently, but not for ever.

use std::time::Duration;

use hyper::body::Bytes;

use crate::imds::backoff::Backoff;
use crate::imds::{IdentityDocument, Imds, ImdsError};

/// How long to insist on an answer of the metadata service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetadataRetries {
    /// How often to ask at most.
    pub attempts: u32,
    /// The waits between.
    pub backoff: Backoff,
}

impl MetadataRetries {
    /// That of EKS's bootstrap: 60 attempts, at most a second apart. Half a minute and more passes before it gives up.
    #[must_use]
    pub const fn nodeadm(seed: u64) -> Self {
        let (start, ceiling) = (Duration::from_millis(100), Duration::from_secs(1));
        Self { attempts: 60, backoff: Backoff { start, ceiling, seed } }
    }
}

/// The metadata service, asked with patience.
#[derive(Debug, Clone, Copy)]
pub struct Metadata<'a> {
    /// The service.
    pub imds: &'a Imds,
    /// How long to insist.
    pub patience: MetadataRetries,
}

impl Metadata<'_> {
    /// Who this instance is.
    ///
    /// # Errors
    /// The last [`ImdsError`] when patience is at its end.
    pub async fn identity(&self) -> Result<IdentityDocument, ImdsError> {
        self.insist(|| self.imds.identity()).await
    }

    /// The primary interface's hardware address.
    ///
    /// # Errors
    /// As [`Metadata::identity`].
    pub async fn mac(&self) -> Result<String, ImdsError> {
        self.insist(|| self.imds.mac()).await
    }

    /// The primary private IPv4 address.
    ///
    /// # Errors
    /// As [`Metadata::identity`].
    pub async fn local_ipv4(&self) -> Result<String, ImdsError> {
        self.insist(|| self.imds.local_ipv4()).await
    }

    /// The first IPv6 address of the interface `mac`; `None` when it has none.
    ///
    /// # Errors
    /// As [`Metadata::identity`].
    pub async fn ipv6(&self, mac: &str) -> Result<Option<String>, ImdsError> {
        self.insist(|| self.imds.ipv6(mac)).await
    }

    /// The user data; `None` when the instance was launched without.
    ///
    /// Early in a boot everything is absent, so absence counts only once the instance's identity is there.
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

    /// An item below `/latest/` that need not exist.
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
    fn half_a_minute_passes_before_it_gives_up() {
        for seed in 0..100 {
            let patience = MetadataRetries::nodeadm(seed);
            let waits: Duration = (0..patience.attempts - 1).map(|attempt| patience.backoff.delay(attempt)).sum();
            assert!(waits > Duration::from_secs(25) && waits < Duration::from_secs(60), "{waits:?}");
        }
    }
}
