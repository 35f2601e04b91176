//! Evidence of plans that failed: the objects of the cluster, in a file that `kerf plan` reads. Only the newest are kept, without
//! user data. The controller never reads environment variables of containers and Secrets, so the file has none.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::sync::Arc;

use api::EC2NodeClass;
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::{SignedDuration, Timestamp};
use kube::Resource;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};

use crate::state::index::{Index, Table};

/// Maximum number of files for each cause: a frequent cause must not push out a rare one.
const NEWEST: usize = 2;
/// Least time between two files for the same cause: an error that returns with each plan must not push out the first.
const PAUSE: SignedDuration = SignedDuration::from_mins(10);
/// Maximum size of a compressed file in bytes. A larger one is not kept.
const LARGEST: usize = 32 << 20;

/// Reason for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum EvidenceCause {
    /// The plan panicked.
    Panic,
    /// Plan validation failed.
    ValidationFailed,
    /// The step budget of the plan was exhausted.
    StepBudgetExhausted,
}

/// File of one plan.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// Id of the plan, as in the log.
    pub plan: u64,
    /// Time of the plan.
    pub taken: Timestamp,
    /// Reason for the file.
    pub cause: EvidenceCause,
    /// List of objects in JSON, compressed by gzip.
    pub file: Arc<[u8]>,
}

/// The newest files.
#[derive(Debug, Default)]
pub struct EvidenceStore(Mutex<VecDeque<Evidence>>);

impl EvidenceStore {
    /// Reports whether a file for this cause is wanted now.
    #[must_use]
    pub fn wants(&self, cause: EvidenceCause, now: Timestamp) -> bool {
        let kept = self.0.lock();
        let last = kept.iter().rev().find(|evidence| evidence.cause == cause);
        last.is_none_or(|evidence| now.duration_since(evidence.taken) >= PAUSE)
    }

    /// Keeps a file, and drops the oldest of too many for its cause. Returns false for a file that is too large.
    pub fn keep(&self, evidence: Evidence) -> bool {
        if evidence.file.len() > LARGEST {
            return false;
        }
        let mut kept = self.0.lock();
        let same: Vec<usize> = (0..kept.len()).filter(|at| kept[*at].cause == evidence.cause).collect();
        if same.len() >= NEWEST {
            kept.remove(same[0]);
        }
        kept.push_back(evidence);
        true
    }

    /// Returns the kept files as JSON, without their contents.
    #[must_use]
    pub fn list(&self) -> Value {
        let entry = |it: &Evidence| json!({"plan": it.plan.to_string(), "taken": it.taken, "cause": it.cause, "bytes": it.file.len()});
        json!(self.0.lock().iter().map(entry).collect::<Vec<_>>())
    }

    /// Returns the file of a plan.
    #[must_use]
    pub fn file(&self, plan: u64) -> Option<Arc<[u8]>> {
        let kept = self.0.lock();
        kept.iter().find(|evidence| evidence.plan == plan).map(|evidence| Arc::clone(&evidence.file))
    }
}

/// Object that can be written into a file.
pub trait EvidentObject: Send + Sync {
    /// Returns the object as a manifest.
    ///
    /// # Errors
    /// Returns an error if the object has no form in JSON.
    fn manifest(&self) -> serde_json::Result<Value>;
}

impl<K: Resource<DynamicType = ()> + Serialize + Send + Sync> EvidentObject for K {
    fn manifest(&self) -> serde_json::Result<Value> {
        let mut manifest = serde_json::to_value(self)?;
        manifest["apiVersion"] = K::api_version(&()).into();
        manifest["kind"] = K::kind(&()).into();
        Ok(manifest)
    }
}

/// Returns the objects that a plan reads, without NodeUsages. Cheap: objects are shared, not copied.
#[must_use]
pub fn objects(index: &Index) -> Vec<Arc<dyn EvidentObject>> {
    let mut all = Vec::new();
    all.extend(index.classes.values().map(|class| without_user_data(class)));
    add(&mut all, &index.pools);
    add(&mut all, &index.claims);
    add(&mut all, &index.nodes);
    add(&mut all, &index.pods);
    add(&mut all, &index.daemonsets);
    add(&mut all, &index.budgets);
    add(&mut all, &index.volume_claims);
    add(&mut all, &index.volumes);
    add(&mut all, &index.storage_classes);
    add(&mut all, &index.csi_nodes);
    add(&mut all, &index.namespaces);
    add(&mut all, &index.limit_ranges);
    add(&mut all, &index.runtime_classes);
    add(&mut all, &index.priority_classes);
    add(&mut all, &index.overlays);
    add(&mut all, &index.buffers);
    add(&mut all, &index.pod_templates);
    all
}

