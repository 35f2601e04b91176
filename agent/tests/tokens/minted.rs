//! The client with the role of the instance: the tokens that it sends, their renewal, and its errors when a token is refused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agent::aws::identity::Role;
use agent::aws::imds::Imds;
use agent::cluster::{Access, Cluster, Command, Credentials};
use agent::host::clock::ClockOffset;
use hyper::Method;
use jiff::{SignedDuration, Timestamp};

use super::verifier::{Session, TokenVerifier};
use crate::api::{Api, status};
use crate::imds::{FakeImds, Fault};

const ROLES: &str = "meta-data/iam/security-credentials/";
const KEYS: &str = "meta-data/iam/security-credentials/node";

fn document(secret: &str, end: Timestamp) -> String {
    format!(
        r#"{{"Code":"Success","AccessKeyId":"ASIA1","SecretAccessKey":"{secret}","Token":"t/{secret}","Expiration":"{end}"}}"#
    )
}

fn in_hours(hours: i64) -> Timestamp {
    Timestamp::now() + SignedDuration::from_hours(hours)
}

async fn metadata(secret: &str) -> FakeImds {
    let items = [(ROLES.to_owned(), b"node".to_vec()), (KEYS.to_owned(), document(secret, in_hours(6)).into_bytes())];
    FakeImds::start(BTreeMap::from(items)).await
}

fn client(api: &Api, imds: &FakeImds, args: &[&str]) -> Cluster {
    let port = api.url.rsplit(':').next().unwrap().parse().unwrap();
    let args = args.iter().map(|word| (*word).to_owned()).collect();
    let credentials = Credentials::Exec(Command { command: "/nowhere/aws".into(), args, env: None });
    let access = Access { tls: false, host: "127.0.0.1".into(), port, authority: None, credentials };
    let imds = Imds::new(&imds.endpoint, Duration::from_secs(2)).unwrap();
    Cluster::new(access, Duration::from_secs(5)).with_role(Arc::new(Role::new(Arc::new(imds))))
}

const GET_TOKEN: [&str; 6] = ["eks", "get-token", "--cluster-name", "prod", "--region", "us-west-2"];

async fn evict(cluster: &Cluster) -> Result<(), agent::cluster::ClusterError> {
    cluster.evict("default", "pod-a", "a", None, ClockOffset::EVER).await
}

/// Returns the tokens of the evictions so far.
fn sent(api: &Api) -> Vec<String> {
    let sent = api.requests(&Method::POST, "/api/v1/namespaces/default/pods/pod-a/eviction");
    sent.iter().map(|it| it.authorization.strip_prefix("Bearer ").unwrap_or_default().to_owned()).collect()
}

fn verify(token: &str, secret: &str, now: Timestamp) -> Result<String, String> {
    let session = Session { secret_key: secret.into(), session_token: format!("t/{secret}"), end: in_hours(6) };
    TokenVerifier { cluster: "prod".into(), region: "us-west-2".into() }.verify(token, now, |_| Some(session))
}

#[tokio::test]
async fn client_signs_token_without_aws_cli_and_reuses_it() {
    let (api, imds) = (Api::start().await, metadata("one").await);
    api.put_pod("a", 30);
    api.script("a", [status(429), status(429)]);
    let cluster = client(&api, &imds, &GET_TOKEN);
    for _ in 0..2 {
        assert_eq!(evict(&cluster).await.unwrap_err().status(), Some(429));
    }
    let sent = sent(&api);
    assert_eq!(verify(&sent[0], "one", Timestamp::now()).as_deref(), Ok("ASIA1"));
    assert_eq!(sent[0], sent[1]);
}

#[tokio::test]
async fn client_names_the_access_entry_when_token_is_refused() {
    let (api, imds) = (Api::start().await, metadata("one").await);
    api.put_pod("a", 30);
    api.script("a", [status(401)]);
    let refused = evict(&client(&api, &imds, &GET_TOKEN)).await.unwrap_err();
    assert_eq!(refused.status(), Some(401));
    let message = refused.to_string();
    assert!(message.contains("access entry of type EC2_LINUX") && !message.contains("clock"), "{message}");
    assert_eq!(sent(&api).len(), 1);
}

