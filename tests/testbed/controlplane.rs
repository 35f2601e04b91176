//! Real Kubernetes control plane on loopback, for one test or one demo: etcd, kube-apiserver and optionally
//! kube-controller-manager and kube-scheduler. Each is a process with its own log in one run folder.
//!
//! Authorization is Node and RBAC, with NodeRestriction, as on EKS. A full control plane takes about ten seconds to start and
//! 650 MB of memory, so tests share one if possible. A `static` [`tokio::sync::OnceCell`] may hold it, because the processes
//! end with the test binary. Each test must create its own client, because a client belongs to the runtime that created it.

use std::net::SocketAddr;
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

mod audit_log;
mod binaries;
mod chart;
mod crds;
mod flags;
pub mod ports;

use binaries::Binaries;
use flags::Layout;
use ports::Ports;

pub use audit_log::{AuditedRequest, PodRemoval};
pub use chart::Account;

/// Time limit of each step of the start; generous, because other builds may use the machine.
const START: Duration = Duration::from_secs(120);

/// Grace period for each component before it is killed.
const GRACE: Duration = Duration::from_secs(30);

/// User name of the controller, for the chart's release `karpenter` in kube-system.
pub const CONTROLLER: &str = Account::Controller.user();

/// Addresses of Services.
pub const SERVICE_CIDR: &str = "10.96.0.0/16";

/// Most attempts to start when another process takes a chosen port before the component starts.
const PORT_TRIES: u32 = 3;

/// One program of the control plane, in the order of starting; the order of stopping is the reverse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// Key-value store.
    Etcd,
    /// API server.
    ApiServer,
    /// Controllers of Deployments, DaemonSets, service accounts, garbage collection and so on.
    ControllerManager,
    /// Scheduler.
    Scheduler,
}

impl Component {
    /// Returns the name of the program, which is also the name of its log.
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

/// Configuration of a control plane.
#[derive(Debug, Clone)]
pub struct Options {
    /// Part of the run folder's name, to distinguish runs.
    pub name: String,
    /// Components to start; etcd and the API server are always started.
    pub components: Vec<Component>,
    /// Additional flags after the default ones, such as `(ControllerManager, "--node-monitor-grace-period=20s")`.
    pub flags: Vec<(Component, String)>,
}

impl Options {
    /// Returns options for all four components: Deployments become pods, pods are scheduled.
    #[must_use]
    pub fn full(name: &str) -> Self {
        Self {
            components: vec![Component::Etcd, Component::ApiServer, Component::ControllerManager, Component::Scheduler],
            ..Self::api_server(name)
        }
    }

    /// Returns options for etcd and the API server alone: objects are validated and stored, but no controller reconciles them.
    #[must_use]
    pub fn api_server(name: &str) -> Self {
        Self { name: name.to_owned(), components: vec![Component::Etcd, Component::ApiServer], flags: Vec::new() }
    }

    /// Adds a flag for one component.
    #[must_use]
    pub fn with_flag(mut self, component: Component, flag: &str) -> Self {
        self.flags.push((component, flag.to_owned()));
        self
    }
}

/// Running control plane. Dropping it kills its processes; [`ControlPlane::stop`] stops them gracefully.
pub struct ControlPlane {
    // Dropped from the last to the first, so that no process loses a server that it uses.
    processes: Vec<(Component, Process)>,
    authority: Authority,
    ports: Ports,
    folder: RunFolder,
}

impl ControlPlane {
    /// Starts the components of `options` and waits for `/readyz` of the API server, the default ServiceAccount, and `/readyz`
    /// of the scheduler. No pod can be created without the ServiceAccount.
    ///
    /// The programs come from the folder `KUBEBUILDER_ASSETS` if it contains all of them, else from `tests/controlplane`, which
    /// is built once into `KERF_CACHE` (default `~/.cache/kerf`).
    ///
    /// # Errors
    /// Returns an error if a component cannot be built or started, ends, or is not ready in time. The error contains the run
    /// folder, which is kept, and the end of the log.
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

    /// Returns the run folder: `NAME.log` of each component, certificates and keys, etcd's data.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Keeps the run folder with its logs after the end.
    pub fn keep_logs(&self) {
        self.folder.keep();
    }

    /// Returns the URL of the API server, such as `https://127.0.0.1:20443`.
    #[must_use]
    pub fn url(&self) -> String {
        self.ports.url(Component::ApiServer)
    }

    /// Returns the address of the API server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.ports.address(Component::ApiServer)
    }

    /// Returns the cluster's certificate authority, which signs the certificates of all clients and servers.
    #[must_use]
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Returns every request so far that evicts or deletes a pod, including rejected ones, from the API server's audit log.
    ///
    /// # Errors
    /// Returns an error if the audit log cannot be read.
    pub fn removals(&self) -> Result<Vec<PodRemoval>> {
        audit_log::removals(&self.layout().file(flags::AUDIT_LOG))
    }

