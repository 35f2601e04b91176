//! A real Kubernetes control plane on loopback, for one test or one demo: etcd, kube-apiserver and, where wanted,
//! kube-controller-manager and kube-scheduler, each a process with its own log in one run folder.
//!
//! Authorization is Node and RBAC, with NodeRestriction, as on EKS. A full one takes about ten seconds and 650 MB, so
//! tests share one where they can: a `static` [`tokio::sync::OnceCell`] may hold it (the processes end with the test
//! binary), but each test makes its own client, because a client belongs to the runtime it was made in.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, Config};

use crate::eventually;
use crate::kubeconfig;
use crate::pki::{Authority, ServiceAccountKey, write_private};
use crate::process::{Process, RunFolder, stop_in_order};

mod binaries;
mod chart;
mod crds;
mod flags;
mod ledger;
mod ports;

use binaries::Binaries;
use flags::Layout;
use ports::Ports;

pub use chart::render_rights;
pub use ledger::{Asked, Ending};

/// How long each step of the start may take; generous, because the machine may be building something else.
const START: Duration = Duration::from_secs(120);

/// How long each component may take to end by itself before it is killed.
const GRACE: Duration = Duration::from_secs(30);

/// The controller, as the chart's release `karpenter` in kube-system calls it.
pub const CONTROLLER: &str = "system:serviceaccount:kube-system:karpenter";

/// How often to begin again when somebody took a port between our choice and a component's start.
const PORT_TRIES: u32 = 3;

/// One program of the control plane. The order is that of starting; stopping goes backwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// The store.
    Etcd,
    /// The API server.
    ApiServer,
    /// Controllers of Deployments, DaemonSets, service accounts, garbage and so on.
    ControllerManager,
    /// The scheduler.
    Scheduler,
}

impl Component {
    /// The program's name, which is also the name of its log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
        }
    }
}

/// What to start.
#[derive(Debug, Clone)]
pub struct Options {
    /// Part of the run folder's name, so that a person can tell runs apart.
    pub name: String,
    /// The components, of which etcd and the API server are always started.
    pub components: Vec<Component>,
    /// Further flags, given after our own, such as `(ControllerManager, "--node-monitor-grace-period=20s")`.
    pub flags: Vec<(Component, String)>,
}

impl Options {
    /// All four components: Deployments become pods, pods are scheduled.
    #[must_use]
    pub fn full(name: &str) -> Self {
        Self {
            components: vec![Component::Etcd, Component::ApiServer, Component::ControllerManager, Component::Scheduler],
            ..Self::api_server(name)
        }
    }

    /// etcd and the API server alone: objects are validated and stored, nothing acts on them.
    #[must_use]
    pub fn api_server(name: &str) -> Self {
        Self { name: name.to_owned(), components: vec![Component::Etcd, Component::ApiServer], flags: Vec::new() }
    }

    /// With one further flag for one component.
    #[must_use]
    pub fn with_flag(mut self, component: Component, flag: &str) -> Self {
        self.flags.push((component, flag.to_owned()));
        self
    }
}

/// A running control plane. Dropping it kills its processes; [`ControlPlane::stop`] lets them end in good order.
pub struct ControlPlane {
    // Dropped from the last to the first: nobody may lose the server it still talks to.
    processes: Vec<(Component, Process)>,
    authority: Authority,
    ports: Ports,
    folder: RunFolder,
}

impl ControlPlane {
    /// Starts what `options` ask for and returns when it answers: `/readyz` of the API server, the default
    /// ServiceAccount (without which no pod can be created), `/readyz` of the scheduler.
    ///
    /// The programs come from the folder `KUBEBUILDER_ASSETS` when it holds all that is needed, else from
    /// `tests/controlplane`, which is built once into `KERF_CACHE` (default `~/.cache/kerf`).
    ///
    /// # Errors
    /// When a component cannot be built or started, ends, or does not answer in time. Names the run folder, which is then
    /// kept, and shows the end of the log.
    pub async fn start(options: Options) -> Result<Self> {
        kubeconfig::install_tls();
        let needed = options.components.clone();
        let binaries = tokio::task::spawn_blocking(move || Binaries::find(&needed))
            .await
            .context("the search for the control plane's programs was cut short")??;
        let mut tries = 1;
        loop {
            let mut control_plane = Self::prepare(&options.name)?;
            let Err(error) = control_plane.launch_all(&binaries, &options).await else {
                return Ok(control_plane);
            };
            if tries < PORT_TRIES && control_plane.lost_a_port() {
                tries += 1;
                continue;
            }
            control_plane.folder.keep();
            let folder = control_plane.folder.path().display();
            return Err(error.context(format!("the control plane did not start; its logs are in {folder}")));
        }
    }

