//! Way of the API server to the controller's pods, for `kubectl get --raw /api/v1/.../pods/NAME:8080/proxy/metrics`. Nothing has
//! the pods' addresses here: the API server asks this proxy (egress selector, HTTP CONNECT) for each connection into the
//! cluster, and those to ports of pods lead to ports on loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::task::JoinHandle;

use crate::controlplane::{Component, Options};
use crate::process::RunFolder;

/// Longest request for a connection.
const MOST_REQUEST: usize = 4096;

/// Ports of pods, and the proxy that leads to them. Dropping it ends the proxy.
#[derive(Debug)]
pub struct PodNetwork {
    folder: RunFolder,
    addresses: PodAddresses,
    proxy: JoinHandle<()>,
}

/// Addresses of pods, 10.N.255.x, and the ports on loopback to which they lead.
#[derive(Clone, Debug)]
pub struct PodAddresses {
    network: u8,
    /// One entry per pod, in the order of their addresses.
    pods: Arc<Mutex<Vec<(u16, SocketAddr)>>>,
}

impl PodAddresses {
    /// Returns a new address, whose `port` leads to the port `local` on loopback.
    ///
    /// # Errors
    /// Returns an error if the network has no address left.
    pub fn take(&self, port: u16, local: u16) -> Result<Ipv4Addr> {
        let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        let number = u8::try_from(pods.len() + 1).context("the network of pods has no address left")?;
        pods.push((port, (Ipv4Addr::LOCALHOST, local).into()));
        Ok(Ipv4Addr::new(10, self.network, 255, number))
    }

    /// Returns where a connection leads: to the same address if it is not that of a pod.
    fn resolve(&self, asked: SocketAddr) -> SocketAddr {
        let pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        let mut numbered = (1..=u8::MAX).map(|number| Ipv4Addr::new(10, self.network, 255, number)).zip(pods.iter());
        let local = numbered.find_map(|(address, (port, local))| (asked == (address, *port).into()).then_some(*local));
        local.unwrap_or(asked)
    }
}

impl PodNetwork {
    /// Starts the proxy for the test cluster with this number.
    ///
    /// # Errors
    /// Returns an error if the proxy cannot listen, or if its configuration cannot be written.
    pub fn start(network: u8) -> Result<Self> {
        let folder = RunFolder::create("pods")?;
        let socket = folder.path().join("proxy");
        let addresses = PodAddresses { network, pods: Arc::default() };
        let listener = UnixListener::bind(&socket).with_context(|| format!("cannot listen on {}", socket.display()))?;
        let config = format!(
            "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n\
             - name: cluster\n  connection:\n    proxyProtocol: HTTPConnect\n    transport:\n      uds:\n        \
             udsName: {}\n",
            socket.display()
        );
        let file = folder.path().join("egress.yaml");
        std::fs::write(&file, config).with_context(|| format!("cannot write {}", file.display()))?;
        let proxy = tokio::spawn(accept(listener, addresses.clone()));
        Ok(Self { folder, addresses, proxy })
    }

    /// Lets the API server of a control plane use the proxy.
    #[must_use]
    pub fn with_proxy(&self, options: Options) -> Options {
        let file = self.folder.path().join("egress.yaml");
        options.with_flag(Component::ApiServer, &format!("--egress-selector-config-file={}", file.display()))
    }

    /// Returns the addresses of pods, to take further ones.
    #[must_use]
    pub fn addresses(&self) -> PodAddresses {
        self.addresses.clone()
    }
}

impl Drop for PodNetwork {
    fn drop(&mut self) {
        self.proxy.abort();
    }
}

async fn accept(listener: UnixListener, addresses: PodAddresses) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        let addresses = addresses.clone();
        tokio::spawn(async move {
            if let Err(error) = serve(client, &addresses).await {
                log::debug!("connection of the API server: {error:#}");
            }
        });
    }
}

/// Serves one connection: the request, its response, then bytes in both directions.
async fn serve(mut client: UnixStream, addresses: &PodAddresses) -> Result<()> {
    let asked = parse_request(&read_request(&mut client).await?)?;
    let mut target = match TcpStream::connect(addresses.resolve(asked)).await {
        Ok(target) => target,
        Err(error) => {
            client.write_all(format!("HTTP/1.1 502 {asked}: {error}\r\n\r\n").as_bytes()).await?;
            return Err(error).with_context(|| format!("cannot connect to {asked}"));
        }
    };
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    tokio::io::copy_bidirectional(&mut client, &mut target).await?;
    Ok(())
}

/// Reads up to the empty line. The client sends nothing after it before it has the response.
async fn read_request(client: &mut UnixStream) -> Result<String> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        ensure!(request.len() < MOST_REQUEST, "a request without an end");
        request.push(client.read_u8().await.context("the request ended early")?);
    }
    String::from_utf8(request).context("the request is no UTF-8")
}

/// Parses `CONNECT ADDRESS:PORT HTTP/1.1`.
fn parse_request(request: &str) -> Result<SocketAddr> {
    let line = request.lines().next().unwrap_or_default();
    let asked = line.strip_prefix("CONNECT ").and_then(|rest| rest.split_once(' ')).map(|(address, _)| address);
    let asked = asked.with_context(|| format!("{line:?} is not a CONNECT request"))?;
    asked.parse().with_context(|| format!("{asked} is not an address with a port"))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, UnixStream};

    use super::{PodNetwork, parse_request};

    /// Sends a CONNECT request and a word, and returns all that comes back.
    async fn ask(network: &PodNetwork, address: &str) -> String {
        let mut client = UnixStream::connect(network.folder.path().join("proxy")).await.unwrap();
        client.write_all(format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn proxy_connects_to_ports_of_pods_and_refuses_unknown_ones() {
        let network = PodNetwork::start(77).unwrap();
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let pod = network.addresses().take(8080, server.local_addr().unwrap().port()).unwrap();
        assert_eq!(pod, Ipv4Addr::new(10, 77, 255, 1));
        let served = tokio::spawn(async move { server.accept().await.unwrap().0.write_all(b"hello").await.unwrap() });
        assert_eq!(ask(&network, "10.77.255.1:8080").await, "HTTP/1.1 200 OK\r\n\r\nhello");
        served.await.unwrap();
        let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap();
        let refused = ask(&network, &closed.to_string()).await;
        assert!(refused.starts_with(&format!("HTTP/1.1 502 {closed}")), "{refused}");
    }

    #[test]
    fn parse_request_reports_what_is_not_connect() {
        assert_eq!(parse_request("CONNECT 10.1.2.3:80 HTTP/1.1\r\n\r\n").unwrap().to_string(), "10.1.2.3:80");
        for (request, problem) in [
            ("GET / HTTP/1.1\r\n\r\n", "is not a CONNECT request"),
            ("CONNECT somewhere:80 HTTP/1.1\r\n\r\n", "is not an address with a port"),
        ] {
            let error = parse_request(request).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
