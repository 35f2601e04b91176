//! Scripted fake of EC2 with DescribeInstances and DescribeInstanceTypes in XML. The fake injects faults in order, each once. A
//! forward proxy in front of the fake records its requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// Private DNS name that EC2 returns for the instance.
pub const NAME: &str = "ip-172-16-34-43.us-west-2.compute.internal";

/// Fault of one response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Error response with this status and code.
    Refuse(u16, &'static str),
    /// Instance that exists, but has no name yet.
    Unnamed,
    /// Response that is not XML.
    Html,
    /// Closed connection without a response.
    Close,
}

#[derive(Debug, Default)]
struct Script {
    faults: VecDeque<Fault>,
    hangs: bool,
    requests: Vec<String>,
    instance_types: Option<String>,
}

/// Running fake of EC2; stops when dropped.
#[derive(Debug)]
pub struct FakeEc2 {
    /// Address and port.
    pub address: String,
    script: Arc<Mutex<Script>>,
    server: JoinHandle<()>,
}

impl Drop for FakeEc2 {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl FakeEc2 {
    /// Serves plain HTTP on an ephemeral loopback port.
    pub async fn start() -> Self {
        Self::with_tls(None).await
    }

    /// Serves on an ephemeral loopback port, over TLS if there is an acceptor.
    pub async fn with_tls(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let script = Arc::new(Mutex::new(Script::default()));
        let server = tokio::spawn(accept(listener, tls, Arc::clone(&script)));
        Self { address, script, server }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Makes the next requests fail with `faults`, in order; later requests succeed.
    pub fn fail(&self, faults: &[Fault]) {
        self.script.lock().unwrap().faults.extend(faults.iter().cloned());
    }

    /// Stops all responses from now on.
    pub fn hang(&self) {
        self.script.lock().unwrap().hangs = true;
    }

    /// Sets the response to DescribeInstanceTypes.
    pub fn set_instance_types(&self, items: &str) {
        self.script.lock().unwrap().instance_types = Some(items.to_owned());
    }

    /// Returns heads and bodies of the requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.script.lock().unwrap().requests.clone()
    }
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, script: Arc<Mutex<Script>>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, script) = (tls.clone(), Arc::clone(&script));
        connections.spawn(async move {
            match tls {
                None => serve(stream, &script).await,
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        serve(stream, &script).await;
                    }
                }
            }
        });
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, script: &Mutex<Script>) {
    while let Some(head) = read_head(&mut stream).await {
        let Some(body) = read_body(&mut stream, &head).await else { return };
        let (fault, hangs, types) = {
            let mut script = script.lock().unwrap();
            script.requests.push(format!("{head}{body}"));
            (script.faults.pop_front(), script.hangs, script.instance_types.clone())
        };
        let answer = match fault {
            _ if hangs => return silent().await,
            Some(Fault::Close) => return,
            Some(Fault::Html) => response(200, "<html><br></html>"),
            Some(Fault::Unnamed) => response(200, &instances("")),
            Some(Fault::Refuse(status, code)) => response(status, &refusal(code)),
            None if body.contains("Action=DescribeInstanceTypes") => match types {
                Some(items) => response(200, &instance_types(&items)),
                None => response(400, &refusal("InvalidInstanceType")),
            },
            None => response(200, &instances(NAME)),
        };
        if stream.write_all(&answer).await.is_err() {
            return;
        }
    }
}

async fn silent() {
    tokio::time::sleep(Duration::from_secs(3600)).await;
}

async fn read_head<S: AsyncRead + Unpin>(stream: &mut S) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    String::from_utf8(head).ok()
}

async fn read_body<S: AsyncRead + Unpin>(stream: &mut S, head: &str) -> Option<String> {
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await.ok()?;
    String::from_utf8(body).ok()
}

fn response(status: u16, body: &str) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: text/xml;charset=UTF-8\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    format!("{head}{body}").into_bytes()
}

fn instances(name: &str) -> String {
    let name = if name.is_empty() {
        "<privateDnsName/>".to_owned()
    } else {
        format!("<privateDnsName>{name}</privateDnsName>")
    };
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<DescribeInstancesResponse xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\">\
         <requestId>r</requestId><reservationSet><item><instancesSet><item><instanceId>i-1234567890abcdef0</instanceId>{name}\
         <networkInterfaceSet><item><privateDnsName>ip-of-an-interface.internal</privateDnsName></item></networkInterfaceSet>\
         </item></instancesSet></item></reservationSet></DescribeInstancesResponse>"
    )
}

fn instance_types(items: &str) -> String {
    format!(
        "<DescribeInstanceTypesResponse xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><instanceTypeSet><item><networkInfo>\
         {items}</networkInfo></item></instanceTypeSet></DescribeInstanceTypesResponse>"
    )
}

fn refusal(code: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?><Response><Errors><Error><Code>{code}</Code><Message>words of EC2</Message></Error></Errors>\
         <RequestID>r</RequestID></Response>"
    )
}

/// Forward proxy that sends every request to one address, for any host name; stops when dropped.
#[derive(Debug)]
pub struct Proxy {
    /// URL of the proxy.
    pub url: String,
    seen: Arc<Mutex<Vec<String>>>,
    server: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Proxy {
    /// Starts a proxy in front of `address`. With `secret`, only clients that send this authorization may pass.
    pub async fn before(address: &str, secret: Option<&str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let server = tokio::spawn(relay(listener, address.to_owned(), secret.map(str::to_owned), Arc::clone(&seen)));
        Self { url, seen, server }
    }

    /// Returns the first lines of the requests since the previous call.
    pub fn seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

async fn relay(listener: TcpListener, address: String, secret: Option<String>, seen: Arc<Mutex<Vec<String>>>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(pass(stream, address.clone(), secret.clone(), Arc::clone(&seen)));
    }
}

async fn pass(mut stream: TcpStream, address: String, secret: Option<String>, seen: Arc<Mutex<Vec<String>>>) {
    let Some(head) = read_head(&mut stream).await else { return };
    let first = head.lines().next().unwrap().to_owned();
    seen.lock().unwrap().push(first.clone());
    let known = head.to_lowercase();
    if secret.is_some_and(|secret| !known.contains(&format!("proxy-authorization: {}", secret.to_lowercase()))) {
        let _ = stream.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n").await;
        return;
    }
    let mut server = TcpStream::connect(address).await.unwrap();
    if first.starts_with("CONNECT ") {
        stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
    } else {
        server.write_all(head.as_bytes()).await.unwrap();
    }
    let _ = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
}
