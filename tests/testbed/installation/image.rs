//! The controller's image from `make images`, under the names that a registry would serve it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::linters::cache;

/// Repository of the image in the values.
pub const REPOSITORY: &str = "registry.example/kerf-controller";

/// Writes an OCI archive into `folder` whose image has each of these tags; returns its path.
pub fn tagged(tags: &[&str], folder: &Path) -> Result<PathBuf> {
    let built = built()?;
    let layout = folder.join("controller-image");
    std::fs::create_dir(&layout)?;
    run(Command::new("tar").arg("-xf").arg(&built).arg("-C").arg(&layout))?;
    let index = layout.join("index.json");
    let text = std::fs::read_to_string(&index).context("the image has no index")?;
    std::fs::write(&index, with_names(&text, tags)?.to_string())?;
    let archive = folder.join("controller-image.tar");
    run(Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(&layout).arg("."))?;
    Ok(archive)
}

/// Returns the reason why there is no image.
pub fn obstacle() -> Option<String> {
    built().err().map(|error| error.to_string())
}

fn built() -> Result<PathBuf> {
    let built = cache()?.join("images/controller-amd64.tar");
    ensure!(built.exists(), "{} is missing: run `make images` first", built.display());
    Ok(built)
}

/// Returns the index with one entry of its image for each tag, as containerd reads them.
fn with_names(index: &str, tags: &[&str]) -> Result<Value> {
    let mut index: Value = serde_json::from_str(index).context("the image's index is no JSON")?;
    let image = index["manifests"][0].clone();
    let named = |tag: &&str| {
        let mut entry = image.clone();
        entry["annotations"] = json!({"io.containerd.image.name": format!("{REPOSITORY}:{tag}")});
        entry
    };
    index["manifests"] = tags.iter().map(named).collect();
    Ok(index)
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}
