//! The token verifier alone: the tokens that it accepts, and every error of a token.

use agent::aws::identity::signing::{Keys, Request, Signer};
use agent::aws::identity::{Audience, token};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

use super::verifier::{Session, TokenVerifier};

fn noon() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

fn after(seconds: i64) -> Timestamp {
    noon() + SignedDuration::from_secs(seconds)
}

fn keys() -> Keys {
    Keys { access_key: "ASIAKERF".into(), secret_key: "secret/1+".into(), session_token: Some("a/b+c==".into()) }
}

fn known(key: &str) -> Option<Session> {
    let session = Session { secret_key: "secret/1+".into(), session_token: "a/b+c==".into(), end: after(21_600) };
    (key == "ASIAKERF").then_some(session)
}

fn audience(cluster: &str, region: &str) -> Audience {
    Audience { cluster: cluster.into(), region: region.into(), fips: false }
}

fn verify(token: &str, now: Timestamp) -> Result<String, String> {
    TokenVerifier { cluster: "prod".into(), region: "us-west-2".into() }.verify(token, now, known)
}

fn signed(audience: &Audience, keys: &Keys) -> String {
    token::sign(audience, keys, after(21_600), noon()).text.expose().to_owned()
}

#[test]
fn verifier_accepts_agent_token_for_15_minutes() {
    let token = signed(&audience("prod", "us-west-2"), &keys());
    for now in [-300, 0, 60, 900] {
        assert_eq!(verify(&token, after(now)).as_deref(), Ok("ASIAKERF"), "{now}");
    }
    for now in [-301, 901] {
        assert!(verify(&token, after(now)).unwrap_err().contains("X-Amz-Date"), "{now}");
    }
    let fips = Audience { fips: true, ..audience("prod", "us-west-2") };
    assert_eq!(verify(&signed(&fips, &keys()), noon()).as_deref(), Ok("ASIAKERF"));
}

#[test]
fn verifier_names_every_error_of_a_token() {
    let good = signed(&audience("prod", "us-west-2"), &keys());
    let url = String::from_utf8(URL_SAFE_NO_PAD.decode(&good["k8s-aws-v1.".len()..]).unwrap()).unwrap();
    let encoded = |url: &str| format!("k8s-aws-v1.{}", URL_SAFE_NO_PAD.encode(url));
    let forged = Keys { secret_key: "guess".into(), ..keys() };
    let stranger = Keys { access_key: "ASIAOTHER".into(), ..keys() };
    let old = Keys { session_token: Some("old".into()), ..keys() };
    let host = "sts.us-west-2.amazonaws.com";
    let unbound =
        Request { method: "GET", host, path: "/", query: &[("Action", "GetCallerIdentity")], headers: &[], body: b"" };
    let unbound = Signer { keys: &keys(), region: "us-west-2", service: "sts" }.presigned(
        &unbound,
        Duration::from_secs(60),
        noon(),
    );
    let rows = [
        (signed(&audience("stage", "us-west-2"), &keys()), "SignatureDoesNotMatch"),
        (signed(&audience("prod", "us-west-2"), &forged), "SignatureDoesNotMatch"),
        (encoded(&url.replace("Version=2011-06-15", "Version=2011-06-16")), "SignatureDoesNotMatch"),
        (signed(&audience("prod", "us-west-2"), &stranger), "no such access key"),
        (signed(&audience("prod", "us-west-2"), &old), "not this key's"),
        (signed(&audience("prod", "eu-west-1"), &keys()), "is not the region's token service"),
        (encoded(&unbound), "x-k8s-aws-id is not signed"),
        (encoded(&url.replace("GetCallerIdentity", "AssumeRole")), "the action is not"),
        (encoded(&format!("{url}&DurationSeconds=9")), "DurationSeconds is not allowed"),
        (encoded(&format!("{url}&Action=GetCallerIdentity")), "Action is repeated"),
        (encoded(&url.replace("https", "http")), "not https"),
        (format!("{good}="), "without padding"),
        ("eyJhbGciOi".to_owned(), "lacks the prefix"),
    ];
    for (token, why) in rows {
        let message = verify(&token, noon()).unwrap_err();
        assert!(message.contains(why), "{why}: {message}");
    }
    let ended = TokenVerifier { cluster: "prod".into(), region: "us-west-2".into() };
    let ended = ended.verify(&good, after(600), |key| Some(Session { end: after(600), ..known(key).unwrap() }));
    assert!(ended.unwrap_err().contains("ExpiredToken"));
}
