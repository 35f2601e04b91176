//! Own network of a real machine of a managed node group. Its pods have addresses of their own, and servers of the test are where
//! pods find them in a cluster: the Service of the API server, instance metadata, and AWS. A relay stands for kube-proxy and the
//! VPC.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::{Context, Result};
use serde_json::json;
use systemd_container::System;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// ClusterIP of the Service `kubernetes`.
const API_SERVICE: SocketAddr = at([10, 96, 0, 1], 443);
/// Address of instance metadata on EC2.
const METADATA: SocketAddr = at([169, 254, 169, 254], 80);
/// Address of all services of AWS; the block is reserved for documentation.
const AWS: SocketAddr = at([192, 0, 2, 1], 80);

/// Servers of the test on loopback.
#[derive(Clone, Copy, Debug)]
pub struct Servers {
    /// API server.
    pub api_server: SocketAddr,
    /// All services of AWS.
    pub aws: SocketAddr,
}

/// Returns the URL of all services of AWS for pods.
#[must_use]
pub fn aws_url() -> String {
    format!("http://{AWS}")
}

/// Returns the URL of instance metadata.
pub(super) fn metadata_url() -> String {
    format!("http://{METADATA}")
}

const fn at([a, b, c, d]: [u8; 4], port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), port)
}

/// Network of one machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnNetwork {
    pub(super) address: Ipv4Addr,
    pub(super) servers: Servers,
}

/// Running relays; dropping them closes all connections.
pub(super) struct Relays {
    _tasks: JoinSet<()>,
}

impl OwnNetwork {
    /// Returns the addresses of the machine's loopback interface, besides its own.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        vec![API_SERVICE.ip(), METADATA.ip(), AWS.ip(), self.address.into()]
    }

    /// Returns the CNI configuration: a bridge whose subnet no other machine has.
    pub(super) fn cni(&self) -> String {
        let [_, _, third, fourth] = self.address.octets();
        let subnet = format!("10.{}.{fourth}.0/24", 128 | third);
        json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [{
            "type": "bridge", "bridge": "cni0", "isDefaultGateway": true,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": subnet}]]},
        }]})
        .to_string()
    }

    /// Starts the relays from the system's network to the servers and the machine's metadata service.
    pub(super) fn connect(&self, system: &System, metadata: SocketAddr) -> Result<Relays> {
        let Servers { api_server, aws } = self.servers;
        let mut tasks = JoinSet::new();
        for (inside, server) in [(api_server, api_server), (API_SERVICE, api_server), (METADATA, metadata), (AWS, aws)]
        {
            let listener =
                system.listen(inside).with_context(|| format!("cannot listen on {inside} in the machine"))?;
            listener.set_nonblocking(true)?;
            tasks.spawn(relay(TcpListener::from_std(listener)?, server));
        }
        Ok(Relays { _tasks: tasks })
    }
}

/// Connects every client with the server, until the task is dropped.
async fn relay(listener: TcpListener, server: SocketAddr) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((mut client, _)) = accepted {
                connections.spawn(async move {
                    if let Ok(mut upstream) = TcpStream::connect(server).await {
                        // Either side may end the connection at any time.
                        drop(copy_bidirectional(&mut client, &mut upstream).await);
                    }
                });
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
