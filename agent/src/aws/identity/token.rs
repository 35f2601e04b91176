//! EKS tokens. A token is a signed `GetCallerIdentity` URL of the security token service. The cluster's id is in a signed
//! header, so that a token is valid for one cluster only. EKS sends the request and receives the role.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};

use super::signing::{Keys, Request, Signer};
use super::sts;
use crate::host::secret::Secret;

/// Header that binds a token to its cluster.
pub const CLUSTER_HEADER: &str = "x-k8s-aws-id";
/// Prefix of each token.
pub const PREFIX: &str = "k8s-aws-v1.";
/// Validity in the URL, as `aws eks get-token` writes it; EKS uses the date of the signature.
const EXPIRES: Duration = Duration::from_secs(60);
/// Lifetime of a token. EKS accepts a token for 15 minutes after its signature; the agent treats it as expired one minute
/// earlier.
const LIFE: SignedDuration = SignedDuration::from_mins(14);
/// Age at which a token is replaced, so that none expires in flight.
const RENEW_AT: SignedDuration = SignedDuration::from_mins(12);

/// Cluster that accepts the token, and the endpoint that verifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audience {
    /// Name of the cluster (its id on Outposts).
    pub cluster: String,
    /// Region of the security token service.
    pub region: String,
    /// Use of the FIPS endpoint where the region has one.
    pub fips: bool,
}

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Text after `Bearer `.
    pub text: Secret,
    /// Time of the signature.
    pub signed: Timestamp,
    /// Time at which to sign the next token.
    pub renew: Timestamp,
    /// Time at which the holder must stop using the token.
    pub end: Timestamp,
}

impl Token {
    /// Reports whether the token may still be sent at `now`. A clock that was set back makes the signature lie in the future:
    /// such a token is replaced.
    #[must_use]
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        let life = self.renew.duration_since(self.signed);
        now < self.renew && self.signed.duration_since(now) < life
    }
}

/// Signs a token for `audience` at `now` with these keys, which expire at `keys_end`. Pure: sends no request.
#[must_use]
pub fn sign(audience: &Audience, keys: &Keys, keys_end: Timestamp, now: Timestamp) -> Token {
    let host = sts::host(&audience.region, audience.fips);
    let request = Request {
        method: "GET",
        host: &host,
        path: "/",
        query: &[("Action", "GetCallerIdentity"), ("Version", "2011-06-15")],
        headers: &[(CLUSTER_HEADER, &audience.cluster)],
        body: b"",
    };
    let signer = Signer { keys, region: &audience.region, service: "sts" };
    let url = signer.presigned(&request, EXPIRES, now);
    let text = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(url)).into();
    Token { text, signed: now, renew: (now + RENEW_AT).min(keys_end), end: (now + LIFE).min(keys_end) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    }

    #[test]
    fn sign_returns_an_unpadded_url_of_the_regional_service() {
        let audience = Audience { cluster: "prod".into(), region: "cn-north-1".into(), fips: false };
        let keys = Keys { access_key: "ASIA1".into(), secret_key: "s".into(), session_token: Some("a/b=".into()) };
        let token = sign(&audience, &keys, at(100_000), at(1000));
        let encoded = token.text.expose().strip_prefix(PREFIX).unwrap_or_default();
        assert!(!encoded.is_empty() && !encoded.contains('='), "{}", token.text.expose());
        let url = URL_SAFE_NO_PAD.decode(encoded).unwrap_or_default();
        let url = String::from_utf8(url).unwrap_or_default();
        let start = "https://sts.cn-north-1.amazonaws.com.cn/?Action=GetCallerIdentity&Version=2011-06-15\
                     &X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=ASIA1%2F19700101%2Fcn-north-1%2Fsts%2Faws4_request\
                     &X-Amz-Date=19700101T001640Z&X-Amz-Expires=60&X-Amz-Security-Token=a%2Fb%3D\
                     &X-Amz-SignedHeaders=host%3Bx-k8s-aws-id&X-Amz-Signature=";
        assert!(url.starts_with(start), "{url}");
        assert_eq!(url.len(), start.len() + 64);
        assert_eq!(token.end, at(1000 + 14 * 60));
        assert_eq!(sign(&audience, &keys, at(1300), at(1000)).end, at(1300));
    }

    #[test]
    fn is_fresh_returns_false_near_end_or_when_clock_is_set_back() {
        let token = Token { text: Secret::default(), signed: at(10_000), renew: at(10_720), end: at(10_840) };
        for (now, fresh) in
            [(10_000, true), (10_719, true), (10_720, false), (9_999, true), (9_281, true), (9_280, false)]
        {
            assert_eq!(token.is_fresh(at(now)), fresh, "{now}");
        }
        let short = Token { renew: at(10_300), ..token };
        assert!(short.is_fresh(at(10_299)) && !short.is_fresh(at(10_300)));
    }
}
