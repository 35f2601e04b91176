//! Bearer token of a call: given in the kubeconfig, signed here, or printed by a command. The token is cached until it is old
//! or refused.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Mutex;

use super::access::Credentials;
use super::error::ClusterError;
use super::exec::Command;
use crate::aws::identity::{Audience, Role, Token, token};
use crate::host::secret::Secret;

/// Least age at which a refused token counts as once valid. A new token is then worth an immediate retry.
const WAS_GOOD: SignedDuration = SignedDuration::from_secs(10);

/// Source of tokens.
#[derive(Debug)]
enum Source {
    Nowhere,
    Given(Secret),
    Printed(Command),
    Minted(Audience, Arc<Role>),
}

/// Provider of tokens, with a cache of one token.
#[derive(Debug)]
pub(super) struct Bearer {
    source: Source,
    held: Mutex<Option<Token>>,
}

impl Bearer {
    pub(super) fn new(credentials: &Credentials) -> Self {
        let source = match credentials {
            Credentials::None | Credentials::Certificate { .. } => Source::Nowhere,
            Credentials::Token(token) => Source::Given(token.clone()),
            Credentials::Exec(command) => Source::Printed(command.clone()),
        };
        Self { source, held: Mutex::default() }
    }

    /// Signs tokens here instead of running the command, if the command would print an EKS token.
    pub(super) fn with_role(self, role: Arc<Role>) -> Self {
        let source = match self.source {
            Source::Printed(command) => match command.audience() {
                Some(audience) => Source::Minted(Audience { fips: audience.fips || role.fips(), ..audience }, role),
                None => Source::Printed(command),
            },
            other => other,
        };
        Self { source, ..self }
    }

    /// Returns the token to send at `now`, the corrected time; `None` where calls need no token.
    pub(super) async fn token(&self, now: Timestamp) -> Result<Option<Secret>, ClusterError> {
        if let Source::Nowhere = &self.source {
            return Ok(None);
        }
        let mut held = self.held.lock().await;
        if let Some(token) = held.as_ref().filter(|token| token.is_fresh(now)) {
            return Ok(Some(token.text.clone()));
        }
        let token = match &self.source {
            Source::Nowhere => return Ok(None),
            Source::Given(text) => return Ok(Some(text.clone())),
            Source::Printed(command) => command.token(now).await?,
            Source::Minted(audience, role) => {
                let credentials = role.credentials(now).await.map_err(ClusterError::Credentials)?;
                token::sign(audience, &credentials.keys, credentials.end, now)
            }
        };
        Ok(Some(held.insert(token).text.clone()))
    }

    /// Drops a token that the server has refused. Reports whether a new token may be accepted. A retry is useful if the old
    /// token was not created for this call, or if the clock has been corrected since its creation. `true_now` is the server's
    /// time.
    pub(super) async fn refused(&self, true_now: Timestamp) -> bool {
        let Some(token) = self.held.lock().await.take() else {
            return false;
        };
        if let Source::Minted(_, role) = &self.source {
            role.doubt(true_now).await;
        }
        true_now.duration_since(token.signed).abs() >= WAS_GOOD
    }

    /// Returns the remedy for a refused token, by its source.
    pub(super) fn cure(&self) -> &'static str {
        match &self.source {
            Source::Nowhere => "the client certificate is not valid for this cluster: bootstrap must write another",
            Source::Given(_) => "write another token into the kubeconfig",
            Source::Printed(_) => "the credentials command of the kubeconfig prints no valid token for this cluster",
            Source::Minted(..) => {
                "map the role of the instance to system:node:{{EC2PrivateDNSName}} (an access entry of type \
                 EC2_LINUX), and check the cluster name in the kubeconfig"
            }
        }
    }
}
