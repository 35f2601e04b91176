//! One probe of the machine or of one of its ports. The caller limits its time.

use std::path::Path;

use http_body_util::Full;
use hyper::header::{CONNECTION, HOST, USER_AGENT};
use hyper::{Method, Request};
use machine::agent::gates::{HttpTarget, Target};
use tokio::net::{TcpStream, UnixStream};

use super::GateAnswer;
use crate::host::transport;

/// Runs a probe; paths are below the machine's root.
pub(super) async fn ask(root: &Path, target: &Target) -> GateAnswer {
    let below = |path: &str| root.join(path.trim_start_matches('/'));
    let answered = match target {
        Target::File(file) => {
            let there = below(&file.path).exists();
            there.then_some(()).ok_or_else(|| format!("{} does not exist", file.path))
        }
        Target::Socket(socket) => {
            let connected = UnixStream::connect(below(&socket.path)).await;
            connected.map(drop).map_err(|error| format!("{} refuses connections: {error}", socket.path))
        }
        Target::Tcp(port) => {
            let connected = TcpStream::connect((port.host.as_str(), port.port)).await;
            connected.map(drop).map_err(|error| format!("{}:{} refuses connections: {error}", port.host, port.port))
        }
        Target::Http(page) => get(page).await,
    };
    answered.map_or_else(GateAnswer::Fails, |()| GateAnswer::Holds)
}

/// Reports an error unless the page responds with 2xx or 3xx, as kubelet's own probes require.
async fn get(page: &HttpTarget) -> Result<(), String> {
    let url = format!("http://{}:{}{}", page.host, page.port, page.path);
    let status = status(page).await.map_err(|error| format!("GET {url}: {}", daemon::error::chain(error.as_ref())))?;
    if (200..400).contains(&status) { Ok(()) } else { Err(format!("GET {url} returned {status}")) }
}

async fn status(page: &HttpTarget) -> Result<u16, Box<dyn std::error::Error + Send + Sync>> {
    let stream = TcpStream::connect((page.host.as_str(), page.port)).await?;
    let (mut sender, connection) = transport::handshake(Box::new(stream)).await?;
    let mut exchange = std::pin::pin!(async {
        let request = Request::builder()
            .method(Method::GET)
            .uri(&page.path)
            .header(HOST, format!("{}:{}", page.host, page.port))
            .header(USER_AGENT, concat!("kerf-agent/", env!("CARGO_PKG_VERSION")))
            .header(CONNECTION, "close")
            .body(Full::default())?;
        Ok(sender.send_request(request).await?.status().as_u16())
    });
    // The connection is driven here and ends with the response: a probe leaves no task behind.
    tokio::select! {
        status = &mut exchange => status,
        ended = connection => {
            ended?;
            exchange.await
        }
    }
}
