//! AWS Signature Version 4, as far as this agent needs it: signed URLs for tokens, and signed headers for requests. Pure; ring
//! computes the hashes, as it does for TLS. AWS's own signer is not used because its runtime adds 116 KiB to every image. The
//! tests compare this implementation with that signer.

use std::fmt::{self, Write as _};
use std::time::Duration;

use jiff::Timestamp;
use ring::{digest, hmac};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Keys for signatures.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    /// Public part, such as `ASIA...`.
    pub access_key: String,
    /// Secret part.
    pub secret_key: String,
    /// Session token of temporary keys, such as those of a role.
    pub session_token: Option<String>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Keys").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}

/// A request to sign. Names and values are plain text, which the signer encodes.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// `GET`, `POST`, ...
    pub method: &'a str,
    /// Host, with the port unless it is the scheme's default.
    pub host: &'a str,
    /// Absolute path, as it is sent.
    pub path: &'a str,
    /// Parameters of the URL.
    pub query: &'a [(&'a str, &'a str)],
    /// Headers to sign besides `host`, with names in lower case.
    pub headers: &'a [(&'a str, &'a str)],
    /// Bytes of the body.
    pub body: &'a [u8],
}

/// Signer for one service of one region.
#[derive(Debug, Clone, Copy)]
pub struct Signer<'a> {
    /// Keys for signatures.
    pub keys: &'a Keys,
    /// Region, such as `us-west-2`.
    pub region: &'a str,
    /// Service, such as `sts` or `ec2`.
    pub service: &'a str,
}

impl Signer<'_> {
    /// Returns the `https` URL with its signature. Anyone who has the URL can use it, for the duration `valid` from `now`.
    #[must_use]
    pub fn presigned(&self, request: &Request<'_>, valid: Duration, now: Timestamp) -> String {
        let date = date(now);
        let headers = canonical_headers(request, &[]);
        let (credential, seconds) =
            (format!("{}/{}", self.keys.access_key, self.scope(&date)), valid.as_secs().to_string());
        let mut parameters = request.query.to_vec();
        parameters.extend([
            ("X-Amz-Algorithm", ALGORITHM),
            ("X-Amz-Credential", credential.as_str()),
            ("X-Amz-Date", date.as_str()),
            ("X-Amz-Expires", seconds.as_str()),
            ("X-Amz-SignedHeaders", headers.names.as_str()),
        ]);
        parameters.extend(self.keys.session_token.as_deref().map(|token| ("X-Amz-Security-Token", token)));
        let query = canonical_query(&parameters);
        let signature = self.signature(request, &query, &headers, &date);
        format!("https://{}{}?{query}&X-Amz-Signature={signature}", request.host, request.path)
    }

    /// Returns the headers to add to the request: date, session token and signature.
    #[must_use]
    pub fn headers(&self, request: &Request<'_>, now: Timestamp) -> Vec<(&'static str, String)> {
        let date = date(now);
        let mut added = vec![("x-amz-date", date.clone())];
        added.extend(self.keys.session_token.clone().map(|token| ("x-amz-security-token", token)));
        let headers = canonical_headers(request, &added);
        let signature = self.signature(request, &canonical_query(request.query), &headers, &date);
        let (credential, names) = (format!("{}/{}", self.keys.access_key, self.scope(&date)), headers.names);
        let authorization =
            format!("{ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}");
        added.push(("authorization", authorization));
        added
    }

    fn scope(&self, date: &str) -> String {
        format!("{}/{}/{}/aws4_request", &date[..8], self.region, self.service)
    }

    fn signature(&self, request: &Request<'_>, query: &str, headers: &Headers, date: &str) -> String {
        let (method, path, body) = (request.method, request.path, hash(request.body));
        let canonical = format!("{method}\n{path}\n{query}\n{}\n{}\n{body}", headers.lines, headers.names);
        let text = format!("{ALGORITHM}\n{date}\n{}\n{}", self.scope(date), hash(canonical.as_bytes()));
        let secret = format!("AWS4{}", self.keys.secret_key);
        let steps = [&date[..8], self.region, self.service, "aws4_request"];
        let key = steps.iter().fold(secret.into_bytes(), |key, step| authenticate(&key, step));
        hex(&authenticate(&key, &text))
    }
}

/// Headers in their canonical form.
struct Headers {
    /// Sorted `name:value` lines, each with a line end.
    lines: String,
    /// Names, separated by `;`.
    names: String,
}

fn canonical_headers(request: &Request<'_>, added: &[(&'static str, String)]) -> Headers {
    let added = added.iter().map(|(name, value)| (*name, value.as_str()));
    let all = request.headers.iter().copied().chain(added).chain([("host", request.host)]);
    let mut all: Vec<(String, String)> = all.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
    all.sort_unstable();
    let lines = all.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    Headers { lines, names: names.join(";") }
}

fn canonical_query(parameters: &[(&str, &str)]) -> String {
    let mut encoded: Vec<_> = parameters.iter().map(|(name, value)| (encode(name), encode(value))).collect();
    encoded.sort_unstable();
    encoded.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

/// Encodes all characters in percent escapes, except RFC 3986's unreserved characters.
#[must_use]
pub fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing into a `String` cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Returns a date such as `20261121T210600Z`.
fn date(now: Timestamp) -> String {
    format!("{now:.0}").replace(['-', ':'], "")
}

fn authenticate(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

fn hash(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
