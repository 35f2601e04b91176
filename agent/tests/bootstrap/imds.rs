//! Metadata service with a script: the real rules of IMDSv2 (tokens, 401, 404), and faults in order, each once.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Fault of one response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Response with this status and without a body.
    Status(u16),
    /// No response until the client closes the connection.
    Hang,
    /// Half of the response, then a closed connection.
    CloseMidBody,
    /// A whole response, then a closed connection without notice.
    CloseAfter,
    /// Connection closed on receipt of the request, like one that was idle for too long.
    CloseUnanswered,
}

#[derive(Debug)]
struct Script {
    items: BTreeMap<String, Vec<u8>>,
    faults: BTreeMap<String, VecDeque<Fault>>,
    valid_token: Option<String>,
    token_ttl: u64,
    tokens: usize,
    connections: usize,
}

/// Running fake of IMDS; stops when dropped.
#[derive(Debug)]
pub struct FakeImds {
    /// Endpoint URL for the client.
    pub endpoint: String,
    script: Arc<Mutex<Script>>,
    seen: watch::Receiver<Vec<String>>,
    server: JoinHandle<()>,
}

impl Drop for FakeImds {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl FakeImds {
    /// Serves `items` (path below `/latest/` to body) on an ephemeral loopback port.
    pub async fn start(items: BTreeMap<String, Vec<u8>>) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), items)
    }

    /// Serves `items` on the given socket.
    pub fn on(listener: TcpListener, items: BTreeMap<String, Vec<u8>>) -> Self {
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let script = Arc::new(Mutex::new(Script {
            items,
            faults: BTreeMap::new(),
            valid_token: None,
            token_ttl: 21_600,
            tokens: 0,
            connections: 0,
        }));
        let (saw, seen) = watch::channel(Vec::new());
        let server = tokio::spawn(accept(listener, Arc::clone(&script), Arc::new(saw)));
        Self { endpoint, script, seen, server }
    }

    /// Sets or replaces an item.
    pub fn set(&self, path: &str, body: impl Into<Vec<u8>>) {
        self.script.lock().unwrap().items.insert(path.to_owned(), body.into());
    }

    /// Removes an item.
    pub fn remove(&self, path: &str) {
        self.script.lock().unwrap().items.remove(path);
    }

    /// Makes the next requests for `path` fail with `faults`, in order; later requests succeed.
    pub fn fail(&self, path: &str, faults: &[Fault]) {
        self.script.lock().unwrap().faults.entry(path.to_owned()).or_default().extend(faults);
    }

    /// Grants each later token for `seconds`.
    pub fn grant_tokens_for(&self, seconds: u64) {
        self.script.lock().unwrap().token_ttl = seconds;
    }

    /// Revokes the granted token.
    pub fn revoke_token(&self) {
        self.script.lock().unwrap().valid_token = None;
    }

    /// Returns the number of tokens granted so far.
    pub fn tokens(&self) -> usize {
        self.script.lock().unwrap().tokens
    }

    /// Returns the number of connections accepted so far.
    pub fn connections(&self) -> usize {
        self.script.lock().unwrap().connections
    }

    /// Waits until the fake has received `times` more requests for `path`.
    pub async fn asked(&self, path: &str, times: usize) {
        let count = |seen: &Vec<String>| seen.iter().filter(|asked| *asked == path).count();
        let target = count(&self.seen.borrow()) + times;
        self.seen.clone().wait_for(|seen| count(seen) >= target).await.unwrap();
    }
}

type Saw = Arc<watch::Sender<Vec<String>>>;

async fn accept(listener: TcpListener, script: Arc<Mutex<Script>>, saw: Saw) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        script.lock().unwrap().connections += 1;
        connections.spawn(serve(stream, Arc::clone(&script), Arc::clone(&saw)));
    }
}

async fn serve(mut stream: TcpStream, script: Arc<Mutex<Script>>, saw: Saw) {
    while let Some(head) = read_head(&mut stream).await {
        let path = head.split(' ').nth(1).unwrap_or_default().trim_start_matches("/latest/").to_owned();
        saw.send_modify(|seen| seen.push(path.clone()));
        let fault = script.lock().unwrap().faults.get_mut(&path).and_then(VecDeque::pop_front);
        if fault == Some(Fault::CloseUnanswered) {
            return;
        }
        let answer = match fault {
            Some(Fault::Status(status)) => response(status, "", b""),
            _ => script.lock().unwrap().answer(&head, &path),
        };
        let sent = match fault {
            Some(Fault::Hang) => {
                tokio::time::sleep(Duration::from_secs(3600)).await;
                return;
            }
            Some(Fault::CloseMidBody) => &answer[..answer.len() - 2],
            _ => &answer[..],
        };
        if stream.write_all(sent).await.is_err() || matches!(fault, Some(Fault::CloseMidBody | Fault::CloseAfter)) {
            return;
        }
    }
}

async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    String::from_utf8(head).ok()
}

impl Script {
    fn answer(&mut self, head: &str, path: &str) -> Vec<u8> {
        let header = |name: &str| {
            head.lines().find_map(|line| line.to_lowercase().strip_prefix(&format!("{name}: ")).map(str::to_owned))
        };
        if head.starts_with("PUT ") {
            if header("x-aws-ec2-metadata-token-ttl-seconds").is_none_or(|ttl| ttl.parse::<u64>().is_err()) {
                return response(400, "", b"");
            }
            self.tokens += 1;
            let token = format!("token-{}", self.tokens);
            self.valid_token = Some(token.clone());
            let ttl = format!("X-aws-ec2-metadata-token-ttl-seconds: {}\r\n", self.token_ttl);
            return response(200, &ttl, token.as_bytes());
        }
        if header("x-aws-ec2-metadata-token") != self.valid_token || self.valid_token.is_none() {
            return response(401, "", b"");
        }
        match self.items.get(path) {
            Some(body) => response(200, "", body),
            None => response(404, "", b"<html>not found</html>"),
        }
    }
}

fn response(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}
