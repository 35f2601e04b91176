//! The metadata items that the agent reads, by name. Paths and bodies: EC2 user guide, "Instance metadata categories".

use hyper::body::Bytes;
use serde::Deserialize;

use super::{Imds, ImdsError, plain_text};

/// Greatest length of a name of EC2, in bytes.
const LONGEST_NAME: usize = 64;

/// `dynamic/instance-identity/document`, with the fields that the agent uses.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IdentityDocument {
    /// Instance id, such as `i-0123456789abcdef0`.
    pub instance_id: String,
    /// Instance type, such as `m5.large`.
    pub instance_type: String,
    /// Region, such as `us-west-2`.
    pub region: String,
    /// Zone, such as `us-west-2a`.
    pub availability_zone: String,
}

impl IdentityDocument {
    /// Parses the document; `None` for any other content, and for a document with values that are no names: the values become
    /// parts of paths and of host names.
    #[must_use]
    pub fn read(body: &[u8]) -> Option<Self> {
        let read: Self = machine::document::read_json(body).ok()?;
        let words = [&read.instance_id, &read.instance_type, &read.region, &read.availability_zone];
        let are_names = words.into_iter().all(|word| is_name(word));
        are_names.then_some(read)
    }
}

/// Reports whether the text can be a name of EC2.
fn is_name(word: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    (1..=LONGEST_NAME).contains(&word.len()) && word.bytes().all(allowed)
}

impl Imds {
    /// Returns the identity document of this instance.
    ///
    /// # Errors
    /// [`ImdsError`]; [`ImdsError::Absent`] early in a boot.
    pub async fn identity(&self) -> Result<IdentityDocument, ImdsError> {
        const PATH: &str = "dynamic/instance-identity/document";
        let body = self.get(PATH).await?.ok_or_else(|| ImdsError::Absent { path: PATH.to_owned() })?;
        let content = || ImdsError::Content { path: PATH.to_owned(), expected: "an instance identity document" };
        IdentityDocument::read(&body).ok_or_else(content)
    }

    /// Returns the hardware address of the primary interface.
    ///
    /// # Errors
    /// [`ImdsError`].
    pub async fn mac(&self) -> Result<String, ImdsError> {
        self.required("meta-data/mac", "a hardware address").await
    }

    /// Returns the host names of the instance, at least one: one for each domain name of the VPC's DHCP options, or one without
    /// a domain.
    ///
    /// # Errors
    /// [`ImdsError`].
    pub async fn local_hostnames(&self) -> Result<Vec<String>, ImdsError> {
        let names = self.required("meta-data/local-hostname", "a host name").await?;
        Ok(names.split_whitespace().map(str::to_owned).collect())
    }

    /// Returns the primary private IPv4 address.
    ///
    /// # Errors
    /// [`ImdsError`].
    pub async fn local_ipv4(&self) -> Result<String, ImdsError> {
        self.required("meta-data/local-ipv4", "an IPv4 address").await
    }

    /// Returns the first IPv6 address of the interface `mac`; `None` when the interface has none.
    ///
    /// # Errors
    /// [`ImdsError`].
    pub async fn ipv6(&self, mac: &str) -> Result<Option<String>, ImdsError> {
        let path = format!("meta-data/network/interfaces/macs/{mac}/ipv6s");
        let Some(body) = self.get(&path).await? else {
            return Ok(None);
        };
        let lines = std::str::from_utf8(&body).unwrap_or_default();
        Ok(lines.split_whitespace().next().map(str::to_owned))
    }

    /// Returns `spot`, `on-demand`, `scheduled` or `capacity-block`.
    ///
    /// # Errors
    /// [`ImdsError`].
    pub async fn instance_life_cycle(&self) -> Result<String, ImdsError> {
        self.required("meta-data/instance-life-cycle", "a life cycle").await
    }

    /// Returns the instance's user data; `None` when it was launched without user data.
    ///
    /// # Errors
    /// [`ImdsError`].
    pub async fn user_data(&self) -> Result<Option<Bytes>, ImdsError> {
        self.get("user-data").await
    }

    async fn required(&self, path: &str, expected: &'static str) -> Result<String, ImdsError> {
        let body = self.get(path).await?.ok_or_else(|| ImdsError::Absent { path: path.to_owned() })?;
        plain_text(&body).ok_or_else(|| ImdsError::Content { path: path.to_owned(), expected })
    }
}
