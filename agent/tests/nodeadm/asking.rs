//! Requests of the agent to EC2: content, retries and proxies.

use std::sync::Arc;
use std::time::Duration;

use agent::aws::ec2::{Ec2, Ec2Error, Ec2Retries};
use agent::host::environment::Environment;
use agent::nodeadm::Machine;
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

use super::ec2::{FakeEc2, Fault, NAME, Proxy};
use super::fixture::Fixture;
use crate::imds::Fault as ImdsFault;

const INSTANCE: &str = "i-1234567890abcdef0";

async fn name(machine: &Machine) -> Result<String, Ec2Error> {
    let ec2 = Ec2::new("us-west-2", &machine.environment, &machine.host, Arc::clone(&machine.imds), machine.ec2);
    ec2.private_dns_name(INSTANCE).await
}

#[tokio::test]
async fn private_dns_name_sends_one_signed_request() {
    let fixture = Fixture::new("").await;
    assert_eq!(name(&fixture.machine()).await.unwrap(), NAME);
    let requests = fixture.ec2.requests();
    assert_eq!(requests.len(), 1);
    let request = requests[0].to_lowercase();
    assert!(request.starts_with("post / http/1.1\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\naction=describeinstances&version=2016-11-15&instanceid.1=i-1234567890abcdef0"));
    for part in [
        format!("host: {}\r\n", fixture.ec2.address),
        "content-type: application/x-www-form-urlencoded; charset=utf-8\r\n".to_owned(),
        "authorization: aws4-hmac-sha256 credential=akidtest/".to_owned(),
        "/us-west-2/ec2/aws4_request, signedheaders=content-type;host;x-amz-date, signature=".to_owned(),
    ] {
        assert!(request.contains(&part), "{part} is not in {request}");
    }
    assert!(!request.contains("security-token"));
}

#[tokio::test]
async fn private_dns_name_retries_when_fault_is_transient() {
    let fixture = Fixture::new("").await;
    let faults = [
        Fault::Refuse(400, "InvalidInstanceID.NotFound"),
        Fault::Unnamed,
        Fault::Refuse(503, "RequestLimitExceeded"),
        Fault::Refuse(500, "InternalError"),
        Fault::Refuse(400, "Throttling"),
        Fault::Close,
        Fault::Unnamed,
    ];
    fixture.ec2.fail(&faults);
    assert_eq!(name(&fixture.machine()).await.unwrap(), NAME);
    assert_eq!(fixture.ec2.requests().len(), faults.len() + 1);
}

#[tokio::test]
async fn private_dns_name_fails_at_once_when_fault_is_permanent() {
    for (fault, words) in [
        (
            Fault::Refuse(403, "UnauthorizedOperation"),
            "EC2 returned 403 UnauthorizedOperation to DescribeInstances: words",
        ),
        (Fault::Refuse(401, "AuthFailure"), "EC2 returned 401 AuthFailure to DescribeInstances: words of EC2"),
        (Fault::Html, "EC2 did not return instances to DescribeInstances"),
    ] {
        let fixture = Fixture::new("").await;
        fixture.ec2.fail(&[fault]);
        let error = name(&fixture.machine()).await.unwrap_err().to_string();
        assert!(error.starts_with(words), "{error}");
        assert_eq!(fixture.ec2.requests().len(), 1);
    }
}

#[tokio::test]
async fn private_dns_name_gives_up_when_name_never_appears() {
    let fixture = Fixture::new("").await;
    fixture.ec2.fail(&vec![Fault::Unnamed; 10_000]);
    let mut machine = fixture.machine();
    machine.ec2.limit = Duration::from_millis(100);
    let error = name(&machine).await.unwrap_err();
    assert!(matches!(&error, Ec2Error::Unnamed { instance, .. } if instance == INSTANCE), "{error}");
    assert!(fixture.ec2.requests().len() > 1);
}

