//! The bearer token of a call: given, minted here, or printed by a command; kept until it is old or refused.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Mutex;

use super::access::Credentials;
use super::error::ClusterError;
use super::exec::Command;
use crate::identity::{Audience, Role, Token, token};

/// A token that is refused at this age was good once: another is worth trying at once.
const WAS_GOOD: SignedDuration = SignedDuration::from_secs(10);

/// Where tokens come from.
#[derive(Debug)]
enum Source {
    Nowhere,
    Given(String),
    Printed(Command),
    Minted(Audience, Arc<Role>),
}

/// Hands out tokens.
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

    /// Mints what the command would print, if that is an EKS token.
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

    /// The token to send at `now`, true time; `None` where calls carry none.
    pub(super) async fn token(&self, now: Timestamp) -> Result<Option<String>, ClusterError> {
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

    /// The server has refused the token. Says whether another may fare better: this one was not made for the call, or the clock
    /// that it was made by has been corrected since (`true_now` is by the server's).
    pub(super) async fn refused(&self, true_now: Timestamp) -> bool {
        let Some(token) = self.held.lock().await.take() else {
            return false;
        };
        if let Source::Minted(_, role) = &self.source {
            role.doubt(true_now).await;
        }
        true_now.duration_since(token.signed).abs() >= WAS_GOOD
    }

    /// Who a refused token was meant to be for, and what to do about it.
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
