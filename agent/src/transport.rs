//! Connections: plain or in TLS, to metadata, API servers and AWS, they are one type to HTTP. Compiled for each kind by itself the
//! same client would be in the program four times.

pub(crate) mod cryptography;

use std::io;
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

/// A stream of bytes in both directions.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection.
pub(crate) type Transport = Box<dyn Stream>;

/// A connection that speaks HTTP/1.1.
pub(crate) type Sender = SendRequest<Full<Bytes>>;

/// What moves a connection's bytes while someone polls it.
pub(crate) type Driver = Connection<TokioIo<Transport>, Full<Bytes>>;

/// Begins to speak HTTP/1.1; the caller drives.
///
/// # Errors
/// What the HTTP library says.
pub(crate) async fn handshake(wire: Transport) -> hyper::Result<(Sender, Driver)> {
    http1::handshake(TokioIo::new(wire)).await
}

/// Begins to speak HTTP/1.1. The driver is a task that ends with the connection.
///
/// # Errors
/// What the HTTP library says.
pub(crate) async fn speak(wire: Transport) -> hyper::Result<Sender> {
    let (sender, driver) = handshake(wire).await?;
    tokio::spawn(async move {
        if let Err(error) = driver.await {
            log::debug!(error:% = error; "connection closed");
        }
    });
    Ok(sender)
}

/// Completes a TLS handshake.
///
/// # Errors
/// What the other side or the checks of its certificate say.
pub(crate) async fn secure(config: ClientConfig, name: ServerName<'static>, wire: Transport) -> io::Result<Transport> {
    Ok(Box::new(TlsConnector::from(Arc::new(config)).connect(name, wire).await?))
}
