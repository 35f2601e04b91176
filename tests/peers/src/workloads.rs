//! Workloads over real EC2 types, for measuring how dear a fleet is: written as fixture files that Kerf, Karpenter and
//! the bound all read.

mod catalogue;
mod drawn;
mod manifest;
mod tables;

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

pub use manifest::{Daemon, Deployment};

/// Pods that wait, what runs on every node, and what may be bought for them.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The fixture's folder and the row in reports.
    pub name: &'static str,
    /// One line for the report.
    pub about: &'static str,
    /// The pool's requirements beside on-demand Linux: key, operator, values.
    pub pool: Vec<(&'static str, &'static str, Vec<&'static str>)>,
    /// The pods, by owner.
    pub deployments: Vec<Deployment>,
    /// What comes with every node.
    pub daemons: Vec<Daemon>,
}

/// Every workload, in the order of reports.
#[must_use]
pub fn all() -> Vec<Workload> {
    vec![
        tables::wide(),
        tables::small_and_large(),
        drawn::heavy_tailed(),
        drawn::cpu_and_memory(),
        drawn::many_daemons(),
    ]
}

impl Workload {
    /// Writes `objects.json` and `catalogue.json` into the folder; the same bytes each time.
    ///
    /// # Errors
    /// When a file cannot be written.
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
        let mut objects = vec![manifest::namespace(), manifest::class(), manifest::pool(&self.pool)];
        objects.extend(self.daemons.iter().map(Daemon::object));
        objects.extend(self.deployments.iter().flat_map(Deployment::pods));
        objects
    }
}
