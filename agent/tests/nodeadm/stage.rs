//! What every test here stands on: a machine, its metadata, and documents to put there.

use std::sync::Arc;
use std::time::Duration;

use agent::imds::Imds;
use agent::imds::backoff::Backoff;
use agent::nodeadm::Machine;
use agent::nodeadm::metadata::Patience;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::imds::FakeImds;
use crate::room::{Room, metadata};

/// A machine and its metadata.
pub struct Stage {
    pub room: Room,
    pub imds: FakeImds,
}

impl Stage {
    /// A machine that was launched with this user data.
    pub async fn new(user_data: impl AsRef<[u8]>) -> Self {
        let imds = FakeImds::start(metadata("")).await;
        imds.set("user-data", user_data.as_ref());
        Self { room: Room::new("v1.35.0"), imds }
    }

    /// The machine as the commands see it; they wait next to nothing between attempts.
    pub fn machine(&self) -> Machine {
        let (start, ceiling) = (Duration::from_millis(1), Duration::from_millis(2));
        Machine {
            host: self.room.host(),
            imds: Arc::new(Imds::new(&self.imds.endpoint, Duration::from_secs(2)).unwrap()),
            patience: Patience { attempts: 5, backoff: Backoff { start, ceiling, seed: 1 } },
        }
    }
}

/// A NodeConfig with this `spec`, YAML in one line.
pub fn node_config(spec: &str) -> String {
    format!("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {spec}\n")
}

pub fn gzip(data: impl AsRef<[u8]>) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    std::io::Write::write_all(&mut packed, data.as_ref()).unwrap();
    packed.finish().unwrap()
}

pub fn base64(data: impl AsRef<[u8]>) -> Vec<u8> {
    STANDARD.encode(data).into_bytes()
}

/// A multipart document of parts with these media types.
pub fn mime(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut document = b"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n".to_vec();
    for (media_type, body) in parts {
        document.extend_from_slice(format!("--//\nContent-Type: {media_type}\n\n").as_bytes());
        document.extend_from_slice(body);
        document.push(b'\n');
    }
    document.extend_from_slice(b"--//--\n");
    document
}
