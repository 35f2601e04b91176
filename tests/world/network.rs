//! The network of one stage: its machines' private addresses 10.N.x.y answer on loopback at 127.(64 + N).x.y, so stages that run at
//! the same time, in this process or another, each take an N of their own.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result};

/// How many networks there are: 127.64.0.0/10 holds as many.
const NETWORKS: u8 = 64;
/// The process that listens on this address and port owns the network; no simulated machine uses the port.
const PORT: u16 = 9191;

/// A network that no other process on this computer uses while this value lives.
#[derive(Debug)]
pub struct Network {
    number: u8,
    _taken: TcpListener,
}

impl Network {
    /// Takes the first free network.
    ///
    /// # Errors
    /// When all are taken, or loopback has no addresses.
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

    /// N in 10.N.x.y.
    #[must_use]
    pub fn number(&self) -> u8 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::Network;

    #[test]
    fn networks_that_are_taken_together_differ() {
        let (one, other) = (Network::take().unwrap(), Network::take().unwrap());
        assert_ne!(one.number(), other.number());
    }
}