/// EKS's own test case 1. The real retry settings prove its minutes, faster settings prove its attempts.
#[tokio::test]
async fn private_dns_name_gives_up_after_aws_max_attempts() {
    for seed in 0..50 {
        let patience = Ec2Retries::nodeadm(seed);
        let attempts = |value: Option<&str>| {
            let variable = value.map(|value| ("AWS_MAX_ATTEMPTS".to_owned(), value.to_owned()));
            patience.attempts_in(&variable.into_iter().collect::<Environment>())
        };
        let once = patience.shortest(attempts(Some("1")).unwrap());
        assert!(once >= Duration::from_secs(30) && once <= Duration::from_secs(35), "{once:?}");
        assert!(patience.shortest(attempts(None).unwrap()) > Duration::from_secs(120));
        assert!(attempts(Some("0")).is_err() && attempts(Some("many")).is_err());
    }
    for (variable, attempts) in [(Some("1"), 1), (Some("4"), 4), (None, 30)] {
        let mut fixture = Fixture::new("").await;
        fixture.ec2.fail(&vec![Fault::Close; 40]);
        if let Some(value) = variable {
            fixture.set("AWS_MAX_ATTEMPTS", value);
        }
        let error = name(&fixture.machine()).await.unwrap_err();
        assert!(matches!(error, Ec2Error::Broken { .. }), "{error}");
        assert_eq!(fixture.ec2.requests().len(), attempts);
    }
    let mut fixture = Fixture::new("").await;
    fixture.ec2.hang();
    fixture.set("AWS_MAX_ATTEMPTS", "2");
    let mut machine = fixture.machine();
    machine.ec2.exchange = Duration::from_millis(100);
    let error = name(&machine).await.unwrap_err();
    assert!(matches!(error, Ec2Error::Timeout { .. }), "{error}");
}

#[tokio::test]
async fn ec2_signs_with_role_when_environment_has_no_keys() {
    let mut fixture = Fixture::new("").await;
    fixture.environment.remove("AWS_ACCESS_KEY_ID");
    let path = "meta-data/iam/security-credentials/";
    fixture.imds.set(path, "node-role");
    fixture.imds.set(
        &format!("{path}node-role"),
        r#"{"Code":"Success","AccessKeyId":"ASIAROLE","SecretAccessKey":"s","Token":"session","Expiration":"2099-01-01T00:00:00Z"}"#,
    );
    fixture.imds.fail(path, &[ImdsFault::Status(404), ImdsFault::Status(503)]);
    assert_eq!(name(&fixture.machine()).await.unwrap(), NAME);
    let request = fixture.ec2.requests().remove(0);
    assert!(request.contains("Credential=ASIAROLE/") && request.contains("x-amz-security-token: session"), "{request}");
    fixture.imds.set(&format!("{path}node-role"), r#"{"Code":"AssumeRoleUnauthorizedAccess"}"#);
    let error = format!("{:#}", anyhow::Error::from(name(&fixture.machine()).await.unwrap_err()));
    assert!(error.starts_with("no credentials for EC2: no credentials for role node-role"), "{error}");
}

#[tokio::test]
async fn interface_limits_returns_limits_of_default_network_card() {
    let fixture = Fixture::new("").await;
    let machine = fixture.machine();
    let ec2 = Ec2::new("us-west-2", &machine.environment, &machine.host, Arc::clone(&machine.imds), machine.ec2);
    let cards = "<defaultNetworkCardIndex>1</defaultNetworkCardIndex><ipv4AddressesPerInterface>50</ipv4AddressesPerInterface>\
        <maximumNetworkInterfaces>22</maximumNetworkInterfaces><networkCards>\
        <item><maximumNetworkInterfaces>7</maximumNetworkInterfaces><networkCardIndex>0</networkCardIndex></item>\
        <item><maximumNetworkInterfaces>15</maximumNetworkInterfaces><networkCardIndex>1</networkCardIndex></item></networkCards>";
    fixture.ec2.set_instance_types(cards);
    let limits = ec2.interface_limits("mock-type.large").await.unwrap();
    assert_eq!((limits.interfaces, limits.ipv4_per_interface), (15, 50));
    assert!(
        fixture.ec2.requests()[0]
            .ends_with("Action=DescribeInstanceTypes&Version=2016-11-15&InstanceType.1=mock-type.large")
    );
    fixture.ec2.set_instance_types("<maximumNetworkInterfaces>many</maximumNetworkInterfaces>");
    assert!(matches!(ec2.interface_limits("mock-type.large").await, Err(Ec2Error::Content { .. })));
}

#[tokio::test]
async fn ec2_sends_http_request_through_http_proxy() {
    let mut fixture = Fixture::new("").await;
    let proxy = Proxy::before(&fixture.ec2.address, Some("Basic dXNlcjpwQHNz")).await;
    fixture.set("AWS_ENDPOINT_URL", "http://ec2.test:5000");
    fixture.set("HTTP_PROXY", &proxy.url.replace("http://", "http://user:p%40ss@"));
    assert_eq!(name(&fixture.machine()).await.unwrap(), NAME);
    assert_eq!(proxy.seen(), ["POST http://ec2.test:5000/ HTTP/1.1"]);
    assert!(fixture.ec2.requests()[0].to_lowercase().contains("host: ec2.test:5000\r\n"));
}

/// Returns a self-signed certificate for `name` as PEM, and a TLS acceptor that uses it.
fn certificate(name: &str) -> (String, TlsAcceptor) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = builder.with_single_cert(vec![certificate.der().clone()], private).unwrap();
    (certificate.pem(), TlsAcceptor::from(Arc::new(config)))
}

