//! CompleteLifecycleAction, the only call of the agent to the Auto Scaling API: the instance may be terminated.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agent::aws::ec2::auto_scaling::{CompleteError, complete};
use agent::aws::imds::Imds;
use agent::host::Host;
use agent::host::environment::Environment;
use machine::agent::notices::LifecycleHook;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::imds::FakeImds;

const TAG: &str = "meta-data/tags/instance/aws:autoscaling:groupName";

async fn metadata() -> (FakeImds, Arc<Imds>) {
    let identity =
        r#"{"instanceId":"i-1","instanceType":"m5.large","region":"us-west-2","availabilityZone":"us-west-2a"}"#;
    let items = [("dynamic/instance-identity/document", identity)];
    let items: BTreeMap<_, _> =
        items.iter().map(|(path, body)| ((*path).to_owned(), body.as_bytes().to_vec())).collect();
    let fake = FakeImds::start(items).await;
    let imds = Arc::new(Imds::new(&fake.endpoint, Duration::from_secs(2)).unwrap());
    (fake, imds)
}

/// Answers one request; returns the request.
async fn answer(listener: TcpListener, status: &'static str, body: &'static str) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut asked = Vec::new();
    while !String::from_utf8_lossy(&asked).contains("LifecycleHookName=") {
        asked.push(stream.read_u8().await.unwrap());
    }
    let mut rest = [0; 64];
    let read = stream.read(&mut rest).await.unwrap();
    asked.extend(&rest[..read]);
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    String::from_utf8(asked).unwrap()
}

async fn complete_action(
    status: &'static str,
    body: &'static str,
    group: Option<&str>,
) -> (Result<(), CompleteError>, String) {
    let (fake, imds) = metadata().await;
    fake.set(TAG, "the group");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let variables = [
        ("AWS_ENDPOINT_URL_AUTO_SCALING", format!("http://{}", listener.local_addr().unwrap())),
        ("AWS_ACCESS_KEY_ID", "AKIA".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
    ];
    let environment: Environment = variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let hook = LifecycleHook { hook: "drain".into(), group: group.map(str::to_owned) };
    let root = tempfile::tempdir().unwrap();
    let host = Host::new(root.path(), "");
    let (done, asked) = tokio::join!(complete(imds, &environment, &host, &hook), answer(listener, status, body));
    (done, asked)
}

#[tokio::test]
async fn complete_uses_group_of_settings_or_instance_tag() {
    for (group, expected) in [(None, "the%20group"), (Some("mine"), "mine")] {
        let (done, asked) = complete_action("200 OK", "<CompleteLifecycleActionResponse/>", group).await;
        done.unwrap();
        let body = asked.rsplit("\r\n").next().unwrap();
        let expected = format!(
            "Action=CompleteLifecycleAction&Version=2011-01-01&AutoScalingGroupName={expected}&InstanceId=i-1\
             &LifecycleActionResult=CONTINUE&LifecycleHookName=drain"
        );
        assert_eq!(body, expected);
        assert!(asked.to_lowercase().contains("/us-west-2/autoscaling/aws4_request"), "{asked}");
    }
}

#[tokio::test]
async fn complete_names_the_error_code_when_aws_refuses() {
    let body = "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>not you</Message></Error></ErrorResponse>";
    let (done, _) = complete_action("403 Forbidden", body, None).await;
    let error = daemon::error::chain(&done.unwrap_err());
    assert!(error.contains("AccessDenied") && error.contains("autoscaling:CompleteLifecycleAction"), "{error}");
}

#[tokio::test]
async fn complete_names_the_setting_when_group_is_unknown() {
    let (_fake, imds) = metadata().await;
    let hook = LifecycleHook { hook: "drain".into(), group: None };
    let host = Host::new("/nonexistent", "");
    let error = complete(imds, &Environment::default(), &host, &hook).await.unwrap_err();
    assert!(error.to_string().contains("notices.autoScaling.complete.group"), "{error}");
}
