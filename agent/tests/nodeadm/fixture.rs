//! Fixture of the nodeadm tests: a machine, its metadata, and builders for documents.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use agent::aws::ec2;
use agent::aws::imds::Imds;
use agent::aws::imds::backoff::Backoff;
use agent::nodeadm::Machine;
use agent::nodeadm::link::hook;
use agent::nodeadm::metadata::MetadataRetries;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::ec2::FakeEc2;
use crate::imds::FakeImds;
use crate::test_host::{TestHost, metadata};

const MILLISECOND: Duration = Duration::from_millis(1);

/// Simulated machine with its metadata service and its EC2.
pub struct Fixture {
    pub test_host: TestHost,
    pub imds: FakeImds,
    pub ec2: FakeEc2,
    /// Environment of the commands.
    pub environment: BTreeMap<String, String>,
}

impl Fixture {
    /// Creates a machine that was launched with this user data.
    pub async fn new(user_data: impl AsRef<[u8]>) -> Self {
        let (imds, ec2) = (FakeImds::start(metadata("")).await, FakeEc2::start().await);
        imds.set("user-data", user_data.as_ref());
        let environment = [
            ("AWS_ENDPOINT_URL", ec2.url()),
            ("AWS_ACCESS_KEY_ID", "AKIDTEST".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value)).into();
        Self { test_host: TestHost::new("v1.35.0"), imds, ec2, environment }
    }

    /// Sets a variable in the environment of the commands.
    pub fn set(&mut self, name: &str, value: &str) {
        self.environment.insert(name.to_owned(), value.to_owned());
    }

    /// Returns the `Machine` that the commands receive. Its delay between attempts is 1 to 2 ms.
    pub fn machine(&self) -> Machine {
        let backoff = Backoff { start: MILLISECOND, ceiling: MILLISECOND * 2, seed: 1 };
        let ec2 =
            ec2::Ec2Retries { exchange: MILLISECOND * 3000, backoff, naming: backoff, ..ec2::Ec2Retries::nodeadm(1) };
        Machine {
            host: self.test_host.host(),
            imds: Arc::new(Imds::new(&self.imds.endpoint, MILLISECOND * 2000).unwrap()),
            environment: self.environment.clone().into_iter().collect(),
            credential_provider: "/etc/eks/image-credential-provider/ecr-credential-provider".to_owned(),
            patience: MetadataRetries { attempts: 5, backoff },
            ec2,
            links: hook::HookTimeouts { poll: MILLISECOND, limit: MILLISECOND * 5000 },
        }
    }

    /// Returns the text of a file of the machine.
    pub fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.test_host.root().join(path)).ok()
    }
}

/// Returns a NodeConfig with this `spec`, as YAML in one line.
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

/// Returns a multipart document of parts with these media types.
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
