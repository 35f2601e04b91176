//! Free ports for programs that cannot choose one themselves.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::{Context, Result};

use super::Component;

/// Lowest port. The range is below the kernel's range for outgoing connections (from 32768), so that no client of another test
/// takes a chosen port before the component starts.
const FIRST: u16 = 20_000;
const LAST: u16 = 29_999;

/// Most attempts to find a free port.
const TRIES: usize = 1_000;

/// Ports of the servers on 127.0.0.1.
#[derive(Debug)]
pub(super) struct Ports {
    etcd: u16,
    etcd_peer: u16,
    api_server: u16,
    controller_manager: u16,
    scheduler: u16,
}

impl Ports {
    /// Chooses ports that are free now. The ports are not reserved, so the caller must be ready to choose again.
    pub(super) fn choose() -> Result<Self> {
        // All are held until all are chosen, so that they differ.
        let held = [bind()?, bind()?, bind()?, bind()?, bind()?];
        let [etcd, etcd_peer, api_server, controller_manager, scheduler] = held.each_ref().map(|(port, _)| *port);
        Ok(Self { etcd, etcd_peer, api_server, controller_manager, scheduler })
    }

    pub(super) fn of(&self, component: Component) -> u16 {
        match component {
            Component::Etcd => self.etcd,
            Component::ApiServer => self.api_server,
            Component::ControllerManager => self.controller_manager,
            Component::Scheduler => self.scheduler,
        }
    }

    /// Returns the address of a component.
    pub(super) fn address(&self, component: Component) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.of(component)).into()
    }

    /// Returns the URL of a component: etcd in plain HTTP, the others with the cluster's certificate.
    pub(super) fn url(&self, component: Component) -> String {
        let scheme = match component {
            Component::Etcd => "http",
            _ => "https",
        };
        format!("{scheme}://{}", self.address(component))
    }

    /// Returns the peer URL of etcd, which has no other members.
    pub(super) fn etcd_peer_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd_peer)
    }
}

/// Binds a port that is free now, for a program that starts after the listener is dropped.
///
/// # Errors
/// Returns an error if no port is free.
pub fn bind() -> Result<(u16, TcpListener)> {
    let span = u64::from(LAST - FIRST) + 1;
    (0..TRIES)
        .map(|_| RandomState::new().build_hasher().finish() % span)
        .filter_map(|offset| u16::try_from(offset).ok())
        .map(|offset| FIRST + offset)
        .find_map(|port| Some((port, TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()?)))
        .with_context(|| format!("no free port between {FIRST} and {LAST} on 127.0.0.1"))
}
