//! The two sides: the controllers, and their environment at the start.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use testbed::controlplane::ControlPlane;
use testbed::machines::find_program;

use crate::catalogue::Catalogue;
use crate::ec2::Ec2;
use crate::{ec2, karpenter};

/// Controller under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Kerf,
    /// Karpenter with its kwok provider, which writes Nodes itself.
    Karpenter,
    /// Karpenter with its AWS provider.
    KarpenterOnEc2,
}

/// Controller that is ready to start.
pub struct Subject {
    /// Command of the controller.
    pub command: Command,
    /// Node class of its nodes.
    pub class: Value,
    /// Fake of EC2; `None` for kwok's provider, which needs none.
    pub ec2: Option<Ec2>,
}

impl Side {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kerf => "Kerf",
            Self::Karpenter => "Karpenter",
            Self::KarpenterOnEc2 => "Karpenter-on-EC2",
        }
    }

    /// Installs CRDs and RBAC, and starts the cloud of this side.
    pub async fn furnish(self, control_plane: &ControlPlane, catalogue: &Catalogue) -> Result<Subject> {
        match self {
            Self::Kerf => ec2::furnish_kerf(control_plane, catalogue).await,
            Self::Karpenter => karpenter::furnish(control_plane, catalogue).await,
            Self::KarpenterOnEc2 => ec2::furnish_karpenter(control_plane, catalogue).await,
        }
    }
}

/// Fixture files of the planner comparison, written by the program `peers`.
pub struct Fixtures {
    folder: TempDir,
    /// Catalogue, the same for all fixtures.
    pub catalogue: Catalogue,
}

/// Fixtures that the scenarios use.
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
