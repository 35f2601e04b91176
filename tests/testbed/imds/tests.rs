//! Tests of the metadata service with a plain client: the documented codes, every path that an agent reads, every fault.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::tokens::Tokens;
use super::{Facts, Fault, Imds, Interruption};

const TTL: &str = "x-aws-ec2-metadata-token-ttl-seconds";
const TOKEN: &str = "x-aws-ec2-metadata-token";

fn facts() -> Facts {
    Facts {
        instance_id: "i-0001".to_owned(),
        instance_type: "m7g.large".to_owned(),
        architecture: "arm64".to_owned(),
        zone: "us-west-2a".to_owned(),
        region: "us-west-2".to_owned(),
        local_hostname: "ip-10-0-1-7.us-west-2.compute.internal".to_owned(),
        local_ipv4: "10.0.1.7".to_owned(),
        mac: "02:00:0a:00:01:07".to_owned(),
        spot: true,
        user_data: Some(b"\x1f\x8bnot text".to_vec()),
        ..Facts::default()
    }
}

async fn start() -> Result<Imds> {
    Imds::start(IpAddr::V4(Ipv4Addr::new(127, 77, 0, 1)), facts()).await
}

/// Sends one request on its own connection.
async fn ask(imds: &Imds, method: Method, path: &str, headers: &[(&str, &str)]) -> Result<(StatusCode, Bytes)> {
    let stream = TcpStream::connect(imds.address()).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(format!("/latest/{path}")).header("host", "imds");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = sender.send_request(request.body(Empty::<Bytes>::new())?).await.context("no answer")?;
    let status = response.status();
    let body = response.into_body().collect().await.context("no whole body")?.to_bytes();
    driver.abort();
    Ok((status, body))
}

async fn token(imds: &Imds) -> Result<String> {
    let (status, body) = ask(imds, Method::PUT, "api/token", &[(TTL, "60")]).await?;
    assert_eq!(status, StatusCode::OK);
    Ok(String::from_utf8(body.to_vec())?)
}

async fn get(imds: &Imds, token: &str, path: &str) -> Result<(StatusCode, Bytes)> {
    ask(imds, Method::GET, path, &[(TOKEN, token)]).await
}

async fn text(imds: &Imds, token: &str, path: &str) -> Result<String> {
    let (status, body) = get(imds, token, path).await?;
    assert_eq!(status, StatusCode::OK, "{path}");
    Ok(String::from_utf8(body.to_vec())?)
}

async fn json(imds: &Imds, token: &str, path: &str) -> Result<Value> {
    serde_json::from_str(&text(imds, token, path).await?).with_context(|| path.to_owned())
}

#[tokio::test]
async fn issue_rejects_a_token_when_ttl_or_proxy_is_invalid() -> Result<()> {
    let imds = start().await?;
    let rows: [(&[(&str, &str)], u16); 7] = [
        (&[(TTL, "1")], 200),
        (&[(TTL, "21600")], 200),
        (&[(TTL, "0")], 400),
        (&[(TTL, "21601")], 400),
        (&[(TTL, "long")], 400),
        (&[], 400),
        (&[(TTL, "60"), ("x-forwarded-for", "10.0.0.9")], 403),
    ];
    for (headers, expected) in rows {
        let (status, _) = ask(&imds, Method::PUT, "api/token", headers).await?;
        assert_eq!(status.as_u16(), expected, "{headers:?}");
    }
    Ok(())
}

#[tokio::test]
async fn read_requires_a_valid_token() -> Result<()> {
    let imds = start().await?;
    let (status, _) = ask(&imds, Method::GET, "meta-data/instance-id", &[]).await?;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    let token = token(&imds).await?;
    assert_eq!(text(&imds, &token, "meta-data/instance-id").await?, "i-0001");
    imds.expire_tokens();
    assert_eq!(get(&imds, &token, "meta-data/instance-id").await?.0, StatusCode::UNAUTHORIZED);
    imds.update(|facts| facts.disabled = true);
    assert_eq!(ask(&imds, Method::PUT, "api/token", &[(TTL, "60")]).await?.0, StatusCode::FORBIDDEN);
    Ok(())
}

#[test]
fn token_expires_after_its_ttl() {
    let begin = Instant::now();
    let mut tokens = Tokens::default();
    let token = tokens.issue(5, begin).expect("five seconds are allowed");
    assert_eq!(tokens.left(&token, begin + Duration::from_secs(2)), Some(Duration::from_secs(3)));
    assert_eq!(tokens.left(&token, begin + Duration::from_secs(5)), None);
    assert_eq!(tokens.left("another", begin), None);
}

