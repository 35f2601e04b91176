//! Moto server of one test, and calls to its EC2 by form as EC2's API accepts them. No SDK is needed for few calls.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{cache, ran, root};

/// Longest start. Python takes some seconds on an idle machine and much longer on a busy one; a server that has ended fails at
/// once.
const START: Duration = Duration::from_secs(600);
/// Server with one correction: moto does not support tags of snapshots in CreateImage, which real EC2 accepts.
const SERVER: &str = "
from moto.ec2.models.amis import AmiBackend
from moto.server import main

whole = AmiBackend.create_image
def create_image(self, instance_id, name, description, tag_specifications):
    of_the_image = [it for it in tag_specifications if it['ResourceType'] == 'image']
    return whole(self, instance_id, name, description, of_the_image)
AmiBackend.create_image = create_image
main()
";
/// Region of all objects.
pub const REGION: &str = "us-west-2";

/// Running server; dropping this value ends it.
#[derive(Debug)]
pub struct Moto {
    server: Child,
    address: String,
    _log: TempDir,
}

impl Moto {
    /// Installs moto if it is missing (minutes, once) and starts it with public images of Amazon of these names and
    /// architectures. Returns when the server listens.
    #[must_use]
    pub fn start(images: &[(&str, &str)]) -> Self {
        let (tests, programs) = (root().join("tests"), cache().join("moto"));
        ran(Command::new(tests.join("steps/python-programs")).arg(tests.join("moto/requirements.txt")).arg(&programs));
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let catalogue = folder.path().join("images.json");
        fs::write(&catalogue, Value::from_iter(images.iter().enumerate().map(published)).to_string()).unwrap();
        // Port 0: the kernel chooses a port, and the server's log contains it.
        let mut command = Command::new(programs.join("bin/python3"));
        command
            .args(["-c", SERVER, "-H", "127.0.0.1", "-p", "0"])
            .stdin(Stdio::null())
            .env("MOTO_AMIS_PATH", &catalogue);
        command.stdout(File::create(&log).unwrap()).stderr(File::options().append(true).open(&log).unwrap());
        let mut server = command.spawn().unwrap();
        let begin = Instant::now();
        loop {
            let text = fs::read_to_string(&log).unwrap();
            if let Some((_, rest)) = text.split_once("Running on http://") {
                let address = rest.split_whitespace().next().unwrap().to_owned();
                return Self { server, address, _log: folder };
            }
            let ended = server.try_wait().unwrap();
            assert!(ended.is_none() && begin.elapsed() < START, "moto does not listen: {ended:?} {text}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns the URL of the server.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Calls an EC2 action with parameters and returns the response document.
    #[must_use]
    pub fn ec2(&self, action: &str, parameters: &[(&str, &str)]) -> String {
        let mut form = format!("Action={action}&Version=2016-11-15");
        for (name, value) in parameters {
            form.push_str(&format!("&{name}={}", value.replace(':', "%3A").replace('/', "%2F").replace('*', "%2A")));
        }
        let scope = format!("Credential=test/20260101/{REGION}/ec2/aws4_request");
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = format!(
            "POST / HTTP/1.0\r\nHost: {}\r\nAuthorization: AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=none\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n",
            self.address,
            form.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(form.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.0 200") || answer.starts_with("HTTP/1.1 200"), "{action}: {answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }
}

/// Returns an image in the format of moto's catalogue; later images are newer.
fn published((index, (name, architecture)): (usize, &(&str, &str))) -> Value {
    json!({
        "ami_id": format!("ami-{index:017x}"), "name": name, "architecture": architecture, "owner_id": "602401143452",
        "creation_date": format!("2026-01-{:02}T00:00:00.000Z", index + 1), "public": true, "state": "available",
        "virtualization_type": "hvm", "root_device_type": "ebs", "root_device_name": "/dev/xvda",
    })
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
