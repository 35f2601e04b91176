//! Container registry of one test: the reference implementation (distribution) on loopback, with one user.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

use crate::{ran, root};

/// Longest start; a registry that has ended fails the test immediately.
const START: Duration = Duration::from_secs(120);
/// `maintainer:secret`, the password by bcrypt.
const USER: &str = "maintainer:$2b$05$BXuXQo1P5qQiSlGTIThQnOaSWsapLb8mE7NkM/um.3/t.1xG/JJtW\n";
/// `maintainer:secret` in Base64.
const LOGIN: &str = "bWFpbnRhaW5lcjpzZWNyZXQ=";

/// Builds the Go programs of a folder of the checkout once, and returns the folder with them.
#[must_use]
pub fn go_programs(folder: &str) -> PathBuf {
    let output = Command::new(root().join("tests/steps/go-program")).arg(folder).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{folder}: {}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

/// Running registry; dropping this value ends it.
#[derive(Debug)]
pub struct Registry {
    server: Child,
    address: String,
    folder: TempDir,
}

impl Registry {
    /// Builds the registry if it is missing (a minute, once) and starts it empty. Returns when it listens.
    #[must_use]
    pub fn start() -> Self {
        let program = go_programs("tests/registry").join("registry");
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("users"), USER).unwrap();
        let settings = json!({
            "version": "0.1",
            "storage": {"filesystem": {"rootdirectory": path("storage")}},
            "http": {"addr": "127.0.0.1:0", "secret": "of this test"},
            "auth": {"htpasswd": {"realm": "kerf", "path": path("users")}},
        });
        fs::write(path("settings.yaml"), settings.to_string()).unwrap();
        let mut command = Command::new(program);
        command.arg("serve").arg(path("settings.yaml")).stdin(Stdio::null());
        let log = path("log");
        command.stdout(File::create(&log).unwrap()).stderr(File::options().append(true).open(&log).unwrap());
        let mut server = command.spawn().unwrap();
        let begin = Instant::now();
        let address = loop {
            let text = fs::read_to_string(&log).unwrap();
            if let Some((_, rest)) = text.split_once("listening on ") {
                break rest.chars().take_while(|letter| letter.is_ascii_digit() || ".:".contains(*letter)).collect();
            }
            let ended = server.try_wait().unwrap();
            assert!(ended.is_none() && begin.elapsed() < START, "the registry does not listen: {ended:?} {text}");
            std::thread::sleep(Duration::from_millis(50));
        };
        Self { server, address, folder }
    }

    /// Returns the name under which releases are published.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/kerf", self.address)
    }

    /// Writes the login of the only user, as `docker login` does, and returns the folder for `DOCKER_CONFIG`.
    #[must_use]
    pub fn login(&self) -> PathBuf {
        let folder = self.folder.path().join("docker");
        fs::create_dir_all(&folder).unwrap();
        let login = json!({"auths": {&self.address: {"auth": LOGIN}}});
        fs::write(folder.join("config.json"), login.to_string()).unwrap();
        folder
    }

    /// Runs a command with the login; returns its output.
    pub fn ran(&self, program: &Path, words: &[&str]) -> String {
        ran(Command::new(program).args(words).env("DOCKER_CONFIG", self.login()))
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let ended = self.server.kill().and_then(|()| self.server.wait());
        if let Err(error) = ended {
            eprintln!("the registry could not be ended: {error}");
        }
    }
}
