//! Limit for removals of NodeClaims that only an agent's notice or a failed status check asks for. A node can invent a notice, and
//! a wrong image can fail EC2's checks on all of its nodes. So at most a fifth of a NodePool is removed in ten minutes; the
//! others wait until EC2 itself announces the end of an instance, or a person decides.

use std::collections::BTreeMap;
use std::time::Duration;

use api::status::Conditioned;
use api::{NodeClaim, condition};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// Time in which a removal counts.
const WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// Removals that a small NodePool is allowed: EC2 often interrupts the spot instances of one pool together.
const LEAST: usize = 3;
/// Time after its last check in which a NodeClaim counts as held.
const HELD: SignedDuration = SignedDuration::from_mins(2);
/// Time until the next check of a held NodeClaim.
pub const RECHECK: Duration = Duration::from_secs(30);

/// Removals and held NodeClaims of all NodePools.
#[derive(Debug, Default)]
pub struct NoticeLimit(Mutex<BTreeMap<String, PoolNotices>>);

/// Removals and held NodeClaims of one NodePool, by name of the NodeClaim.
#[derive(Debug, Default)]
struct PoolNotices {
    removed: BTreeMap<String, Removal>,
    /// Time of the last check.
    held: BTreeMap<String, Timestamp>,
}

/// Removal of a NodeClaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Removal {
    at: Timestamp,
    /// Number of initialized NodeClaims of the NodePool before the removal.
    size: usize,
}

/// NodeClaims of a NodePool that the limit keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldNotices {
    /// Number of NodeClaims.
    pub held: usize,
    /// Removals in the last ten minutes.
    pub removed: usize,
}

impl NoticeLimit {
    /// Reports whether the NodeClaim of the NodePool may be removed now. A permitted removal counts, and remains permitted. The
    /// NodePool has `size` initialized NodeClaims that are not being deleted: nodes that never came up must not raise the limit,
    /// and neither must removed nodes beside their replacements.
    pub fn permits(&self, pool: &str, claim: &str, size: usize, now: Timestamp) -> bool {
        let mut all = self.0.lock();
        let notices = all.entry(pool.to_owned()).or_default();
        notices.forget_old(now);
        let permitted = notices.removed.contains_key(claim) || notices.removed.len() < allowed(notices.size(size));
        if permitted {
            notices.held.remove(claim);
            notices.removed.entry(claim.to_owned()).or_insert(Removal { at: now, size });
        } else {
            notices.held.insert(claim.to_owned(), now);
        }
        permitted
    }

    /// Returns the NodeClaims of the NodePool that the limit keeps, if there are any.
    #[must_use]
    pub fn held(&self, pool: &str, now: Timestamp) -> Option<HeldNotices> {
        let mut all = self.0.lock();
        let notices = all.get_mut(pool)?;
        notices.forget_old(now);
        let (held, removed) = (notices.held.len(), notices.removed.len());
        if held + removed == 0 {
            all.remove(pool);
        }
        (held > 0).then_some(HeldNotices { held, removed })
    }
}

impl PoolNotices {
    fn forget_old(&mut self, now: Timestamp) {
        self.removed.retain(|_, removal| now.duration_since(removal.at) < WINDOW);
        self.held.retain(|_, checked| now.duration_since(*checked) < HELD);
    }

    /// Returns the largest size of the NodePool in the window, from the size at each removal and the current one.
    fn size(&self, current: usize) -> usize {
        self.removed.values().map(|removal| removal.size).fold(current, usize::max)
    }
}

/// Returns the number of initialized NodeClaims that are not being deleted. Only the controller writes the conditions of NodeClaims,
/// so a node cannot raise the number.
pub fn size<'c>(claims: impl Iterator<Item = &'c NodeClaim>) -> usize {
    let stays =
        |claim: &&NodeClaim| claim.metadata.deletion_timestamp.is_none() && claim.is_true(condition::INITIALIZED);
    claims.filter(stays).count()
}

/// Returns the number of removals that a NodePool of this size is allowed in ten minutes.
fn allowed(size: usize) -> usize {
    size.div_ceil(5).max(LEAST)
}

#[cfg(test)]
mod tests {
    use api::condition;
    use serde_json::json;

    use super::{HeldNotices, NoticeLimit, size};
    use crate::fixture::{at, claim, condition as cond};

    fn permitted(limit: &NoticeLimit, size: usize, now: i64) -> usize {
        (0..size).filter(|index| limit.permits("web", &format!("web-{index}"), size, at(now))).count()
    }

