//! Stream to the API server that writes nothing after the deadline of its request. The HTTP library writes a request in a task of
//! its own, some time after the request was passed to it. A process that was suspended in between must not write it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::host::clock::SharedDeadline;
use crate::host::transport::Stream;

/// A stream whose writes fail after the deadline.
#[derive(Debug)]
pub(super) struct WriteBefore<S> {
    stream: S,
    deadline: SharedDeadline,
}

impl<S: Stream> WriteBefore<S> {
    pub(super) fn new(stream: S, deadline: SharedDeadline) -> Self {
        Self { stream, deadline }
    }
}

impl<S: Stream> AsyncRead for WriteBefore<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: Stream> AsyncWrite for WriteBefore<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.deadline.get().is_over() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use drain::Millis;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;
    use crate::host::clock::{Clock, ClockOffset};

    #[tokio::test]
    async fn write_fails_when_the_deadline_passed_after_the_request_began() -> io::Result<()> {
        let (ours, mut theirs) = duplex(64);
        let deadline = SharedDeadline::new(ClockOffset::EVER);
        let mut stream = WriteBefore::new(ours, deadline.clone());
        stream.write_all(b"GET").await?;
        deadline.set(Clock::anchored(None).by(Millis(0)));
        let late = stream.write_all(b" /").await;
        assert_eq!(late.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
        deadline.set(ClockOffset::EVER);
        stream.write_all(b"!").await?;
        drop(stream);
        let mut arrived = String::new();
        theirs.read_to_string(&mut arrived).await?;
        assert_eq!(arrived, "GET!");
        Ok(())
    }
}
