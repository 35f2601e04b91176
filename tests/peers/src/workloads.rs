//! Workloads over real EC2 instance types, to measure the cost of a fleet. Kerf, Karpenter and the bound read the same fixture
//! files.

mod catalogue;
mod constrained;
mod drawn;
mod manifest;
mod tables;

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

pub use catalogue::on_demand_types;
pub use manifest::{Daemon, Deployment, Key, Pool, Rule};

/// Pending pods, DaemonSets, and NodePools for them.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Name of the fixture's folder and of the row in reports.
    pub name: &'static str,
    /// Description for the report, in one line.
    pub about: &'static str,
    /// NodePools.
    pub pools: Vec<Pool>,
    /// Pods, by owner.
    pub deployments: Vec<Deployment>,
    /// DaemonSets of every node.
    pub daemons: Vec<Daemon>,
    /// True if constraints and whole numbers of nodes decide the cost.
    pub constrained: bool,
}

/// Returns all workloads, in the order of reports.
#[must_use]
pub fn all() -> Vec<Workload> {
    plain().into_iter().chain(constrained()).collect()
}

/// Returns the workloads whose cost depends on sizes.
#[must_use]
pub fn plain() -> Vec<Workload> {
    vec![
        tables::wide(),
        tables::small_and_large(),
        drawn::heavy_tailed(),
        drawn::cpu_and_memory(),
        drawn::many_daemons(),
    ]
}

/// Returns the workloads whose cost depends on constraints.
#[must_use]
pub fn constrained() -> Vec<Workload> {
    constrained::all()
}

impl Workload {
    /// Writes `objects.json` and `catalogue.json` into the folder; the bytes are the same each time.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let objects = json!({"apiVersion": "v1", "kind": "List", "items": self.objects()});
        for (name, document) in [("objects.json", objects), ("catalogue.json", catalogue::on_demand()?)] {
            let path = folder.join(name);
            fs::write(&path, document.to_string()).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    fn objects(&self) -> Vec<Value> {
        let mut objects = vec![manifest::namespace(), manifest::class()];
        objects.extend(self.pools.iter().map(Pool::object));
        objects.extend(self.daemons.iter().map(Daemon::object));
        objects.extend(self.deployments.iter().flat_map(Deployment::pods));
        objects
    }
}
