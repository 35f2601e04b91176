//! A line of a page as its reader's shell runs it, with the built program as `kerf` and nothing of this machine's settings.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::path::Path;
use std::process::Command;

/// Exit code, standard output and standard error of one line, run in a folder that is its home too.
pub fn run(folder: &Path, line: &str, environment: &[(&str, &str)]) -> (i32, String, String) {
    let program = Path::new(env!("CARGO_BIN_EXE_kerf")).parent().unwrap();
    let output = Command::new("sh")
        .args(["-c", line])
        .current_dir(folder)
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", program.display()))
        .env("HOME", folder)
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}