#[tokio::test]
async fn body_returns_every_fact_at_its_path() -> Result<()> {
    let imds = start().await?;
    let token = token(&imds).await?;
    let rows = [
        ("meta-data/instance-type", "m7g.large"),
        ("meta-data/instance-life-cycle", "spot"),
        ("meta-data/local-hostname", "ip-10-0-1-7.us-west-2.compute.internal"),
        ("meta-data/local-ipv4", "10.0.1.7"),
        ("meta-data/mac", "02:00:0a:00:01:07"),
        ("meta-data/placement/availability-zone", "us-west-2a"),
        ("meta-data/placement/region", "us-west-2"),
        ("meta-data/events/maintenance/scheduled", "[]"),
        ("meta-data/network/interfaces/macs/", "02:00:0a:00:01:07/"),
        ("meta-data/network/interfaces/macs/02:00:0a:00:01:07/device-number", "0"),
    ];
    for (path, expected) in rows {
        assert_eq!(text(&imds, &token, path).await?, expected, "{path}");
    }
    assert_eq!(get(&imds, &token, "user-data").await?.1, &b"\x1f\x8bnot text"[..]);
    let identity = json(&imds, &token, "dynamic/instance-identity/document").await?;
    assert_eq!(identity["instanceId"], "i-0001");
    assert_eq!(identity["availabilityZone"], "us-west-2a");
    let absent = ["meta-data/iam/security-credentials/", "meta-data/placement/availability-zone-id", "nonsense"];
    for path in absent {
        assert_eq!(get(&imds, &token, path).await?.0, StatusCode::NOT_FOUND, "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn notice_paths_return_404_until_a_notice_is_set() -> Result<()> {
    let imds = start().await?;
    let token = token(&imds).await?;
    let paths = [
        "meta-data/spot/instance-action",
        "meta-data/spot/termination-time",
        "meta-data/events/recommendations/rebalance",
    ];
    for path in paths {
        assert_eq!(get(&imds, &token, path).await?.0, StatusCode::NOT_FOUND, "{path}");
    }
    imds.update(|facts| {
        let time = "2026-11-21T12:02:00.75Z".parse().expect("a time");
        facts.interruption = Some(Interruption { action: "terminate".to_owned(), time });
        facts.rebalance = Some("2026-11-21T12:00:00Z".parse().expect("a time"));
    });
    let expected = json!({"action": "terminate", "time": "2026-11-21T12:02:00Z"});
    assert_eq!(json(&imds, &token, paths[0]).await?, expected);
    assert_eq!(text(&imds, &token, paths[1]).await?, "2026-11-21T12:02:00Z");
    assert_eq!(json(&imds, &token, paths[2]).await?, json!({"noticeTime": "2026-11-21T12:00:00Z"}));
    Ok(())
}

#[tokio::test]
async fn script_applies_queued_faults_in_order_and_then_stops() -> Result<()> {
    let imds = start().await?;
    let token = token(&imds).await?;
    let path = "meta-data/mac";
    imds.script(path, [Fault::Status(503), Fault::Drop, Fault::CutBody(4)]);
    assert_eq!(get(&imds, &token, path).await?.0, StatusCode::SERVICE_UNAVAILABLE);
    let dropped = get(&imds, &token, path).await.expect_err("the connection was dropped");
    assert_eq!(dropped.to_string(), "no answer");
    let cut = get(&imds, &token, path).await.expect_err("the body was cut");
    assert_eq!(cut.to_string(), "no whole body");
    assert_eq!(text(&imds, &token, path).await?, "02:00:0a:00:01:07");
    imds.always(path, Some(Fault::Status(404)));
    for _ in 0..2 {
        assert_eq!(get(&imds, &token, path).await?.0, StatusCode::NOT_FOUND);
    }
    imds.always(path, None);
    assert_eq!(text(&imds, &token, path).await?, "02:00:0a:00:01:07");
    assert_eq!(imds.requests(path), 7);
    Ok(())
}

#[tokio::test]
async fn script_delays_or_hangs_a_request_when_a_fault_is_queued() -> Result<()> {
    let imds = start().await?;
    let token = token(&imds).await?;
    imds.script("meta-data/mac", [Fault::Delay(Duration::from_millis(200)), Fault::Hang]);
    let begin = Instant::now();
    assert_eq!(text(&imds, &token, "meta-data/mac").await?, "02:00:0a:00:01:07");
    assert!(begin.elapsed() >= Duration::from_millis(200));
    let hanging = tokio::time::timeout(Duration::from_millis(300), get(&imds, &token, "meta-data/mac")).await;
    assert!(hanging.is_err(), "a hanging request was answered");
    Ok(())
}

#[tokio::test]
async fn imds_refuses_connections_when_stopped_and_can_restart() -> Result<()> {
    let imds = start().await?;
    let address = imds.address();
    imds.stop().await;
    assert!(TcpStream::connect(address).await.is_err(), "something still listens");
    let again = Imds::start_at(address, facts()).await?;
    assert_eq!(text(&again, &token(&again).await?, "meta-data/instance-id").await?, "i-0001");
    Ok(())
}
