//! Tests of the shipped artifacts, built with the programs that users build them with: images by buildah, machine images by
//! Packer against moto. The tests are a crate of their own, so that they build neither the EC2 SDK nor the agent.
//!
//! All code here is for tests, so a failure ends the test with a message.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed assumption should fail the test")]

pub mod moto;
pub mod registry;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Returns the root of the checkout.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the crate lies in the checkout")
}

/// Returns the cache folder for artifacts that are built once.
#[must_use]
pub fn cache() -> PathBuf {
    match std::env::var_os("KERF_CACHE") {
        Some(folder) => folder.into(),
        None => Path::new(&std::env::var_os("HOME").expect("HOME or KERF_CACHE is set")).join(".cache/kerf"),
    }
}

/// Returns the static program of the `agent` or the `controller` for an architecture.
#[must_use]
pub fn program(name: &str, architecture: &str) -> PathBuf {
    let suffix = if architecture == "amd64" { String::new() } else { format!("-{architecture}") };
    let program = if name == "cli" { "kerf".to_owned() } else { format!("kerf-{name}") };
    let path = cache().join(name).join(program + &suffix);
    assert!(path.exists(), "{} is missing: run `make images RELEASE=1`", path.display());
    path
}

/// Result of a command.
#[derive(Debug)]
pub struct Outcome {
    /// True if the exit code was 0.
    pub well: bool,
    /// Standard output, followed by standard error.
    pub output: String,
}

/// Runs a command in the checkout, without input, in the locale `C`: bash complains of a locale that a machine lacks. Cargo's variables of this crate are removed: build scripts that read them
/// (ring's) would rebuild programs for this test, and again for the next user.
#[must_use]
pub fn run(command: &mut Command) -> Outcome {
    let of_this_crate = |name: &String| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for name in std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).filter(of_this_crate) {
        command.env_remove(name);
    }
    let output = command.current_dir(root()).env("LC_ALL", "C").stdin(Stdio::null()).output();
    let Output { status, stdout, stderr } = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    Outcome { well: status.success(), output: String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned() }
}

/// Runs a command that must succeed, and returns its output.
pub fn ran(command: &mut Command) -> String {
    let Outcome { well, output } = run(command);
    assert!(well, "{command:?}: {output}");
    output
}

/// Returns the lines of the code blocks of `language` in a document; lines that end with a backslash are joined.
#[must_use]
pub fn commands(document: &str, language: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(document)).unwrap();
    let fence = format!("```{language}\n");
    let blocks = text.split(fence.as_str()).skip(1).filter_map(|rest| rest.split("```").next());
    let joined = blocks.collect::<String>().replace("\\\n", " ");
    joined.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}