    /// The run folder: `NAME.log` of each component, certificates and keys, etcd's data.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Keeps the run folder after the end: somebody will want to read its logs.
    pub fn keep_logs(&self) {
        self.folder.keep();
    }

    /// The API server, such as `https://127.0.0.1:20443`.
    #[must_use]
    pub fn url(&self) -> String {
        self.ports.url(Component::ApiServer)
    }

    /// The cluster's certificate authority, to which all clients and servers belong.
    #[must_use]
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Every request for a pod's end so far, refused ones too, as the API server itself wrote it down.
    ///
    /// # Errors
    /// When its log cannot be read.
    pub fn endings(&self) -> Result<Vec<Ending>> {
        ledger::endings(&self.layout().file(flags::AUDIT_LOG))
    }

    /// Every request of [`CONTROLLER`] so far, refused ones too, as the API server itself wrote it down.
    ///
    /// # Errors
    /// When its log cannot be read.
    pub fn asked_by_controller(&self) -> Result<Vec<Asked>> {
        ledger::asked_by(&self.layout().file(flags::AUDIT_LOG), CONTROLLER)
    }

    /// Process ids of what runs, in the order of starting.
    #[must_use]
    pub fn pids(&self) -> Vec<(Component, u32)> {
        self.processes.iter().map(|(component, process)| (*component, process.id())).collect()
    }

    /// The process of one component, to pause, kill or inspect it; `None` when it was not started.
    pub fn process(&mut self, component: Component) -> Option<&mut Process> {
        self.processes.iter_mut().find_map(|(which, process)| (*which == component).then_some(process))
    }

    /// A kubeconfig text, without references to files, for any user in any one group.
    ///
    /// # Errors
    /// When the certificate cannot be signed.
    pub fn kubeconfig(&self, user: &str, group: &str) -> Result<String> {
        let credentials = self.authority.client(user, group)?;
        Ok(kubeconfig::render(&self.url(), self.authority.certificate(), &credentials))
    }

