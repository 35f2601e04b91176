//! Volume claims that allow one pod in the whole cluster (`ReadWriteOncePod`).

use std::collections::BTreeMap;
use std::sync::Arc;

use api::objects::PersistentVolumeClaim;

use crate::Input;
use crate::pods::ignored::{IgnoredReason, VolumeError};
use crate::pods::records::Record;
use crate::pods::{full_name, uid};

/// Access mode of a claim that allows one pod in the whole cluster.
const ONE_POD: &str = "ReadWriteOncePod";

/// Volume claims that allow one pod in the whole cluster, with the pods that use them.
#[derive(Default)]
pub(crate) struct SingleClaims {
    users: BTreeMap<String, Vec<(String, String)>>,
}

impl SingleClaims {
    /// Returns these claims with the bound pods that use them. Calls `records` only if such claims exist.
    pub(crate) fn new<'a>(input: &Input<'_>, records: impl FnOnce() -> Vec<&'a Record>) -> Self {
        let single = |claim: &&&Arc<PersistentVolumeClaim>| claim.spec.access_modes.iter().any(|it| it == ONE_POD);
        let named = |claim: &&Arc<PersistentVolumeClaim>| {
            let of = |name: &Option<String>| name.clone().unwrap_or_default();
            (format!("{}/{}", of(&claim.metadata.namespace), of(&claim.metadata.name)), Vec::new())
        };
        let mut users: BTreeMap<String, Vec<(String, String)>> =
            input.volume_claims.iter().filter(single).map(named).collect();
        if users.is_empty() {
            return Self::default();
        }
        for record in records().into_iter().filter(|record| record.pod.is_bound()) {
            for claim in &record.claims {
                if let Some(users) = users.get_mut(claim) {
                    users.push((uid(&record.pod), full_name(&record.pod)));
                }
            }
        }
        Self { users }
    }

    /// Returns the claims that a bound pod uses.
    pub(crate) fn in_use(&self) -> impl Iterator<Item = &String> {
        self.users.iter().filter(|(_, users)| !users.is_empty()).map(|(claim, _)| claim)
    }

    pub(crate) fn contains(&self, claim: &str) -> bool {
        self.users.contains_key(claim)
    }

    /// Returns the reason if another pod uses one of the pod's claims.
    pub(crate) fn waits(&self, record: &Record) -> Option<IgnoredReason> {
        let own = uid(&record.pod);
        record.claims.iter().find_map(|claim| {
            let (_, pod) = self.users.get(claim)?.iter().find(|(uid, _)| *uid != own)?;
            let error = VolumeError::InUse { pod: pod.clone() };
            Some(IgnoredReason::Volume { claim: claim.clone(), error })
        })
    }
}
