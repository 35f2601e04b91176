//! Helm itself, as people run it, with a home of its own: what it renders, installs and says is what they get.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use go_programs::go_program;
use kube::api::DynamicObject;
use tempfile::TempDir;

/// Which Helm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Helm 3, the newest.
    Three,
    /// Helm 4, the newest.
    Four,
}

impl Version {
    /// Both, the older first.
    pub const ALL: [Self; 2] = [Self::Three, Self::Four];

    fn folder(self) -> &'static str {
        match self {
            Self::Three => "helm/helm3",
            Self::Four => "helm/helm4",
        }
    }
}

/// One Helm with its caches and settings in a folder of its own.
pub struct Helm {
    program: PathBuf,
    home: TempDir,
    kubeconfig: Option<PathBuf>,
}

impl Helm {
    /// That Helm, built once into the cache; the first time takes minutes. It knows no cluster.
    ///
    /// # Errors
    /// When it cannot be built.
    pub fn find(version: Version) -> Result<Self> {
        let program = go_program(version.folder())?.join("helm");
        let home = tempfile::tempdir().context("cannot make a home for Helm")?;
        Ok(Self { program, home, kubeconfig: None })
    }

    /// The same with a cluster.
    #[must_use]
    pub fn on(mut self, kubeconfig: &Path) -> Self {
        self.kubeconfig = Some(kubeconfig.to_owned());
        self
    }

    /// Where a chart of ours is: `chart` or `chart-crd`.
    #[must_use]
    pub fn chart(name: &str) -> PathBuf {
        root().join("controller").join(name)
    }

    /// Runs Helm and gives what it printed.
    ///
    /// # Errors
    /// When it fails: with what it said.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.args(arguments);
        self.finish(command)
    }

    /// Runs a line of a shell in the checkout, with this Helm as `helm`.
    ///
    /// # Errors
    /// When it fails: with what it said.
    pub fn shell(&self, line: &str, environment: &[(&str, &str)]) -> Result<String> {
        let folder = self.program.parent().context("Helm has no folder")?;
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", line]).current_dir(root());
        command.env("PATH", format!("{}:{path}", folder.display())).envs(environment.iter().copied());
        self.finish(command)
    }

    /// The objects that a chart makes of these arguments, such as `--set` or `--values`, as release `karpenter` in kube-system.
    ///
    /// # Errors
    /// When Helm refuses, or what it renders is no YAML.
    pub fn render(&self, chart: &Path, arguments: &[&str]) -> Result<Vec<DynamicObject>> {
        let chart = chart.display().to_string();
        let always = ["template", "karpenter", &chart, "--namespace", "kube-system", "--kube-version", "1.36.0"];
        let text = self.run(&[&always[..], arguments].concat())?;
        let documents = serde_saphyr::from_multiple::<Option<DynamicObject>>(&text).context("rendered no YAML")?;
        Ok(documents.into_iter().flatten().collect())
    }

    fn finish(&self, mut command: Command) -> Result<String> {
        for (name, folder) in [("HELM_CACHE_HOME", "cache"), ("HELM_CONFIG_HOME", "config"), ("HELM_DATA_HOME", "data")]
        {
            command.env(name, self.home.path().join(folder));
        }
        // Without a cluster of ours it must not find one of the user's.
        let nowhere = self.home.path().join("no-cluster");
        command.env("KUBECONFIG", self.kubeconfig.as_deref().unwrap_or(&nowhere));
        let output = command.stdin(Stdio::null()).output().context("cannot run Helm")?;
        let Output { status, stdout, stderr } = output;
        let said = String::from_utf8_lossy(&stderr);
        ensure!(status.success(), "{}", said.trim());
        String::from_utf8(stdout).context("Helm prints no UTF-8")
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
