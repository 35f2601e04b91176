//! The two sides: which controller, and what it finds when it starts.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use world::controlplane::ControlPlane;
use world::machines::find_program;

use crate::catalogue::Catalogue;
use crate::kerf::Ec2;
use crate::{karpenter, kerf};

/// Which controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Kerf,
    Karpenter,
}

/// A controller that is ready to start.
pub struct Subject {
    /// How it is called.
    pub command: Command,
    /// The class of its nodes.
    pub class: Value,
    /// Where it buys; kwok's provider is its own cloud.
    pub ec2: Option<Ec2>,
}

impl Side {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kerf => "Kerf",
            Self::Karpenter => "Karpenter",
        }
    }

    /// Brings its CRDs, its rights and its cloud.
    pub async fn furnish(self, control_plane: &ControlPlane, catalogue: &Catalogue) -> Result<Subject> {
        match self {
            Self::Kerf => kerf::furnish(control_plane, catalogue).await,
            Self::Karpenter => karpenter::furnish(control_plane, catalogue).await,
        }
    }
}

/// The fixture files that the planners are compared by, written by the program that compares them.
pub struct Fixtures {
    folder: TempDir,
    /// The same for all of them.
    pub catalogue: Catalogue,
}

/// Those that are played.
const NAMES: [&str; 2] = ["small-and-large", "wide"];

impl Fixtures {
    pub async fn make() -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a folder for fixtures")?;
        let program = find_program("peers", "KERF_PEERS", "cargo build --workspace")?;
        let mut command = tokio::process::Command::new(program);
        let status = command.arg("fixtures").arg(folder.path()).args(NAMES).status().await?;
        ensure!(status.success(), "`peers fixtures` ended with {status}");
        let catalogue = Catalogue::read(&folder.path().join(NAMES[0]))?;
        Ok(Self { folder, catalogue })
    }

    pub fn folder(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }
}