#[tokio::test]
async fn client_corrects_clock_by_date_header_when_refused() {
    let (api, imds) = (Api::start().await, metadata("one").await);
    imds.set(KEYS, document("one", in_hours(60)));
    api.put_pod("a", 30);
    let theirs = Timestamp::now() + SignedDuration::from_hours(20);
    api.state().date = Some(theirs.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string());
    api.script("a", [status(401), status(429), status(401)]);
    let cluster = client(&api, &imds, &GET_TOKEN);
    assert_eq!(evict(&cluster).await.unwrap_err().status(), Some(429), "tried again at once with the right time");
    let sent = sent(&api);
    assert_eq!(sent.len(), 2);
    assert!(verify(&sent[0], "one", Timestamp::now()).is_ok());
    let verifier = TokenVerifier { cluster: "prod".into(), region: "us-west-2".into() };
    let session = Session { secret_key: "one".into(), session_token: "t/one".into(), end: in_hours(60) };
    assert_eq!(verifier.verify(&sent[1], theirs, |_| Some(session)).as_deref(), Ok("ASIA1"));
    let message = evict(&cluster).await.unwrap_err().to_string();
    assert!(message.contains("the clock, it is 20h behind the API server's"), "{message}");
}

#[tokio::test]
async fn client_names_the_instance_profile_when_role_is_absent() {
    let (api, imds) = (Api::start().await, metadata("one").await);
    api.put_pod("a", 30);
    imds.fail(ROLES, &[Fault::Status(404)]);
    let cluster = client(&api, &imds, &GET_TOKEN);
    let message = daemon::error::chain(&evict(&cluster).await.unwrap_err());
    assert!(message.contains("cannot create a token") && message.contains("attach an instance profile"), "{message}");
    assert_eq!(sent(&api).len(), 0);
    evict(&cluster).await.unwrap();
    assert_eq!(sent(&api).len(), 1);
}

#[tokio::test]
async fn client_runs_credentials_command_with_extra_arguments() {
    let (api, imds) = (Api::start().await, metadata("one").await);
    let words = [GET_TOKEN.as_slice(), &["--profile", "other-of-kerf-tests"]].concat();
    let message = client(&api, &imds, &words).node("n").await.unwrap_err().to_string();
    assert!(message.contains("the credentials command `/nowhere/aws`"), "{message}");
}

#[tokio::test]
async fn role_renews_keys_before_expiry_and_tolerates_imds_errors() {
    let imds = metadata("one").await;
    let client = Arc::new(Imds::new(&imds.endpoint, Duration::from_secs(2)).unwrap());
    let role = Role::new(client);
    let now = Timestamp::now();
    let secret = async |at: i64| role.credentials(now + SignedDuration::from_mins(at)).await.unwrap().keys.secret_key;
    assert_eq!(secret(0).await, "one");
    imds.set(KEYS, document("two", in_hours(12)));
    assert_eq!(secret(354).await, "one", "good for six minutes");
    imds.fail(ROLES, &[Fault::Status(503)]);
    assert_eq!(secret(356).await, "one", "metadata is out of order");
    assert_eq!(secret(357).await, "two");
}

#[tokio::test]
async fn token_command_prints_exec_credential_of_kubelet() {
    let imds = metadata("one").await;
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_kerf-agent"));
    command.args(["token", "--cluster-name", "prod", "--region", "us-west-2", "--imds", &imds.endpoint]);
    let output = command.env_remove("NOTIFY_SOCKET").output().await.unwrap();
    let credential: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(credential["apiVersion"], "client.authentication.k8s.io/v1beta1");
    let token = credential["status"]["token"].as_str().unwrap();
    assert_eq!(verify(token, "one", Timestamp::now()).as_deref(), Ok("ASIA1"));
    let end: Timestamp = credential["status"]["expirationTimestamp"].as_str().unwrap().parse().unwrap();
    assert!(end > Timestamp::now() + SignedDuration::from_mins(13), "{end}");

    imds.remove(ROLES);
    let output = command.output().await.unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && message.contains("attach an instance profile"), "{message}");
}
