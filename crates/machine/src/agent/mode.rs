//! Program that configures the instance, and the address of the agent's metrics.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Role of the agent at bootstrap: it configures the instance, or observes another program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// Observes if nodeadm is enabled and on Bottlerocket, otherwise configures.
    #[default]
    Auto,
    /// Configures the instance.
    Bootstrap,
    /// Writes no file of the operating system.
    Observe,
}

/// Address of the metrics server: `127.0.0.1:9192`, or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen(pub Option<SocketAddr>);

const OFF: &str = "off";

impl Default for Listen {
    fn default() -> Self {
        Self(Some(SocketAddr::from(([127, 0, 0, 1], 9192))))
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(address) => address.fmt(out),
            None => out.write_str(OFF),
        }
    }
}

impl Serialize for Listen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Error for a text that is neither an address nor `off`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address; write 127.0.0.1:9192, or off")]
pub struct NoAddress(String);

impl FromStr for Listen {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == OFF {
            return Ok(Self(None));
        }
        text.parse().map(|address| Self(Some(address))).map_err(|_| NoAddress(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