fn add<K>(all: &mut Vec<Arc<dyn EvidentObject>>, table: &Table<K>)
where
    K: Resource<DynamicType = ()> + Serialize + Send + Sync + 'static,
{
    all.extend(table.values().map(|object| Arc::clone(object) as Arc<dyn EvidentObject>));
}

fn without_user_data(class: &EC2NodeClass) -> Arc<dyn EvidentObject> {
    let mut class = class.clone();
    class.spec.user_data = None;
    Arc::new(class)
}

/// Writes the objects as a List in JSON, compressed by gzip.
///
/// # Errors
/// Returns an error if an object has no form in JSON.
pub fn compress(objects: &[Arc<dyn EvidentObject>]) -> io::Result<Vec<u8>> {
    let mut file = GzEncoder::new(Vec::new(), Compression::fast());
    file.write_all(br#"{"apiVersion":"v1","kind":"List","items":["#)?;
    for (number, object) in objects.iter().enumerate() {
        if number > 0 {
            file.write_all(b",\n")?;
        }
        serde_json::to_writer(&mut file, &object.manifest()?)?;
    }
    file.write_all(b"]}\n")?;
    file.finish()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::{Arc, Evidence, EvidenceCause, EvidenceStore, Index, LARGEST, NEWEST, Value, compress, json, objects};
    use crate::fixture::at;

    fn evidence(plan: u64, second: i64, cause: EvidenceCause, bytes: usize) -> Evidence {
        Evidence { plan, taken: at(second), cause, file: vec![0; bytes].into() }
    }

    #[test]
    fn keep_holds_only_the_newest_files_that_are_not_too_large() {
        let store = EvidenceStore::default();
        assert!(store.keep(evidence(1, 0, EvidenceCause::Panic, 10)));
        for plan in 2..6 {
            assert!(store.keep(evidence(plan, 0, EvidenceCause::StepBudgetExhausted, 10)));
        }
        assert!(!store.keep(evidence(9, 0, EvidenceCause::Panic, LARGEST + 1)));
        assert_eq!(store.list().as_array().map(Vec::len), Some(1 + NEWEST));
        assert_eq!([1, 3, 4, 5, 9].map(|plan| store.file(plan).is_some()), [true, false, true, true, false]);
    }

    #[test]
    fn wants_returns_false_within_ten_minutes_of_the_same_cause() {
        let store = EvidenceStore::default();
        store.keep(evidence(1, 0, EvidenceCause::Panic, 10));
        let wants = |cause, second| store.wants(cause, at(second));
        assert!(!wants(EvidenceCause::Panic, 599) && wants(EvidenceCause::Panic, 600));
        assert!(wants(EvidenceCause::ValidationFailed, 1));
    }

    #[test]
    fn compress_writes_manifests_without_environment_and_user_data() {
        let mut index = Index::default();
        let container = json!({"name": "app", "env": [{"name": "KEY", "value": "hidden"}], "args": ["hidden"]});
        let pod = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "1", "resourceVersion": "1",
                         "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "hidden"}},
            "spec": {"containers": [container]},
        });
        let class = json!({
            "metadata": {"name": "default", "uid": "2", "resourceVersion": "2"},
            "spec": {"role": "nodes", "userData": "hidden", "amiSelectorTerms": [], "subnetSelectorTerms": [], "securityGroupSelectorTerms": []},
        });
        let _ = index.apply::<api::objects::Pod>(serde_json::from_value(pod).unwrap(), at(0), true);
        let _ = index.apply::<api::EC2NodeClass>(serde_json::from_value(class).unwrap(), at(0), true);
        let mut text = String::new();
        let file = compress(&objects(&index)).unwrap();
        GzDecoder::new(file.as_slice()).read_to_string(&mut text).unwrap();
        assert!(!text.contains("hidden"), "{text}");
        let list: Value = serde_json::from_str(&text).unwrap();
        let names: Vec<_> =
            list["items"].as_array().unwrap().iter().map(|it| [&it["kind"], &it["metadata"]["name"]]).collect();
        assert_eq!(names, [["EC2NodeClass", "default"], ["Pod", "web"]]);
        let shared = Arc::clone(&objects(&index)[1]);
        assert_eq!(shared.manifest().unwrap()["apiVersion"], "v1");
    }
}
