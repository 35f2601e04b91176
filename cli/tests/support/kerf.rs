//! Runs the built program in isolation: no settings from the environment, an empty home folder.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::io::Write;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};

use tokio::net::TcpSocket;

/// Output of the program.
pub struct Answer {
    pub stdout: String,
    pub stderr: String,
    pub code: i32,
}

/// Runs `kerf ARGUMENTS` in `folder` with `input` on standard input and additional `environment`.
pub fn kerf(folder: &Path, arguments: &[&str], input: &str, environment: &[(&str, &str)]) -> Answer {
    let home = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_kerf"))
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .env("HOME", home.path())
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The program may close its input before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    Answer {
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
        code: output.status.code().unwrap(),
    }
}

/// Returns a URL that refuses connections while the socket exists. A dropped listener could live on in a child of another test.
pub fn silent_endpoint() -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let endpoint = format!("http://{}", socket.local_addr().unwrap());
    (socket, endpoint)
}
