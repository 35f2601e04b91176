//! Pages for bug reports: the objects of plans that failed. They name every object of the cluster, so the port listens
//! on loopback only: `kubectl port-forward` authenticates the reader by the API server.

use std::sync::Arc;

use daemon::admin::{Page, Pages};

use crate::state::cluster::Cluster;

const SNAPSHOTS: &str = "/debug/snapshots";

/// Pages of the debug port.
pub struct DebugPages(pub Arc<Cluster>);

impl Pages for DebugPages {
    fn page(&self, path: &str) -> Option<Page> {
        let rest = path.strip_prefix(SNAPSHOTS)?;
        if rest.is_empty() {
            let body = self.0.evidence.list().to_string().into_bytes();
            return Some(Page { media_type: "application/json", body, ..Page::default() });
        }
        let plan = rest.strip_prefix('/')?.parse().ok()?;
        let body = self.0.evidence.file(plan)?.to_vec();
        Some(Page { media_type: "application/gzip", body, ..Page::default() })
    }

    fn hint(&self) -> &'static str {
        "try /debug/snapshots, or /debug/snapshots/PLAN"
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::unbounded_channel;

    use super::{Cluster, DebugPages, Pages as _};
    use crate::fixture::at;
    use crate::state::plans::evidence::{Evidence, EvidenceCause};
    use crate::write::events::EventRecorder;

    #[test]
    fn page_returns_the_list_and_each_file() {
        let cluster = Cluster::new(unbounded_channel().0, EventRecorder::new().0);
        cluster.evidence.keep(Evidence { plan: 7, taken: at(0), cause: EvidenceCause::Panic, file: vec![1, 2].into() });
        let pages = DebugPages(cluster);
        let list = pages.page("/debug/snapshots").map(|page| String::from_utf8(page.body).unwrap());
        let expected = r#"[{"bytes":2,"cause":"panic","plan":"7","taken":"2026-03-01T12:00:00Z"}]"#;
        assert_eq!(list.as_deref(), Some(expected));
        assert_eq!(pages.page("/debug/snapshots/7").map(|page| page.body), Some(vec![1, 2]));
        let unknown = ["/debug/snapshots/8", "/debug/snapshots/x", "/debug/snapshotsx", "/metrics"];
        assert!(unknown.iter().all(|path| pages.page(path).is_none()));
    }
}
