//! Check of a bearer token as EKS does it: the rules of aws-iam-authenticator's server, and then those of the security token
//! service, which verifies the signature. AWS's own signer computes the expected signature, so this code is independent of the
//! agent's.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use aws_smithy_runtime_api::client::identity::Identity;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::TimeZone};

/// Longest age of a token's signature; `AHEAD` is how far it may lie in the future.
const MAX_AGE: SignedDuration = SignedDuration::from_mins(15);
const AHEAD: SignedDuration = SignedDuration::from_mins(5);
const PARAMETERS: [&str; 9] = [
    "Action",
    "Version",
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    "X-Amz-Date",
    "X-Amz-Expires",
    "X-Amz-Security-Token",
    "X-Amz-SignedHeaders",
    "X-Amz-Signature",
];

/// Temporary keys that the token service knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Secret key.
    pub secret_key: String,
    /// Session token of the keys.
    pub session_token: String,
    /// End of their validity.
    pub end: Timestamp,
}

/// Token check of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenVerifier {
    /// Name of the cluster.
    pub cluster: String,
    /// Region of the cluster.
    pub region: String,
}

impl TokenVerifier {
    /// Returns the access key that signed the token, verified with its session from `sessions`.
    ///
    /// # Errors
    /// Returns the reason of the rejection, as in a log line of the authenticator.
    pub fn verify(
        &self,
        token: &str,
        now: Timestamp,
        sessions: impl FnOnce(&str) -> Option<Session>,
    ) -> Result<String, String> {
        let url = PresignedUrl::read(token)?;
        url.well_formed(&self.hosts(), now)?;
        let access_key = url.access_key(&self.region)?;
        let session = sessions(&access_key).ok_or("InvalidClientTokenId: no such access key")?;
        if session.end <= now {
            return Err("ExpiredToken: the session has ended".to_owned());
        }
        if url.value("X-Amz-Security-Token") != Some(session.session_token.as_str()) {
            return Err("InvalidClientTokenId: the session token is not this key's".to_owned());
        }
        let expected = url.signature(&access_key, &session, self)?;
        if url.value("X-Amz-Signature") != Some(expected.as_str()) {
            return Err(format!("SignatureDoesNotMatch: not signed with this key for cluster {}", self.cluster));
        }
        Ok(access_key)
    }

    fn hosts(&self) -> [String; 2] {
        ["sts", "sts-fips"].map(|service| format!("{service}.{}.amazonaws.com", self.region))
    }
}

/// URL inside a token.
struct PresignedUrl {
    host: String,
    path: String,
    parameters: BTreeMap<String, String>,
}

impl PresignedUrl {
    fn read(token: &str) -> Result<Self, String> {
        let encoded = token.strip_prefix("k8s-aws-v1.").ok_or("the token lacks the prefix k8s-aws-v1.")?;
        let url = URL_SAFE_NO_PAD.decode(encoded).map_err(|error| format!("not base64url without padding: {error}"))?;
        let url = String::from_utf8(url).map_err(|_| "the token is no text")?;
        let uri: hyper::Uri = url.parse().map_err(|error| format!("the token is no URL: {error}"))?;
        if uri.scheme_str() != Some("https") {
            return Err("the URL is not https".to_owned());
        }
        let mut parameters = BTreeMap::new();
        for pair in uri.query().unwrap_or_default().split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !PARAMETERS.contains(&name) {
                return Err(format!("the parameter {name} is not allowed"));
            }
            if parameters.insert(name.to_owned(), decoded(value)).is_some() {
                return Err(format!("the parameter {name} is repeated"));
            }
        }
        Ok(Self {
            host: uri.authority().map(ToString::to_string).unwrap_or_default(),
            path: uri.path().to_owned(),
            parameters,
        })
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }

    fn well_formed(&self, hosts: &[String], now: Timestamp) -> Result<(), String> {
        if !hosts.contains(&self.host) || self.path != "/" {
            return Err(format!("{}{} is not the region's token service", self.host, self.path));
        }
        if self.value("Action") != Some("GetCallerIdentity") {
            return Err("the action is not GetCallerIdentity".to_owned());
        }
        let headers = self.value("X-Amz-SignedHeaders").unwrap_or_default();
        if !headers.split(';').any(|name| name == "x-k8s-aws-id") {
            return Err("the header x-k8s-aws-id is not signed".to_owned());
        }
        let expires: u64 = self.value("X-Amz-Expires").and_then(|text| text.parse().ok()).unwrap_or(u64::MAX);
        if expires > MAX_AGE.as_secs().unsigned_abs() {
            return Err("X-Amz-Expires is longer than a quarter of an hour".to_owned());
        }
        let age = now.duration_since(self.date()?);
        if age > MAX_AGE || age < -AHEAD {
            return Err(format!("X-Amz-Date is {age:#} ago: the token has expired, or a clock is wrong"));
        }
        Ok(())
    }

    fn date(&self) -> Result<Timestamp, String> {
        let text = self.value("X-Amz-Date").unwrap_or_default();
        let parsed = DateTime::strptime("%Y%m%dT%H%M%SZ", text).and_then(|date| date.to_zoned(TimeZone::UTC));
        parsed.map(|date| date.timestamp()).map_err(|error| format!("X-Amz-Date {text}: {error}"))
    }

    fn access_key(&self, region: &str) -> Result<String, String> {
        let credential = self.value("X-Amz-Credential").unwrap_or_default();
        match credential.split('/').collect::<Vec<_>>().as_slice() {
            [key, _, at, "sts", "aws4_request"] if *at == region => Ok((*key).to_owned()),
            _ => Err(format!("X-Amz-Credential {credential} is not for the token service of {region}")),
        }
    }

    /// Returns the signature of these keys for the same request, with the cluster's own name in the header.
    fn signature(&self, access_key: &str, session: &Session, verifier: &TokenVerifier) -> Result<String, String> {
        let token = Some(session.session_token.clone());
        let identity: Identity = Credentials::new(access_key, &session.secret_key, token, None, "testbed").into();
        let mut settings = SigningSettings::default();
        settings.signature_location = SignatureLocation::QueryParams;
        let expires = self.value("X-Amz-Expires").and_then(|text| text.parse().ok()).unwrap_or_default();
        settings.expires_in = Some(Duration::from_secs(expires));
        let date = SystemTime::from(self.date()?);
        let params = SigningParams::builder().identity(&identity).region(&verifier.region).name("sts").time(date);
        let params = params.settings(settings).build().map_err(|error| error.to_string())?.into();
        let version = self.value("Version").unwrap_or_default();
        let url = format!("https://{}/?Action=GetCallerIdentity&Version={version}", self.host);
        let headers = std::iter::once(("x-k8s-aws-id", verifier.cluster.as_str()));
        let request = SignableRequest::new("GET", url, headers, SignableBody::Bytes(&[]));
        let signed = sign(request.map_err(|error| error.to_string())?, &params).map_err(|error| error.to_string())?;
        Ok(signed.signature().to_owned())
    }
}

/// Decodes percent-encoding; an invalid code is left unchanged.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let code = behind.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        match code.filter(|_| *first == b'%').and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => (bytes.push(byte), rest = &behind[2..]).1,
            None => (bytes.push(*first), rest = behind).1,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