#[tokio::test]
async fn ec2_tunnels_tls_through_proxy_and_checks_ca_bundle() {
    let (pem, acceptor) = certificate("ec2.us-west-2.amazonaws.com");
    let secure = FakeEc2::with_tls(Some(acceptor)).await;
    let proxy = Proxy::before(&secure.address, None).await;
    let mut fixture = Fixture::new("").await;
    fixture.environment.remove("AWS_ENDPOINT_URL");
    fixture.set("https_proxy", &proxy.url);
    fixture.set("AWS_MAX_ATTEMPTS", "1");
    let error = name(&fixture.machine()).await.unwrap_err();
    assert!(matches!(error, Ec2Error::Trust { .. }), "{error}");
    fixture.test_host.write("etc/ssl/certs/ca-certificates.crt", &certificate("ec2.us-west-2.amazonaws.com").0);
    let error = name(&fixture.machine()).await.unwrap_err();
    assert!(matches!(error, Ec2Error::Connect { .. }), "{error}");
    fixture.test_host.write("etc/ssl/certs/ca-certificates.crt", &pem);
    proxy.seen();
    assert_eq!(name(&fixture.machine()).await.unwrap(), NAME);
    assert_eq!(proxy.seen(), ["CONNECT ec2.us-west-2.amazonaws.com:443 HTTP/1.1"]);
    fixture.test_host.write("own.pem", "no certificate");
    fixture.set("AWS_CA_BUNDLE", "/own.pem");
    let error = name(&fixture.machine()).await.unwrap_err().to_string();
    assert!(error.contains("own.pem: no certificate found"), "{error}");
}

#[tokio::test]
async fn ec2_error_names_the_proxy_when_proxy_refuses() {
    let mut fixture = Fixture::new("").await;
    let proxy = Proxy::before(&fixture.ec2.address, Some("Basic other")).await;
    fixture.environment.remove("AWS_ENDPOINT_URL");
    fixture.set("HTTPS_PROXY", &proxy.url);
    fixture.set("AWS_MAX_ATTEMPTS", "2");
    let error = name(&fixture.machine()).await.unwrap_err().to_string();
    assert!(error.contains("cannot connect to ec2.us-west-2.amazonaws.com:443: `HTTP/1.1 407"), "{error}");
    assert_eq!(proxy.seen().len(), 2);
    fixture.set("HTTPS_PROXY", "socks5://127.0.0.1:1");
    let error = name(&fixture.machine()).await.unwrap_err().to_string();
    assert!(error.starts_with("invalid value of HTTPS_PROXY in the environment"), "{error}");
}

#[tokio::test]
async fn ec2_bypasses_proxy_when_endpoint_is_loopback() {
    let mut fixture = Fixture::new("").await;
    let proxy = Proxy::before(&fixture.ec2.address, None).await;
    fixture.set("HTTP_PROXY", &proxy.url);
    assert_eq!(name(&fixture.machine()).await.unwrap(), NAME);
    assert_eq!(proxy.seen(), Vec::<String>::new());
}
