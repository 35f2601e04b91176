//! Signatures of the agent, compared with those of AWS's own signer for random requests. One different byte makes a request
//! invalid.
#![expect(clippy::expect_used, reason = "a failed assumption should fail the test")]

use std::time::{Duration, SystemTime};

use agent::aws::identity::signing::{Keys, Request, Signer, encode};
use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PercentEncodingMode, SignableBody, SignableRequest, SignatureLocation, SigningInstructions, SigningSettings, sign,
};
use aws_sigv4::sign::v4::SigningParams;
use aws_smithy_runtime_api::client::identity::Identity;
use jiff::Timestamp;
use proptest::prelude::*;

#[derive(Debug, Clone)]
struct Case {
    keys: Keys,
    query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    seconds: i64,
}

fn case() -> impl Strategy<Value = Case> {
    let text = "[a-zA-Z0-9 /+=:.~_&%é-]{0,12}";
    let keys = ("[A-Z0-9]{16,20}", "[a-zA-Z0-9/+]{40}", prop::option::of("[a-zA-Z0-9/+=]{1,80}"));
    let keys = keys.prop_map(|(access_key, secret_key, session_token)| Keys { access_key, secret_key, session_token });
    let query = prop::collection::btree_map("[a-zA-Z][a-zA-Z0-9.]{0,6}", text, 0..5);
    let headers = prop::collection::btree_map("x-[a-z0-9-]{1,8}", "[a-zA-Z0-9._/-]{1,12}", 0..4);
    let body = prop::collection::vec(any::<u8>(), 0..40);
    (keys, query, headers, body, 0_i64..4_000_000_000).prop_map(|(keys, query, headers, body, seconds)| Case {
        keys,
        query: query.into_iter().collect(),
        headers: headers.into_iter().collect(),
        body,
        seconds,
    })
}

fn pairs(owned: &[(String, String)]) -> Vec<(&str, &str)> {
    owned.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// Signs the same request with AWS's signer.
fn sign_with_sdk(case: &Case, url: &str, place: SignatureLocation) -> SigningInstructions {
    let keys = &case.keys;
    let identity: Identity =
        Credentials::new(&keys.access_key, &keys.secret_key, keys.session_token.clone(), None, "test").into();
    let mut settings = SigningSettings::default();
    settings.expires_in = (place == SignatureLocation::QueryParams).then(|| Duration::from_secs(60));
    settings.signature_location = place;
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(case.seconds.unsigned_abs());
    let params = SigningParams::builder().identity(&identity).region("us-west-2").name("sts").time(at);
    let params = params.settings(settings).build().expect("complete parameters").into();
    let headers = pairs(&case.headers);
    let request = SignableRequest::new("POST", url, headers.into_iter(), SignableBody::Bytes(&case.body));
    sign(request.expect("a request that can be signed"), &params).expect("a signature").into_parts().0
}

fn encoded(query: &[(String, String)]) -> String {
    let parts: Vec<String> = query.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    parts.join("&")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn signer_returns_the_signatures_of_the_aws_signer(case in case()) {
        let (query, headers) = (pairs(&case.query), pairs(&case.headers));
        let request = Request {
            method: "POST", host: "sts.example.com", path: "/", query: &query, headers: &headers, body: &case.body,
        };
        let signer = Signer { keys: &case.keys, region: "us-west-2", service: "sts" };
        let now = Timestamp::from_second(case.seconds).expect("a moment");
        let plain = encoded(&case.query);
        let url = if plain.is_empty() { "https://sts.example.com/".to_owned() } else { format!("https://sts.example.com/?{plain}") };

        let ours: std::collections::BTreeMap<_, _> = signer.headers(&request, now).into_iter().collect();
        let theirs = sign_with_sdk(&case, &url, SignatureLocation::Headers);
        let theirs = theirs.headers().map(|(name, value)| (name, value.to_owned())).collect();
        prop_assert_eq!(ours, theirs);

        let ours = signer.presigned(&request, Duration::from_secs(60), now);
        let theirs = sign_with_sdk(&case, &url, SignatureLocation::QueryParams);
        let signature = theirs.params().iter().find(|(name, _)| *name == "X-Amz-Signature").expect("a signature");
        prop_assert!(ours.ends_with(&format!("&X-Amz-Signature={}", signature.1)), "{}", ours);
        for (name, value) in theirs.params() {
            let pair = format!("{name}={}", encode(value));
            prop_assert!(ours.contains(&pair), "{} lacks {}", ours, pair);
        }
    }
}
