//! Connections, plain or with TLS, to IMDS, API servers and AWS, as one type for HTTP. A separate type for each kind would
//! compile the same client into the program four times.

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

/// Sender of HTTP/1.1 requests on a connection.
pub(crate) type Sender = SendRequest<Full<Bytes>>;

/// Driver that transfers a connection's bytes while it is polled.
pub(crate) type Driver = Connection<TokioIo<Transport>, Full<Bytes>>;

/// Starts HTTP/1.1 on a connection; the caller polls the driver.
///
/// # Errors
/// The error of the HTTP library.
pub(crate) async fn handshake(wire: Transport) -> hyper::Result<(Sender, Driver)> {
    http1::handshake(TokioIo::new(wire)).await
}

/// Starts HTTP/1.1 on a connection. The driver is a task that ends with the connection.
///
/// # Errors
/// The error of the HTTP library.
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
/// The error of the peer, or of the validation of its certificate.
pub(crate) async fn secure(config: ClientConfig, name: ServerName<'static>, wire: Transport) -> io::Result<Transport> {
    Ok(Box::new(TlsConnector::from(Arc::new(config)).connect(name, wire).await?))
}
