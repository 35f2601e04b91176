//! Command-line flags of each component, and the files that they refer to.

use std::path::{Path, PathBuf};

use super::ports::Ports;
use super::{Component, SERVICE_CIDR};

pub(super) const AUTHORITY: &str = "ca.crt";
pub(super) const AUTHORITY_KEY: &str = "ca.key";
pub(super) const SERVER: &str = "server.crt";
pub(super) const SERVER_KEY: &str = "server.key";
pub(super) const SERVICE_ACCOUNT_KEY: &str = "service-account.key";
pub(super) const SERVICE_ACCOUNT_PUBLIC_KEY: &str = "service-account.pub";
pub(super) const AUDIT_POLICY: &str = "audit.yaml";
pub(super) const AUDIT_LOG: &str = "audit.log";

/// Files of one run.
pub(super) struct Layout<'a> {
    pub(super) folder: &'a Path,
    pub(super) ports: &'a Ports,
}

impl Layout<'_> {
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(super) fn kubeconfig(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.kubeconfig"))
    }

    pub(super) fn flags(&self, component: Component) -> Vec<String> {
        match component {
            Component::Etcd => self.etcd(),
            Component::ApiServer => self.api_server(),
            Component::ControllerManager => self.controller_manager(),
            Component::Scheduler => self.client(component),
        }
    }

    fn etcd(&self) -> Vec<String> {
        let client = self.ports.url(Component::Etcd);
        let peer = self.ports.etcd_peer_url();
        vec![
            format!("--data-dir={}", self.file("etcd").display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            "--unsafe-no-fsync".to_owned(),
        ]
    }

    fn api_server(&self) -> Vec<String> {
        let mut flags = self.server(Component::ApiServer);
        flags.extend([
            format!("--etcd-servers={}", self.ports.url(Component::Etcd)),
            // Otherwise the API server requires a default route, which a machine without network lacks.
            "--advertise-address=127.0.0.1".to_owned(),
            // The API server cannot publish a loopback address as endpoint of the Service `kubernetes`, and would retry
            // forever.
            "--endpoint-reconciler-type=none".to_owned(),
            // Ends open watches at a stop; without this flag, the stop would wait a minute for open watches.
            "--shutdown-watch-termination-grace-period=1s".to_owned(),
            format!("--client-ca-file={}", self.path(AUTHORITY)),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            "--allow-privileged=true".to_owned(),
            format!("--service-cluster-ip-range={SERVICE_CIDR}"),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", self.path(SERVICE_ACCOUNT_PUBLIC_KEY)),
            format!("--service-account-signing-key-file={}", self.path(SERVICE_ACCOUNT_KEY)),
            format!("--audit-policy-file={}", self.path(AUDIT_POLICY)),
            format!("--audit-log-path={}", self.path(AUDIT_LOG)),
        ]);
        flags
    }

    fn controller_manager(&self) -> Vec<String> {
        let mut flags = self.client(Component::ControllerManager);
        flags.extend([
            "--use-service-account-credentials=true".to_owned(),
            format!("--root-ca-file={}", self.path(AUTHORITY)),
            format!("--service-account-private-key-file={}", self.path(SERVICE_ACCOUNT_KEY)),
            format!("--cluster-signing-cert-file={}", self.path(AUTHORITY)),
            format!("--cluster-signing-key-file={}", self.path(AUTHORITY_KEY)),
        ]);
        flags
    }

    /// Returns the common flags of the two clients of the API server. With their default limits, a Deployment's pods would
    /// appear at 20 per second, and every measured latency would be theirs.
    fn client(&self, component: Component) -> Vec<String> {
        let kubeconfig = self.kubeconfig(component.name());
        let mut flags = self.server(component);
        flags.extend([
            format!("--kubeconfig={}", kubeconfig.display()),
            "--leader-elect=false".to_owned(),
            "--kube-api-qps=1000".to_owned(),
            "--kube-api-burst=2000".to_owned(),
        ]);
        flags
    }

    fn server(&self, component: Component) -> Vec<String> {
        vec![
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.ports.of(component)),
            format!("--tls-cert-file={}", self.path(SERVER)),
            format!("--tls-private-key-file={}", self.path(SERVER_KEY)),
            "--profiling=false".to_owned(),
        ]
    }

    fn path(&self, name: &str) -> String {
        self.file(name).display().to_string()
    }
}