    /// The kubeconfig file of the administrator, for `kubectl` and for people.
    #[must_use]
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.layout().kubeconfig("admin")
    }

    /// The kubeconfig file of the controller, which may do what the chart lets it do once [`ControlPlane::apply_rights`] has run.
    #[must_use]
    pub fn controller_kubeconfig(&self) -> PathBuf {
        self.layout().kubeconfig("controller")
    }

    /// A client for any user in any one group. It shows every answer as it came: kube's own retry of 429, 503 and 504 is off.
    ///
    /// # Errors
    /// When the certificate cannot be signed.
    pub async fn client_for(&self, user: &str, group: &str) -> Result<Client> {
        kubeconfig::from_config(self.config_for(user, group).await?)
    }

    /// A client that may do everything (`system:masters`).
    ///
    /// # Errors
    /// As [`ControlPlane::client_for`].
    pub async fn admin(&self) -> Result<Client> {
        self.client_for("admin", "system:masters").await
    }

    /// Applies Kerf's CRDs and waits until the API server serves each of them.
    ///
    /// # Errors
    /// When one is refused or is not served in time; names it.
    pub async fn apply_crds(&self) -> Result<()> {
        self.apply_crds_of(&api::crds()).await
    }

    /// Applies CRDs of others and waits until the API server serves each of them.
    ///
    /// # Errors
    /// As [`ControlPlane::apply_crds`].
    pub async fn apply_crds_of(&self, definitions: &[CustomResourceDefinition]) -> Result<()> {
        crds::apply(&self.admin().await?, definitions).await
    }

    /// Applies what the chart grants and forbids the controller and nodes: roles and admission policies. Policies hold a moment later.
    ///
    /// # Errors
    /// When Helm cannot be built, or a manifest is refused; names it.
    pub async fn apply_rights(&self) -> Result<()> {
        chart::apply_rights(&self.admin().await?).await
    }

    /// Ends scheduler, controller manager, API server and etcd, each waited for before the next: an API server whose etcd
    /// is gone would hang in its graceful stop and keep its port. Returns the names of those that had to be killed.
    ///
    /// # Errors
    /// When a process cannot be ended.
    pub async fn stop(mut self) -> Result<Vec<String>> {
        let mut processes = std::mem::take(&mut self.processes);
        processes.sort_by_key(|(component, _)| std::cmp::Reverse(*component));
        stop_in_order(processes.into_iter().map(|(_, process)| process), GRACE).await
    }

    /// Chooses ports and writes keys, certificates and kubeconfigs.
    fn prepare(name: &str) -> Result<Self> {
        let control_plane = Self {
            processes: Vec::new(),
            authority: Authority::create()?,
            ports: Ports::choose()?,
            folder: RunFolder::create(name)?,
        };
        control_plane.write_files()?;
        Ok(control_plane)
    }

    fn layout(&self) -> Layout<'_> {
        Layout { folder: self.folder.path(), ports: &self.ports }
    }

    fn write_files(&self) -> Result<()> {
        let layout = self.layout();
        let server = self.authority.server()?;
        let service_account = ServiceAccountKey::generate()?;
        for (name, text) in [
            (flags::AUTHORITY, self.authority.certificate()),
            (flags::AUTHORITY_KEY, &self.authority.key()),
            (flags::SERVER, &server.certificate),
            (flags::SERVER_KEY, &server.key),
            (flags::SERVICE_ACCOUNT_KEY, &service_account.private),
            (flags::SERVICE_ACCOUNT_PUBLIC_KEY, &service_account.public),
        ] {
            write_private(&layout.file(name), text)?;
        }
        write_private(&layout.file(flags::AUDIT_POLICY), include_str!("controlplane/audit.yaml"))?;
        for (name, user, group) in [
            ("admin", "admin", "system:masters"),
            ("controller", CONTROLLER, "system:serviceaccounts"),
            ("kube-controller-manager", "system:kube-controller-manager", ""),
            ("kube-scheduler", "system:kube-scheduler", ""),
        ] {
            write_private(&layout.kubeconfig(name), &self.kubeconfig(user, group)?)?;
        }
        Ok(())
    }

    async fn launch_all(&mut self, binaries: &Binaries, options: &Options) -> Result<()> {
        let wants = |component| options.components.contains(&component);
        self.launch(Component::Etcd, binaries, options)?;
        self.launch(Component::ApiServer, binaries, options)?;
        self.await_answer(Component::ApiServer, "/readyz").await?;
        if wants(Component::ControllerManager) {
            self.launch(Component::ControllerManager, binaries, options)?;
        }
        if wants(Component::Scheduler) {
            self.launch(Component::Scheduler, binaries, options)?;
            self.await_answer(Component::Scheduler, "/readyz").await?;
        }
        if wants(Component::ControllerManager) {
            self.await_answer(Component::ControllerManager, "/healthz").await?;
            self.await_service_account().await?;
        }
        Ok(())
    }

    fn launch(&mut self, component: Component, binaries: &Binaries, options: &Options) -> Result<()> {
        let further = options.flags.iter().filter(|(which, _)| *which == component).map(|(_, flag)| flag);
        let mut command: Command = binaries.command(component);
        command.args(self.layout().flags(component)).args(further).current_dir(self.folder.path());
        let process = Process::spawn(component.name(), command, &self.folder.log(component.name()))?;
        self.processes.push((component, process));
        Ok(())
    }

    /// Waits until `path` of a component's own server answers with a success.
    async fn await_answer(&mut self, component: Component, path: &str) -> Result<()> {
        let mut config = self.config_for("admin", "system:masters").await?;
        config.cluster_url = self.ports.url(component).parse().context("not an address to ask")?;
        config.read_timeout = Some(Duration::from_secs(5));
        let client = kubeconfig::from_config(config)?;
        let what = format!("{path} of {}", component.name());
        self.while_alive(eventually(&what, START, async || {
            let request = http::Request::get(path).body(Vec::new())?;
            client.request_text(request).await?;
            Ok(Some(()))
        }))
        .await
    }

    async fn await_service_account(&mut self) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin().await?, "default");
        self.while_alive(eventually("the default ServiceAccount", START, async || {
            Ok(accounts.get_opt("default").await?.map(drop))
        }))
        .await
    }

    /// Waits for `goal`, but not longer than all processes live.
    async fn while_alive<T>(&mut self, goal: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            result = goal => result.map_err(|error| match self.processes.last() {
                Some((_, newest)) => error.context(newest.obituary()),
                None => error,
            }),
            error = first_death(&mut self.processes) => Err(error),
        }
    }

    /// Whether a component ended because its port was taken.
    fn lost_a_port(&mut self) -> bool {
        self.processes.iter_mut().any(|(_, process)| {
            matches!(process.ended(), Ok(Some(_))) && process.log_tail(50).contains("address already in use")
        })
    }

    async fn config_for(&self, user: &str, group: &str) -> Result<Config> {
        let mut config = kubeconfig::config(&self.kubeconfig(user, group)?).await?;
        config.default_retry = false;
        Ok(config)
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        while self.processes.pop().is_some() {}
    }
}

/// Returns when one of the processes has ended, and says how.
async fn first_death(processes: &mut [(Component, Process)]) -> anyhow::Error {
    loop {
        for (_, process) in processes.iter_mut() {
            match process.ended() {
                Ok(None) => {}
                Ok(Some(_)) => return anyhow!(process.obituary()),
                Err(error) => return error,
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
