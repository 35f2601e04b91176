//! Real Helm as users run it, with its own home folder: tests see the same rendered objects, installations and messages.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use go_programs::go_program;
use kube::api::DynamicObject;
use tempfile::TempDir;

/// Major version of Helm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Newest Helm 3.
    Three,
    /// Newest Helm 4.
    Four,
}

impl Version {
    /// Both versions, the older one first.
    pub const ALL: [Self; 2] = [Self::Three, Self::Four];

    fn folder(self) -> &'static str {
        match self {
            Self::Three => "helm/helm3",
            Self::Four => "helm/helm4",
        }
    }
}

/// Release of a chart.
#[derive(Clone, Copy, Debug)]
pub struct Release {
    /// Name of the release.
    pub name: &'static str,
    /// Namespace of the release.
    pub namespace: &'static str,
}

/// Helm with its caches and settings in its own folder.
pub struct Helm {
    program: PathBuf,
    home: TempDir,
    kubeconfig: Option<PathBuf>,
}

impl Helm {
    /// Finds this Helm, which is built once into the cache; the first build takes minutes. No cluster is configured.
    ///
    /// # Errors
    /// Returns an error if Helm cannot be built.
    pub fn find(version: Version) -> Result<Self> {
        let program = go_program(version.folder())?.join("helm");
        let home = tempfile::tempdir().context("cannot make a home for Helm")?;
        Ok(Self { program, home, kubeconfig: None })
    }

    /// Sets the cluster.
    #[must_use]
    pub fn on(mut self, kubeconfig: &Path) -> Self {
        self.kubeconfig = Some(kubeconfig.to_owned());
        self
    }

    /// Returns the folder of a chart in this repository: `chart` or `chart-crd`.
    #[must_use]
    pub fn chart(name: &str) -> PathBuf {
        root().join("controller").join(name)
    }

    /// Runs Helm and returns its output.
    ///
    /// # Errors
    /// Returns an error with Helm's message if it fails.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.args(arguments);
        self.finish(command)
    }

    /// Runs a shell line in the checkout, with this Helm as `helm`.
    ///
    /// # Errors
    /// Returns an error with the message of the command if it fails.
    pub fn shell(&self, line: &str, environment: &[(&str, &str)]) -> Result<String> {
        let folder = self.program.parent().context("Helm has no folder")?;
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", line]).current_dir(root());
        command.env("PATH", format!("{}:{path}", folder.display())).envs(environment.iter().copied());
        self.finish(command)
    }

    /// Renders the objects of a chart with these arguments, such as `--set` or `--values`, as release `karpenter` in
    /// kube-system.
    ///
    /// # Errors
    /// Returns an error if Helm fails, or if the result is no YAML.
    pub fn render(&self, chart: &Path, arguments: &[&str]) -> Result<Vec<DynamicObject>> {
        self.render_as(Release { name: "karpenter", namespace: "kube-system" }, chart, arguments)
    }

    /// Renders the objects of another release.
    ///
    /// # Errors
    /// Returns the errors of [`Helm::render`].
    pub fn render_as(&self, release: Release, chart: &Path, arguments: &[&str]) -> Result<Vec<DynamicObject>> {
        let (chart, Release { name, namespace }) = (chart.display().to_string(), release);
        let always = ["template", name, &chart, "--namespace", namespace, "--kube-version", "1.36.0"];
        let text = self.run(&[&always[..], arguments].concat())?;
        let documents = serde_saphyr::from_multiple::<Option<DynamicObject>>(&text).context("rendered no YAML")?;
        Ok(documents.into_iter().flatten().collect())
    }

    fn finish(&self, mut command: Command) -> Result<String> {
        for (name, folder) in [("HELM_CACHE_HOME", "cache"), ("HELM_CONFIG_HOME", "config"), ("HELM_DATA_HOME", "data")]
        {
            command.env(name, self.home.path().join(folder));
        }
        // Without a test cluster, Helm must not use a cluster of the user.
        let nowhere = self.home.path().join("no-cluster");
        command.env("KUBECONFIG", self.kubeconfig.as_deref().unwrap_or(&nowhere));
        let output = command.stdin(Stdio::null()).output().context("cannot run Helm")?;
        let Output { status, stdout, stderr } = output;
        let output = String::from_utf8_lossy(&stderr);
        ensure!(status.success(), "{}", output.trim());
        String::from_utf8(stdout).context("Helm prints no UTF-8")
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