    /// Returns every request of an account so far, including rejected ones, from the API server's audit log.
    ///
    /// # Errors
    /// Returns an error if the audit log cannot be read.
    pub fn requests_of(&self, account: Account) -> Result<Vec<AuditedRequest>> {
        audit_log::requests_of(&self.layout().file(flags::AUDIT_LOG), account.user())
    }

    /// Returns the process ids of the running components, in the order of starting.
    #[must_use]
    pub fn pids(&self) -> Vec<(Component, u32)> {
        self.processes.iter().map(|(component, process)| (*component, process.id())).collect()
    }

    /// Returns the process of one component, to pause, kill or inspect it; `None` if it was not started.
    pub fn process(&mut self, component: Component) -> Option<&mut Process> {
        self.processes.iter_mut().find_map(|(which, process)| (*which == component).then_some(process))
    }

    /// Returns a kubeconfig without references to files, for any user in one group.
    ///
    /// # Errors
    /// Returns an error if the certificate cannot be signed.
    pub fn kubeconfig(&self, user: &str, group: &str) -> Result<String> {
        let credentials = self.authority.client(user, group)?;
        Ok(kubeconfig::render(&self.url(), self.authority.certificate(), &credentials))
    }

    /// Returns the kubeconfig file of the administrator, for `kubectl` and for people.
    #[must_use]
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.layout().kubeconfig("admin")
    }

    /// Returns the kubeconfig file of an account, which has the chart's permissions after [`ControlPlane::apply_rights`].
    #[must_use]
    pub fn kubeconfig_of(&self, account: Account) -> PathBuf {
        self.layout().kubeconfig(match account {
            Account::Controller | Account::Kwok => "controller",
            Account::Observer => "observer",
        })
    }

    /// Returns a client for any user in one group. The client returns every response unchanged: kube's own retry of 429, 503
    /// and 504 is disabled.
    ///
    /// # Errors
    /// Returns an error if the certificate cannot be signed.
    pub async fn client_for(&self, user: &str, group: &str) -> Result<Client> {
        kubeconfig::from_config(self.config_for(user, group).await?)
    }

    /// Returns a client with all permissions (`system:masters`).
    ///
    /// # Errors
    /// Returns the errors of [`ControlPlane::client_for`].
    pub async fn admin(&self) -> Result<Client> {
        self.client_for("admin", "system:masters").await
    }

    /// Applies Kerf's CRDs and waits until the API server serves each of them.
    ///
    /// # Errors
    /// Returns an error with the CRD's name if it is rejected or not served in time.
    pub async fn apply_crds(&self) -> Result<()> {
        self.apply_crds_of(&api::crds()).await
    }

    /// Applies other CRDs and waits until the API server serves each of them.
    ///
    /// # Errors
    /// Returns the errors of [`ControlPlane::apply_crds`].
    pub async fn apply_crds_of(&self, definitions: &[CustomResourceDefinition]) -> Result<()> {
        crds::apply(&self.admin().await?, definitions).await
    }

    /// Applies the chart's roles and admission policies for a controller, and for nodes. Policies take effect a moment later.
    ///
    /// # Errors
    /// Returns an error if a manifest is rejected; the error contains its name.
    pub async fn apply_rights(&self, account: Account) -> Result<()> {
        chart::apply_rights(&self.admin().await?, account).await
    }

    /// Stops scheduler, controller manager, API server and etcd, one after the other: an API server without etcd would hang in
    /// its graceful stop and keep its port. Returns the names of the components that had to be killed.
    ///
    /// # Errors
    /// Returns an error if a process cannot be stopped.
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
            ("controller", Account::Controller.user(), "system:serviceaccounts"),
            ("observer", Account::Observer.user(), "system:serviceaccounts"),
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

    /// Waits until `path` of a component's own server returns a success.
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

    /// Waits for `goal` while all processes run.
    async fn while_alive<T>(&mut self, goal: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            result = goal => result.map_err(|error| match self.processes.last() {
                Some((_, newest)) => error.context(newest.exit_report()),
                None => error,
            }),
            error = first_exit(&mut self.processes) => Err(error),
        }
    }

    /// Reports whether a component ended because its port was in use.
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

/// Waits until one of the processes has ended, and returns its exit as an error.
async fn first_exit(processes: &mut [(Component, Process)]) -> anyhow::Error {
    loop {
        for (_, process) in processes.iter_mut() {
            match process.ended() {
                Ok(None) => {}
                Ok(Some(_)) => return anyhow!(process.exit_report()),
                Err(error) => return error,
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
