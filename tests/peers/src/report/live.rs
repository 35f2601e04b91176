//! Results of both controllers on a real control plane, which `tests/live` measures.

use std::path::Path;
use std::{fmt, fs};

use anyhow::Context;
use jiff::Timestamp;

use super::rows::{self, Row};
use super::stages::Stages;

const FILE: &str = "live.json";
const EC2_FILE: &str = "live-ec2.json";
/// Folder of charts, from the page.
const PICTURES: &str = "pictures";

/// Last results of the controllers; empty without any measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live {
    /// Beside Karpenter with its kwok provider.
    kwok: Vec<Row>,
    /// Beside Karpenter with its AWS provider.
    ec2: Vec<Row>,
    /// Stages on the way to running pods, by scenario.
    stages: Vec<Stages>,
}

impl Live {
    /// Reads `live.json` and `live-ec2.json` of the folder.
    ///
    /// # Errors
    /// Returns an error if a file exists but is invalid.
    pub fn read(folder: &Path) -> anyhow::Result<Self> {
        let (kwok, ec2) = (rows::read(folder, FILE)?, rows::read(folder, EC2_FILE)?);
        let mut stages = Vec::new();
        for scenario in rows::scenarios(&kwok) {
            stages.extend(Stages::read(folder, scenario)?);
        }
        Ok(Self { kwok, ec2, stages })
    }

    /// Writes the charts of the stages into a folder.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub fn draw(&self, folder: &Path) -> anyhow::Result<()> {
        for stages in &self.stages {
            let path = folder.join(stages.file());
            fs::write(&path, stages.chart()).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    /// Returns the day of the measurement.
    ///
    /// # Errors
    /// Returns an error without any measurement.
    pub fn day(folder: &Path) -> anyhow::Result<String> {
        let written = fs::metadata(folder.join(FILE)).and_then(|file| file.modified());
        let written = written.with_context(|| format!("{FILE} in {}: run make peers-live first", folder.display()))?;
        Ok(Timestamp::try_from(written)?.strftime("%Y-%m-%d").to_string())
    }
}

impl fmt::Display for Live {
    fn fmt(&self, page: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kwok.is_empty() {
            return Ok(());
        }
        writeln!(page, "\n## The controller, beside Karpenter's, on a real control plane\n")?;
        for line in [
            "`make peers-live` runs Kerf's controller from its image and Karpenter 1.14.1 with its kwok provider, one after the other. Each",
            "scenario has a new Kubernetes 1.36 control plane with the real kube-scheduler.\n",
            "- Both have the same instance types, on-demand prices and default settings. An instance starts within 1 s; a pod stops within",
            "  5 s. Nodes and kubelets are simulated (`tests/live`); no machine boots.",
            "- Kerf launches by the EC2 API on an emulation. The kwok provider writes Nodes directly.",
            "- Times start with the last pod. In `backlog` all pods are pending before; times start with the controller.",
            "- `give-back-s`: 30 % of the pods are deleted, with budgets of 10 %; seconds until the cost is within 2 % of its final value.",
            "  With `drift`: seconds until every node is replaced.",
            "- `as-cheap-s`: seconds until the cost is at the final value of the more expensive side.",
            "- A dash: not within 20 minutes. `rss-peak-mib` and `cpu-s` are of the whole process, start included.\n",
        ] {
            writeln!(page, "{line}")?;
        }
        rows::table(page, "Karpenter", &self.kwok)?;
        self.write_stages(page)?;
        if self.ec2.is_empty() {
            return Ok(());
        }
        writeln!(
            page,
            "\nThe same scenarios beside Karpenter 1.14.1 with its AWS provider. Both launch on the emulated EC2.\n"
        )?;
        rows::table(page, "Karpenter on EC2", &self.ec2)
    }
}

impl Live {
    fn write_stages(&self, page: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.stages.is_empty() {
            return Ok(());
        }
        writeln!(
            page,
            "\nSeconds until half of the objects, and all of them, had reached a stage. `unschedulable`: kube-scheduler found no node"
        )?;
        writeln!(
            page,
            "for the pod. `schedulable`: the Node is Ready and has no taint `NoSchedule` or `NoExecute`.\n"
        )?;
        writeln!(page, "| stage | Kerf: half | all | Karpenter: half | all |\n|---|---|---|---|---|")?;
        self.stages.iter().try_for_each(|stages| stages.rows(page))?;
        for stages in &self.stages {
            let file = stages.file();
            writeln!(page, "\n![Share of pods and nodes that reached each stage]({PICTURES}/{file})")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Live;

    #[test]
    fn live_prints_a_dash_when_one_side_has_no_value() {
        let rows = r#"[
            {"measure": "wide/first-claim-s", "ours": 0.4, "peer": 2.0, "ratio": 5.0, "unit": "s"},
            {"measure": "wide/give-back-s", "ours": 60.0, "peer": null, "ratio": null, "unit": "s"},
            {"measure": "drift/give-back-s", "ours": null, "peer": 70.0, "ratio": null, "unit": "s"}
        ]"#;
        let kwok = serde_json::from_str(rows).unwrap();
        let ec2 = serde_json::from_str(r#"[{"measure": "wide/cpu-s", "ours": 1, "peer": 3, "ratio": 3, "unit": "s"}]"#);
        let page = Live { kwok, ec2: ec2.unwrap(), stages: Vec::new() }.to_string();
        assert!(page.contains("| measure | Kerf | Karpenter on EC2 |"), "{page}");
        assert!(page.contains("| wide/cpu-s | 1.000 | 3.000 | 3.0 | s |"), "{page}");
        assert!(page.contains("| wide/first-claim-s | 0.400 | 2.000 | 5.0 | s |"), "{page}");
        assert!(page.contains("| wide/give-back-s | 60.000 | – | – | s |"), "{page}");
        assert!(page.contains("| drift/give-back-s | – | 70.000 | – | s |"), "{page}");
        assert_eq!(Live::default().to_string(), "");
    }

    #[test]
    fn live_shows_and_draws_stages_of_measured_scenarios() {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, content: &str| std::fs::write(folder.path().join(file), content).unwrap();
        let row = r#"[{"measure": "wide/cpu-s", "ours": 1, "peer": 3, "ratio": 3, "unit": "s"}]"#;
        write("live.json", row);
        for scenario in ["wide", "unmeasured"] {
            for side in ["kerf", "karpenter"] {
                write(&format!("live-{scenario}-{side}-stages.csv"), "stage,name,seconds\nbound,a,1.5\n");
            }
        }
        let live = Live::read(folder.path()).unwrap();
        let page = live.to_string();
        assert!(page.contains("| wide/bound | 1.5 | 1.5 | 1.5 | 1.5 |"), "{page}");
        assert!(page.contains("](pictures/live-wide.svg)") && !page.contains("unmeasured"), "{page}");
        live.draw(folder.path()).unwrap();
        let chart = std::fs::read_to_string(folder.path().join("live-wide.svg")).unwrap();
        assert!(chart.contains(">bound<"), "{chart}");
    }
}
