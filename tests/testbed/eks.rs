//! Token authentication of EKS: a webhook that the API server calls for every bearer token, and the role sessions that the fake
//! IMDS returns to machines. A token is valid only with the signature of a session that was issued here, for this cluster, in
//! time.
//!
//! A session stands for one instance: its role is mapped to `system:node:NAME`, as an access entry of type EC2_LINUX does it.

mod token_verifier;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::{SignedDuration, Timestamp};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

pub use token_verifier::{Session, TokenVerifier};

use crate::controlplane::{Component, Options};
use crate::kubeconfig::install_tls;
use crate::pki::{Authority, write_private};
use crate::process::RunFolder;

const PATH: &str = "/authenticate";
const ACCOUNT: &str = "123456789012";
/// Duration of a session, as on EC2.
const SESSION: SignedDuration = SignedDuration::from_hours(6);

/// Role of every machine in the tests.
pub const ROLE: &str = "kerf-node";

/// Credentials in the form of IMDS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleKeys {
    /// Access key id.
    pub access_key: String,
    /// Secret key, session token and end.
    pub session: Session,
}

/// Token authentication of a cluster. Dropping it stops it; the API server then accepts no token.
#[derive(Debug)]
pub struct Eks {
    folder: RunFolder,
    address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    verifier: TokenVerifier,
    issued: Mutex<BTreeMap<String, Issued>>,
    ahead: Mutex<SignedDuration>,
    results: Mutex<Vec<TokenResult>>,
}

#[derive(Clone, Debug)]
struct Issued {
    session: Session,
    instance: String,
    node: String,
}

/// Result for one token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenResult {
    /// Authenticated user, or the reason of the rejection.
    pub user: Result<String, String>,
}

impl Eks {
    /// Listens on loopback for `cluster` in `region`.
    ///
    /// # Errors
    /// Returns an error if no port is free or the certificate cannot be created.
    pub async fn start(cluster: &str, region: &str) -> Result<Self> {
        install_tls();
        let authority = Authority::create()?;
        let acceptor = acceptor(&authority)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("cannot listen for token reviews")?;
        let address = listener.local_addr()?;
        let folder = RunFolder::create("eks")?;
        let config = webhook_config(address, authority.certificate());
        write_private(&folder.path().join("webhook.kubeconfig"), &config)?;
        let verifier = TokenVerifier { cluster: cluster.to_owned(), region: region.to_owned() };
        let shared =
            Arc::new(Shared { verifier, issued: Mutex::default(), ahead: Mutex::default(), results: Mutex::default() });
        let server = tokio::spawn(accept(listener, acceptor, Arc::clone(&shared)));
        Ok(Self { folder, address, shared, server })
    }

    /// Adds the webhook to the options of a control plane. The API server caches its responses for one second only.
    #[must_use]
    pub fn with_webhook(&self, options: Options) -> Options {
        let config = self.folder.path().join("webhook.kubeconfig");
        options
            .with_flag(
                Component::ApiServer,
                &format!("--authentication-token-webhook-config-file={}", config.display()),
            )
            .with_flag(Component::ApiServer, "--authentication-token-webhook-version=v1")
            .with_flag(Component::ApiServer, "--authentication-token-webhook-cache-ttl=1s")
    }

    /// Returns the cluster's name and region.
    #[must_use]
    pub fn verifier(&self) -> &TokenVerifier {
        &self.shared.verifier
    }

    /// Issues a session of the instance's role. From now on, the cluster maps it and the instance's earlier sessions to
    /// `system:node:NODE`.
    pub fn issue(&self, instance: &str, node: &str) -> RoleKeys {
        let mut issued = lock(&self.shared.issued);
        let access_key = format!("ASIAKERF{:08}{}", issued.len() + 1, instance.trim_start_matches("i-").to_uppercase());
        let session = Session {
            secret_key: format!("secret/of+{access_key}"),
            session_token: STANDARD.encode(format!("session of {instance}, number {}", issued.len() + 1)),
            end: Timestamp::now() + SESSION,
        };
        let known = Issued { session: session.clone(), instance: instance.to_owned(), node: node.to_owned() };
        issued.insert(access_key.clone(), known);
        RoleKeys { access_key, session }
    }

    /// Removes every session of the instance, as when its role is removed.
    pub fn revoke(&self, instance: &str) {
        lock(&self.shared.issued).retain(|_, known| known.instance != instance);
    }

    /// Sets how far the clock of the token check is ahead of the real one.
    pub fn set_ahead(&self, ahead: SignedDuration) {
        *lock(&self.shared.ahead) = ahead;
    }

    /// Returns the results of all tokens so far, in order.
    #[must_use]
    pub fn results(&self) -> Vec<TokenResult> {
        lock(&self.shared.results).clone()
    }

    /// Returns the address of the webhook.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Eks {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn acceptor(authority: &Authority) -> Result<TlsAcceptor> {
    let server = authority.server()?;
    let chain = vec![CertificateDer::from_pem_slice(server.certificate.as_bytes()).context("our own certificate")?];
    let key = PrivateKeyDer::from_pem_slice(server.key.as_bytes()).context("our own key")?;
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Returns the webhook's kubeconfig for the API server: URL and certificate authority.
fn webhook_config(address: SocketAddr, authority: &str) -> String {
    let document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "eks", "cluster": {
            "server": format!("https://{address}{PATH}"),
            "certificate-authority-data": STANDARD.encode(authority),
        }}],
        "users": [{"name": "apiserver"}],
        "contexts": [{"name": "webhook", "context": {"cluster": "eks", "user": "apiserver"}}],
        "current-context": "webhook",
    });
    format!("{document:#}\n")
}

/// Accepts connections forever; they end with this future.
async fn accept(listener: TcpListener, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                let (acceptor, shared) = (acceptor.clone(), Arc::clone(&shared));
                connections.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request| answer(Arc::clone(&shared), request));
                    // A client may close its connection.
                    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
                });
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let token = review["spec"]["token"].as_str().unwrap_or_default();
    let now = Timestamp::now() + *lock(&shared.ahead);
    let verified = shared.verify(token, now);
    let user = verified.as_ref().map(|(_, known)| format!("system:node:{}", known.node)).map_err(Clone::clone);
    lock(&shared.results).push(TokenResult { user });
    let answer = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "status": status(verified),
    });
    let mut response = Response::new(Full::new(Bytes::from(answer.to_string())));
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    Ok(response)
}

impl Shared {
    fn verify(&self, token: &str, now: Timestamp) -> Result<(String, Issued), String> {
        let find = |key: &str| lock(&self.issued).get(key).cloned();
        let key = self.verifier.verify(token, now, |key| find(key).map(|known| known.session))?;
        let known = find(&key).ok_or("the session was revoked")?;
        Ok((key, known))
    }
}

fn status(verified: Result<(String, Issued), String>) -> Value {
    match verified {
        Err(error) => json!({"authenticated": false, "error": error}),
        Ok((access_key, known)) => {
            let session = format!("arn:aws:sts::{ACCOUNT}:assumed-role/{ROLE}/{}", known.instance);
            json!({"authenticated": true, "user": {
                "username": format!("system:node:{}", known.node),
                "uid": format!("aws-iam-authenticator:{ACCOUNT}:AROAKERF"),
                "groups": ["system:bootstrappers", "system:nodes"],
                "extra": {
                    "accessKeyId": [access_key],
                    "arn": [session],
                    "canonicalArn": [format!("arn:aws:iam::{ACCOUNT}:role/{ROLE}")],
                    "principalId": ["AROAKERF"],
                    "sessionName": [known.instance],
                },
            }})
        }
    }
}
