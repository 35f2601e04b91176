//! Network of one test cluster: the private addresses 10.N.x.y of its machines are served on loopback at 127.(64 + N).x.y.
//! Clusters that run at the same time, in this process or another, each use their own N.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result};

/// Number of networks in 127.64.0.0/10.
const NETWORKS: u8 = 64;
/// Port that reserves a network: the process that listens on it owns the network. No simulated machine uses the port.
const PORT: u16 = 9191;

/// Network that no other process on this computer uses while this value exists.
#[derive(Debug)]
pub struct Network {
    number: u8,
    _taken: TcpListener,
}

impl Network {
    /// Takes the first free network.
    ///
    /// # Errors
    /// Returns an error if all networks are in use, or if loopback has no such addresses.
    pub fn take() -> Result<Self> {
        let mut refused = None;
        for number in 0..NETWORKS {
            match TcpListener::bind((Ipv4Addr::new(127, 64 + number, 0, 1), PORT)) {
                Ok(taken) => return Ok(Self { number, _taken: taken }),
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.context("there is no network")?).with_context(|| {
            format!("no free network among {NETWORKS}: port {PORT} of 127.64.0.1 to 127.127.0.1 is in use")
        })
    }

    /// Returns the N in 10.N.x.y.
    #[must_use]
    pub fn number(&self) -> u8 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::Network;

    #[test]
    fn take_returns_different_networks() {
        let (one, other) = (Network::take().unwrap(), Network::take().unwrap());
        assert_ne!(one.number(), other.number());
    }
}