    #[test]
    fn permits_a_fifth_of_a_nodepool_in_ten_minutes() {
        for (size, expected) in [(1, 1), (3, 3), (10, 3), (15, 3), (16, 4), (100, 20)] {
            let limit = NoticeLimit::default();
            assert_eq!(permitted(&limit, size, 0), expected, "{size}");
            assert_eq!(permitted(&limit, size, 599), expected, "{size}: a permission remains, and no other is added");
            assert!(limit.permits("other", "web-99", size, at(599)), "another NodePool");
        }
    }

    #[test]
    fn permits_more_after_the_window() {
        let limit = NoticeLimit::default();
        assert_eq!(permitted(&limit, 100, 0), 20);
        let next = (20..100).filter(|index| limit.permits("web", &format!("web-{index}"), 80, at(600))).count();
        assert_eq!(next, 16);
    }

    /// Rows: sizes of the NodePool after three removals from ten nodes, and the further removals that are permitted. Replacements
    /// of the removed nodes do not make the NodePool larger.
    #[test]
    fn permits_a_fifth_of_the_current_size_when_a_nodepool_grows() {
        for (size, further) in [(7, 0), (10, 0), (15, 0), (16, 1), (30, 3), (100, 17)] {
            let limit = NoticeLimit::default();
            assert_eq!(permitted(&limit, 10, 0), 3);
            let new = (0..size).filter(|index| limit.permits("web", &format!("new-{index}"), size, at(300))).count();
            assert_eq!(new, further, "{size}");
        }
    }

    #[test]
    fn permits_a_fifth_of_the_largest_size_when_a_nodepool_shrinks() {
        let limit = NoticeLimit::default();
        assert!(limit.permits("web", "web-0", 100, at(0)));
        let after = |first: usize, size, now| {
            (first..first + 100).filter(|index| limit.permits("web", &format!("web-{index}"), size, at(now))).count()
        };
        assert_eq!(after(1, 20, 599), 19, "the removals of ten minutes count against the size at that time");
        assert_eq!(after(200, 20, 600), 0, "19 removals of a NodePool of 20 nodes");
    }

    /// One removal each minute. The size of the NodePool hours ago does not count, and no ten minutes have more removals than
    /// permitted.
    #[test]
    fn permits_a_fifth_in_each_window_when_removals_never_stop() {
        let limit = NoticeLimit::default();
        let sizes = |minute: i64| if minute < 60 { 30 } else { 10 };
        let times: Vec<i64> = (0..180)
            .filter(|minute| limit.permits("web", &format!("web-{minute}"), sizes(*minute), at(minute * 60)))
            .collect();
        let in_window = |start: i64| times.iter().filter(|minute| (start..start + 10).contains(*minute)).count();
        assert!((0..60).all(|start| in_window(start) <= 6), "{times:?}");
        assert!((70..170).all(|start| in_window(start) == 3), "{times:?}");
        assert_eq!(in_window(30), 6);
    }

    #[test]
    fn size_counts_initialized_nodeclaims_that_stay() {
        let conditions = |types: &[&str]| -> serde_json::Value {
            let conditions: Vec<_> = types.iter().map(|type_| cond(type_, "True", 0)).collect();
            json!({"status": {"conditions": conditions}})
        };
        let up = [condition::LAUNCHED, condition::REGISTERED, condition::INITIALIZED];
        let mut deleting = conditions(&up);
        deleting["metadata"] = json!({"deletionTimestamp": at(0).to_string(), "finalizers": ["other"]});
        let claims = [conditions(&up), conditions(&up[..2]), conditions(&[]), deleting].map(|change| claim(&change));
        assert_eq!(size(claims.iter().map(AsRef::as_ref)), 1);
    }

    #[test]
    fn held_counts_nodeclaims_until_their_notices_end() {
        let limit = NoticeLimit::default();
        assert_eq!(limit.held("web", at(0)), None);
        permitted(&limit, 10, 0);
        assert_eq!(limit.held("web", at(119)), Some(HeldNotices { held: 7, removed: 3 }));
        assert_eq!(limit.held("web", at(120)), None, "no NodeClaim asked again");
        assert!(!limit.permits("web", "web-9", 10, at(130)));
        assert_eq!(limit.held("web", at(130)), Some(HeldNotices { held: 1, removed: 3 }));
        assert_eq!(limit.held("web", at(900)), None);
        assert!(limit.0.lock().is_empty(), "nothing is kept for ever");
    }
}
