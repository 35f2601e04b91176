//! One connection to the system bus: authentication, calls one at a time, and the signals between them.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd as _, RawFd};
use std::path::PathBuf;
use std::time::Duration;

use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use nix::unistd::{Uid, close};
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::LogindError;
use super::wire::{Argument, Call, Message, WireError, decode, encode, length};

const BUS: &str = "org.freedesktop.DBus";
const BUS_PATH: &str = "/org/freedesktop/DBus";
/// Time limit for the response to one call.
const PATIENCE: Duration = Duration::from_secs(5);
/// Greatest number of signals that are kept during a call; the bus sends only the signals of our subscription.
const KEPT: usize = 16;
/// Greatest length of a line of the greeting, in bytes.
const LINE: usize = 512;

/// The connection.
pub(super) struct Bus {
    stream: UnixStream,
    path: PathBuf,
    serial: u32,
    bytes: Vec<u8>,
    /// Received descriptors that belong to no message yet.
    descriptors: VecDeque<Lock>,
    signals: VecDeque<Message>,
}

/// A file descriptor that represents a lock; closing it releases the lock.
#[derive(Debug)]
pub(super) struct Lock(RawFd);

impl Drop for Lock {
    fn drop(&mut self) {
        if let Err(error) = close(self.0) {
            log::warn!(error:% = error; "cannot close a file descriptor of the bus");
        }
    }
}

/// A response, with its file descriptor.
pub(super) struct BusReply {
    pub(super) message: Message,
    pub(super) descriptor: Option<Lock>,
}

impl Bus {
    /// Connects, authenticates and receives a name on the bus.
    pub(super) async fn connect(path: PathBuf) -> Result<Self, LogindError> {
        let stream = UnixStream::connect(&path).await;
        let stream = stream.map_err(|source| LogindError::Bus { path: path.clone(), source })?;
        let mut bus =
            Self { stream, path, serial: 0, bytes: Vec::new(), descriptors: VecDeque::new(), signals: VecDeque::new() };
        let greeting = timeout(PATIENCE, bus.greet()).await;
        greeting.map_err(|_| LogindError::Silent { member: "AUTH", timeout: PATIENCE })??;
        bus.call(BUS, BUS_PATH, BUS, "Hello", &[]).await?;
        Ok(bus)
    }

    pub(super) async fn add_match(&mut self, rule: &str) -> Result<(), LogindError> {
        self.call(BUS, BUS_PATH, BUS, "AddMatch", &[rule]).await.map(|_| ())
    }

    /// Calls a method and waits for its response; signals that arrive before it are kept.
    pub(super) async fn call(
        &mut self,
        destination: &str,
        path: &str,
        interface: &str,
        member: &'static str,
        arguments: &[&str],
    ) -> Result<BusReply, LogindError> {
        self.serial = self.serial.wrapping_add(1).max(1);
        let call = Call { serial: self.serial, destination, path, interface, member, arguments };
        self.send(&encode(&call)).await?;
        let answer = timeout(PATIENCE, self.answer(member)).await;
        answer.map_err(|_| LogindError::Silent { member, timeout: PATIENCE })?
    }

    /// Returns the next signal.
    pub(super) async fn signal(&mut self) -> Result<Message, LogindError> {
        loop {
            if let Some(signal) = self.signals.pop_front() {
                return Ok(signal);
            }
            let answer = self.message().await?;
            self.keep(answer.message);
        }
    }

    async fn answer(&mut self, member: &'static str) -> Result<BusReply, LogindError> {
        loop {
            let answer = self.message().await?;
            let message = &answer.message;
            match message.kind {
                2 if message.answers == self.serial => return Ok(answer),
                3 if message.answers == self.serial => {
                    let text = message.arguments.first();
                    let text =
                        text.and_then(|it| if let Argument::Text(text) = it { Some(text.clone()) } else { None });
                    return Err(LogindError::Refused {
                        member,
                        name: answer.message.error,
                        message: text.unwrap_or_default(),
                    });
                }
                _ => {
                    self.keep(answer.message);
                }
            }
        }
    }

    fn keep(&mut self, message: Message) {
        if message.kind == 4 && self.signals.len() < KEPT {
            self.signals.push_back(message);
        }
    }

    /// Sends the greeting of D-Bus's specification: the user id, which the kernel attests, and the support for file
    /// descriptors.
    async fn greet(&mut self) -> Result<(), LogindError> {
        let user: String = Uid::effective().to_string().bytes().map(|digit| format!("{digit:02x}")).collect();
        self.send(format!("\0AUTH EXTERNAL {user}\r\n").as_bytes()).await?;
        self.expect("OK").await?;
        self.send(b"NEGOTIATE_UNIX_FD\r\n").await?;
        self.expect("AGREE_UNIX_FD").await?;
        self.send(b"BEGIN\r\n").await
    }

    async fn expect(&mut self, word: &str) -> Result<(), LogindError> {
        loop {
            if let Some(end) = self.bytes.windows(2).position(|pair| pair == b"\r\n") {
                let line: Vec<u8> = self.bytes.drain(..end + 2).collect();
                let expected = line.starts_with(word.as_bytes());
                return if expected { Ok(()) } else { Err(WireError { problem: "a refused greeting", at: 0 }.into()) };
            }
            if self.bytes.len() > LINE {
                return Err(WireError { problem: "a greeting without end", at: LINE }.into());
            }
            self.receive().await?;
        }
    }

    /// Returns the next whole message.
    async fn message(&mut self) -> Result<BusReply, LogindError> {
        loop {
            if let Some(end) = length(&self.bytes)?.filter(|end| *end <= self.bytes.len()) {
                let bytes: Vec<u8> = self.bytes.drain(..end).collect();
                let message = decode(&bytes)?;
                let carries = message.arguments.iter().any(|it| matches!(it, Argument::Descriptor(_)));
                let descriptor = if carries { self.descriptors.pop_front() } else { None };
                return Ok(BusReply { message, descriptor });
            }
            self.receive().await?;
        }
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), LogindError> {
        self.stream.write_all(bytes).await.map_err(|source| self.broken(source))
    }

    async fn receive(&mut self) -> Result<(), LogindError> {
        let read = self.stream.async_io(Interest::READABLE, || receive(self.stream.as_raw_fd())).await;
        let (bytes, descriptors) = read.map_err(|source| self.broken(source))?;
        if bytes.is_empty() {
            return Err(self.broken(io::ErrorKind::UnexpectedEof.into()));
        }
        self.bytes.extend(bytes);
        self.descriptors.extend(descriptors);
        Ok(())
    }

    fn broken(&self, source: io::Error) -> LogindError {
        LogindError::Bus { path: self.path.clone(), source }
    }
}

/// Reads the available bytes, with their file descriptors.
fn receive(socket: RawFd) -> io::Result<(Vec<u8>, Vec<Lock>)> {
    let mut bytes = vec![0; 4096];
    let mut space = cmsg_space!([RawFd; 4]);
    let mut slices = [IoSliceMut::new(&mut bytes)];
    let message = recvmsg::<()>(socket, &mut slices, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)?;
    let count = message.bytes;
    let mut descriptors = Vec::new();
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(more) = control {
            descriptors.extend(more.into_iter().map(Lock));
        }
    }
    bytes.truncate(count);
    Ok((bytes, descriptors))
}
