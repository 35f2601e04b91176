//! One HTTP/1.1 connection to IMDS.

use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::{HeaderMap, Method, Request, StatusCode};
use tokio::net::TcpStream;

use super::ImdsError;
use crate::host::transport::{self, Sender};

/// Greatest size of a response, in bytes. User data has 16 KiB, identity documents and credentials about 1 KiB.
const BODY_LIMIT: usize = 262_144;

#[derive(Debug)]
pub(super) struct Connection {
    sender: Sender,
}

/// Request for an item of IMDS, with its one header.
pub(super) struct ImdsRequest<'a> {
    pub(super) method: Method,
    /// Path of the item, below `/latest/`.
    pub(super) path: &'a str,
    pub(super) header: &'static str,
    /// Value of the header.
    pub(super) value: &'a str,
}

#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Reply {
    /// Returns the time of the `Date` header, if the header is valid.
    pub(super) fn date(&self) -> Option<jiff::Timestamp> {
        crate::host::clock::date(&self.headers)
    }
}

impl Connection {
    pub(super) async fn open(authority: &str) -> Result<Self, ImdsError> {
        let unreachable = |source| ImdsError::Connect { endpoint: authority.to_owned(), source };
        let stream = TcpStream::connect(authority).await.map_err(unreachable)?;
        let broken = |source| ImdsError::Broken { path: String::new(), source };
        Ok(Self { sender: transport::speak(Box::new(stream)).await.map_err(broken)? })
    }

    pub(super) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    pub(super) async fn send(&mut self, request: &ImdsRequest<'_>, host: &str) -> Result<Reply, ImdsError> {
        let path = request.path;
        let broken = |source| ImdsError::Broken { path: path.to_owned(), source };
        let malformed = |_| ImdsError::Content { path: path.to_owned(), expected: "a usable token" };
        let request = Request::builder()
            .method(request.method.clone())
            .uri(format!("/latest/{path}"))
            .header("host", host)
            .header(request.header, request.value)
            .body(Full::default())
            .map_err(malformed)?;
        self.sender.ready().await.map_err(broken)?;
        let (head, body) = self.sender.send_request(request).await.map_err(broken)?.into_parts();
        let body = Limited::new(body, BODY_LIMIT).collect().await.map_err(|error| body_error(path, error))?;
        Ok(Reply { status: head.status, headers: head.headers, body: body.to_bytes() })
    }
}

fn body_error(path: &str, error: Box<dyn std::error::Error + Send + Sync>) -> ImdsError {
    let path = path.to_owned();
    match error.downcast::<hyper::Error>() {
        Ok(source) => ImdsError::Broken { path, source: *source },
        Err(error) if error.is::<LengthLimitError>() => ImdsError::TooLong { path, limit: BODY_LIMIT },
        Err(_) => ImdsError::Content { path, expected: "a whole body" },
    }
}
