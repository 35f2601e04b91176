//! `kerf-agent doctor`: checks once everything that a node needs from its environment, and reports remedies. The command
//! changes nothing.

pub mod image;

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp, Unit};
use serde::Serialize;

use crate::aws::identity::Role;
use crate::aws::imds::Imds;
use crate::bootstrap::BootstrapState;
use crate::bootstrap::observe;
use crate::cluster::{Access, Cluster, Credentials};
use crate::run::journal::Journal;

/// Time limit for each call to the API server.
const CALL: Duration = Duration::from_secs(5);
/// Least skew of the clock that is an error. EKS refuses the tokens of a clock that is further off, and certificates may not be
/// valid yet.
const CLOCK: SignedDuration = SignedDuration::from_mins(4);

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DoctorVerdict {
    /// The check passed.
    Ok,
    /// The object of the check is not needed at once, or does not exist yet.
    Warning,
    /// The node cannot work.
    Broken,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DoctorFinding {
    /// Object of the check.
    pub check: &'static str,
    /// Result of the check.
    pub verdict: DoctorVerdict,
    /// One sentence: the state, or the problem and its remedy.
    pub says: String,
}

/// All checks, in the order of their dependencies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Diagnosis {
    /// Results of the checks.
    pub findings: Vec<DoctorFinding>,
}

impl Diagnosis {
    /// Reports whether no check found the node broken.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.findings.iter().all(|finding| finding.verdict != DoctorVerdict::Broken)
    }

    fn note(&mut self, check: &'static str, verdict: DoctorVerdict, says: impl Into<String>) {
        self.findings.push(DoctorFinding { check, verdict, says: says.into() });
    }

    /// Records a passed check, or an error with its causes.
    fn record(&mut self, check: &'static str, result: Result<String, &(dyn Error + 'static)>) {
        match result {
            Ok(says) => self.note(check, DoctorVerdict::Ok, says),
            Err(error) => self.note(check, DoctorVerdict::Broken, daemon::error::chain(error)),
        }
    }
}

impl Display for Diagnosis {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        for DoctorFinding { check, verdict, says } in &self.findings {
            let mark = match verdict {
                DoctorVerdict::Ok => "ok",
                DoctorVerdict::Warning => "warn",
                DoctorVerdict::Broken => "error",
            };
            writeln!(out, "{mark:<5} {check:<12} {says}")?;
        }
        Ok(())
    }
}

/// Checks the machine below `root`.
pub async fn examine(root: &Path, imds: Arc<Imds>, fips: bool) -> Diagnosis {
    let mut found = Diagnosis::default();
    let instance = metadata(&mut found, &imds).await;
    let role = Arc::new(Role::new(imds).with_fips(fips));
    let access = files(&mut found, root);
    if access.as_ref().is_none_or(|access| matches!(access.credentials, Credentials::Exec(_))) {
        let credentials = role.credentials(Timestamp::now()).await;
        let says = credentials.as_ref().map(|it| format!("{}, credentials until {}", it.role, it.end));
        found.record("role", says.map_err(|error| error as &dyn Error));
    }
    if let Some(access) = access {
        let cluster = Cluster::new(access, CALL).with_role(role);
        api(&mut found, &cluster, root, instance.as_deref()).await;
    }
    found
}

/// Checks the metadata service, and returns the instance id.
async fn metadata(found: &mut Diagnosis, imds: &Imds) -> Option<String> {
    let identity = imds.identity().await;
    let says =
        identity.as_ref().map(|it| format!("{} ({}) in {}", it.instance_id, it.instance_type, it.availability_zone));
    found.record("metadata", says.map_err(|error| error as &dyn Error));
    identity.ok().map(|it| it.instance_id)
}

/// Checks the files of bootstrap, kubelet and the agent. Returns the access to the API server.
fn files(found: &mut Diagnosis, root: &Path) -> Option<Access> {
    match BootstrapState::read(root) {
        Some(BootstrapState::Done { .. }) => found.note("bootstrap", DoctorVerdict::Ok, "done"),
        Some(state) => found.note("bootstrap", DoctorVerdict::Broken, state.to_string()),
        None => found.note(
            "bootstrap",
            DoctorVerdict::Warning,
            "no report in this boot; see `systemctl status kerf-agent-bootstrap`",
        ),
    }
    if let Some(other) = observe::other(root) {
        found.note(
            "bootstrap",
            DoctorVerdict::Ok,
            format!("{} configures this node; the agent only observes", other.name()),
        );
    }
    match Journal::peek(root) {
        Some(journal) => found.note("journal", DoctorVerdict::Ok, format!("of {}", journal.instance)),
        None => found.note(
            "journal",
            DoctorVerdict::Warning,
            "missing or not readable (are you root?); see `systemctl status kerf-agent`",
        ),
    }
    let path = observe::kubeconfig(root);
    let access = Access::read(root, &path);
    let server =
        |access: &Access| format!("{} for {}, by {}", path.display(), access.server(), access.credentials.describe());
    found.record("kubeconfig", access.as_ref().map(server).map_err(|error| error as &dyn Error));
    match observe::node_name(root) {
        Some(name) => found.note("node name", DoctorVerdict::Ok, name),
        None => found.note(
            "node name",
            DoctorVerdict::Warning,
            "kubelet's command line has no --hostname-override; using the host name from metadata",
        ),
    }
    access.ok()
}

async fn api(found: &mut Diagnosis, cluster: &Cluster, root: &Path, instance: Option<&str>) {
    let name = observe::node_name(root).unwrap_or_default();
    match cluster.node(&name).await {
        Err(error) => found.note("api server", DoctorVerdict::Broken, daemon::error::chain(&error)),
        Ok(node) => {
            found.note("api server", DoctorVerdict::Ok, "reachable, credentials accepted");
            let id = node.map(|node| node.spec.provider_id);
            registered(found, &name, id.as_deref(), instance);
        }
    }
    let behind = cluster.clock_is_behind();
    let behind = behind.round(Unit::Minute).unwrap_or(behind);
    match behind.abs() < CLOCK {
        true => found.note("clock", DoctorVerdict::Ok, "as the API server's"),
        false => found.note(
            "clock",
            DoctorVerdict::Broken,
            format!("{behind:#} behind the API server's; correct it (see `chronyc tracking`)"),
        ),
    }
}

fn registered(found: &mut Diagnosis, name: &str, provider_id: Option<&str>, instance: Option<&str>) {
    let of = provider_id.and_then(|id| id.rsplit('/').next());
    match (provider_id, instance) {
        (None, _) => found.note(
            "node",
            DoctorVerdict::Warning,
            format!("kubelet did not register {name}; see `journalctl -u kubelet`"),
        ),
        (Some(id), Some(instance)) if of != Some(instance) => {
            let cure = "delete the Node if that instance is terminated, else rename this one";
            found.note("node", DoctorVerdict::Broken, format!("{name} belongs to another instance ({id}): {cure}"));
        }
        (Some(id), _) => found.note("node", DoctorVerdict::Ok, format!("{name} belongs to this instance ({id})")),
    }
}
