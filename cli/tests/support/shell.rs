//! Runs a line of a page in a shell, with the built program as `kerf` and without settings of this computer.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::path::Path;
use std::process::Command;

/// Returns exit code, standard output and standard error of one line. The folder is the working directory and the home folder.
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
