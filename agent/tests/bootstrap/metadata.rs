//! The IMDS client alone: tokens, kept connections, and every refusal as a value.

use std::time::Duration;

use agent::aws::imds::{Imds, ImdsError};

use crate::imds::{FakeImds, Fault};
use crate::test_host::metadata;

const PATH: &str = "meta-data/mac";

async fn pair() -> (FakeImds, Imds) {
    let fake = FakeImds::start(metadata("")).await;
    let imds = Imds::new(&fake.endpoint, Duration::from_secs(2)).unwrap();
    (fake, imds)
}

#[tokio::test]
async fn imds_reuses_connection_and_token_for_many_requests() {
    let (fake, imds) = pair().await;
    for _ in 0..5 {
        assert_eq!(imds.mac().await.unwrap(), "0e:49:61:0f:c3:11");
        assert_eq!(imds.get("meta-data/nothing").await.unwrap(), None);
    }
    assert_eq!((fake.connections(), fake.tokens()), (1, 1));
}

#[tokio::test]
async fn imds_replaces_token_once_when_it_is_refused() {
    let (fake, imds) = pair().await;
    imds.mac().await.unwrap();
    fake.revoke_token();
    assert_eq!(imds.mac().await.unwrap(), "0e:49:61:0f:c3:11");
    assert_eq!(fake.tokens(), 2);
    fake.fail(PATH, &[Fault::Status(401), Fault::Status(401)]);
    let error = imds.mac().await.unwrap_err();
    assert!(matches!(error, ImdsError::Status { status: 401, .. }), "{error}");
    assert_eq!(imds.mac().await.unwrap(), "0e:49:61:0f:c3:11");
}

#[tokio::test]
async fn imds_renews_token_before_it_expires() {
    let (fake, imds) = pair().await;
    fake.grant_tokens_for(0);
    imds.mac().await.unwrap();
    fake.grant_tokens_for(21_600);
    imds.mac().await.unwrap();
    imds.mac().await.unwrap();
    assert_eq!(fake.tokens(), 2);
}

#[tokio::test]
async fn imds_returns_an_error_and_recovers_when_request_fails() {
    for (fault, expected) in [
        (Fault::Status(403), "IMDS returned 403 for meta-data/mac; enable the instance's metadata service"),
        (Fault::Status(503), "IMDS returned 503 for meta-data/mac; requests are throttled"),
        (Fault::Status(500), "IMDS returned 500 for meta-data/mac; it is retried"),
        (Fault::CloseMidBody, "connection to IMDS closed during meta-data/mac"),
    ] {
        let (fake, imds) = pair().await;
        fake.fail(PATH, &[fault, fault]);
        let error = imds.mac().await.unwrap_err().to_string();
        assert!(error.starts_with(expected), "{fault:?}: {error}");
        while let Err(error) = imds.mac().await {
            assert!(error.to_string().starts_with(expected), "{fault:?}: {error}");
        }
    }
}

#[tokio::test]
async fn imds_error_names_api_token_when_token_is_denied() {
    let (fake, imds) = pair().await;
    fake.fail("api/token", &[Fault::Status(403)]);
    let error = imds.mac().await.unwrap_err().to_string();
    assert!(error.starts_with("IMDS returned 403 for api/token"), "{error}");
}

#[tokio::test]
async fn imds_returns_timeout_when_service_does_not_respond() {
    let fake = FakeImds::start(metadata("")).await;
    let imds = Imds::new(&fake.endpoint, Duration::from_millis(50)).unwrap();
    fake.fail(PATH, &[Fault::Hang]);
    let error = imds.mac().await.unwrap_err();
    assert!(matches!(error, ImdsError::Timeout { .. }), "{error}");
}

#[tokio::test]
async fn imds_reconnects_when_kept_connection_was_closed() {
    let (fake, imds) = pair().await;
    fake.fail(PATH, &[Fault::CloseAfter]);
    imds.mac().await.unwrap();
    assert_eq!(imds.mac().await.unwrap(), "0e:49:61:0f:c3:11");
    assert_eq!((fake.connections(), fake.tokens()), (2, 1));
    fake.fail(PATH, &[Fault::CloseUnanswered]);
    assert_eq!(imds.mac().await.unwrap(), "0e:49:61:0f:c3:11");
    assert_eq!((fake.connections(), fake.tokens()), (3, 1));
}

#[tokio::test]
async fn imds_parses_each_item() {
    let (fake, imds) = pair().await;
    assert_eq!(imds.identity().await.unwrap().availability_zone, "us-west-2f");
    assert_eq!(imds.instance_life_cycle().await.unwrap(), "spot");
    assert_eq!(imds.ipv6("0e:49:61:0f:c3:11").await.unwrap(), None);
    fake.set("meta-data/local-hostname", "ip-1.a.internal ip-1.b.internal\n");
    assert_eq!(imds.local_hostnames().await.unwrap(), ["ip-1.a.internal", "ip-1.b.internal"]);
    fake.remove(PATH);
    assert!(matches!(imds.mac().await, Err(ImdsError::Absent { .. })));
}

#[tokio::test]
async fn imds_new_rejects_invalid_endpoint() {
    for endpoint in ["169.254.169.254", "https://127.0.0.1", "http://", "http://a b"] {
        let error = Imds::new(endpoint, Duration::from_secs(2)).unwrap_err();
        assert!(matches!(error, ImdsError::Endpoint { .. }), "{endpoint}");
    }
}
