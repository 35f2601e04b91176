//! One HTTP exchange with a server outside of this machine: direct or through a proxy, with or without TLS. hyper-util's client
//! would need a connector for TLS and tunnels, which is most of this file, for two requests in the life of a machine.

use std::path::PathBuf;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::error::Ec2Error;
use super::proxy::{Proxy, Server};
use crate::host::Host;
use crate::host::environment::Environment;
use crate::host::transport::{self, Transport};

/// Greatest size of a response, in bytes; the responses to our requests have a few KiB.
const BODY_LIMIT: usize = 1_048_576;
/// Greatest size of a proxy's response to CONNECT, in bytes; it is a line and a few headers.
const HEAD_LIMIT: usize = 8192;
/// CA bundles of distributions: Amazon Linux and Fedora, Debian and Alpine.
const BUNDLES: [&str; 2] = ["/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/certs/ca-certificates.crt"];

/// Route to a server.
#[derive(Debug)]
pub(super) struct ServerRoute<'a> {
    pub(super) server: &'a Server,
    pub(super) proxy: Option<&'a Proxy>,
    /// CA bundle; read only if the route uses TLS.
    pub(super) bundle: Option<PathBuf>,
}

impl ServerRoute<'_> {
    /// Sends a request whose URI is a path, and returns status and body.
    pub(super) async fn exchange(&self, mut request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), Ec2Error> {
        let stream = self.connect().await?;
        if let Some(proxy) = self.proxy.filter(|_| !self.server.tls) {
            self.address_to(proxy, &mut request);
        }
        let broken = |source| Ec2Error::Broken { server: self.server.authority(true), source };
        let mut sender = transport::speak(stream).await.map_err(broken)?;
        let (head, body) = sender.send_request(request).await.map_err(broken)?.into_parts();
        let body = Limited::new(body, BODY_LIMIT).collect().await;
        let body = body.map_err(|error| self.unreachable(std::io::Error::other(error)))?;
        Ok((head.status, body.to_bytes()))
    }

    /// Writes the server into the URI, which a plain request through a proxy needs.
    fn address_to(&self, proxy: &Proxy, request: &mut Request<Full<Bytes>>) {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        if let Ok(uri) = format!("http://{}{path}", self.server.authority(false)).parse() {
            *request.uri_mut() = uri;
        }
        if let Some(value) = proxy.authorization.as_ref().and_then(|value| value.expose().parse().ok()) {
            request.headers_mut().insert(hyper::header::PROXY_AUTHORIZATION, value);
        }
    }

    async fn connect(&self) -> Result<Transport, Ec2Error> {
        let first = self.proxy.map_or(self.server, |proxy| &proxy.server);
        let stream = TcpStream::connect((first.host.as_str(), first.port)).await;
        let stream = stream.map_err(|source| Ec2Error::Connect { server: first.authority(true), source })?;
        let mut wire: Transport = Box::new(stream);
        if let Some(proxy) = self.proxy {
            if proxy.server.tls {
                wire = self.secure(&proxy.server, wire).await?;
            }
            if self.server.tls {
                self.tunnel(proxy, &mut wire).await?;
            }
        }
        if self.server.tls { self.secure(self.server, wire).await } else { Ok(wire) }
    }

    async fn tunnel(&self, proxy: &Proxy, wire: &mut Transport) -> Result<(), Ec2Error> {
        let server = self.server.authority(true);
        let authorization = proxy.authorization.as_ref();
        let authorization =
            authorization.map_or(String::new(), |value| format!("Proxy-Authorization: {}\r\n", value.expose()));
        let request = format!("CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n{authorization}\r\n");
        let failed = |source| Ec2Error::Connect { server: proxy.server.authority(true), source };
        wire.write_all(request.as_bytes()).await.map_err(failed)?;
        let answer = head(wire).await.map_err(failed)?;
        if answer.split(' ').nth(1) == Some("200") {
            return Ok(());
        }
        Err(Ec2Error::Proxy { proxy: proxy.server.authority(true), server, answer })
    }

    async fn secure(&self, server: &Server, wire: Transport) -> Result<Transport, Ec2Error> {
        let failed = |source| Ec2Error::Connect { server: server.authority(true), source };
        let name = ServerName::try_from(server.host.clone()).map_err(|error| failed(std::io::Error::other(error)))?;
        transport::secure(self.tls()?, name, wire).await.map_err(failed)
    }

    fn tls(&self) -> Result<ClientConfig, Ec2Error> {
        let trust = |problem: String| Ec2Error::Trust { problem };
        let bundle = self.bundle.as_ref().ok_or_else(|| trust("no CA bundle on this machine".to_owned()))?;
        let unreadable = |problem: &dyn std::fmt::Display| trust(format!("{}: {problem}", bundle.display()));
        let pem = std::fs::read(bundle).map_err(|error| unreadable(&error))?;
        let certificates = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok);
        let mut roots = RootCertStore::empty();
        if roots.add_parsable_certificates(certificates).0 == 0 {
            return Err(unreadable(&"no certificate found"));
        }
        let builder = ClientConfig::builder_with_provider(transport::cryptography::provider())
            .with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| trust(error.to_string()))?;
        Ok(builder.with_root_certificates(roots).with_no_client_auth())
    }

    fn unreachable(&self, source: std::io::Error) -> Ec2Error {
        Ec2Error::Connect { server: self.server.authority(true), source }
    }
}

/// Returns the CA bundle: the one that the environment names, else the distribution's.
pub(super) fn bundle(environment: &Environment, host: &Host) -> Option<PathBuf> {
    let named = ["AWS_CA_BUNDLE", "SSL_CERT_FILE"].iter().find_map(|name| environment.get(name));
    named.or_else(|| BUNDLES.into_iter().find(|path| host.exists(path))).map(|path| host.locate(path.as_ref()))
}

/// Reads the head of a response to its end, byte by byte, because the bytes after it belong to the tunnel. Returns its first
/// line.
async fn head(wire: &mut Transport) -> std::io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(wire.read_u8().await?);
        if head.len() > HEAD_LIMIT {
            return Err(std::io::Error::other("the response of the proxy has no end"));
        }
    }
    let head = String::from_utf8_lossy(&head);
    Ok(head.lines().next().unwrap_or_default().to_owned())
}
