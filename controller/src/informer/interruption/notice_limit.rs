//! Limit for removals of NodeClaims that only an agent's notice or a failed status check asks for. A node can invent a notice, and
//! a wrong image can fail EC2's checks on all of its nodes. So at most a fifth of a NodePool is removed in ten minutes; the
//! others wait until EC2 itself announces the end of an instance, or a person decides.

use std::collections::BTreeMap;
use std::time::Duration;

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

/// Removals and held NodeClaims of one NodePool, each with a time.
#[derive(Debug, Default)]
struct PoolNotices {
    removed: BTreeMap<String, Timestamp>,
    held: BTreeMap<String, Timestamp>,
    /// Number of NodeClaims at the first removal: replacements of held nodes must not raise the limit.
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
    /// NodePool has `size` NodeClaims.
    pub fn permits(&self, pool: &str, claim: &str, size: usize, now: Timestamp) -> bool {
        let mut all = self.0.lock();
        let notices = all.entry(pool.to_owned()).or_default();
        notices.forget_old(now);
        if notices.removed.is_empty() {
            notices.size = size;
        }
        let permitted = notices.removed.contains_key(claim) || notices.removed.len() < allowed(notices.size);
        if permitted {
            notices.held.remove(claim);
            notices.removed.entry(claim.to_owned()).or_insert(now);
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
        let is_within = |time: &Timestamp, span| now.duration_since(*time) < span;
        self.removed.retain(|_, time| is_within(time, WINDOW));
        self.held.retain(|_, time| is_within(time, HELD));
    }
}

/// Returns the number of removals that a NodePool of this size is allowed in ten minutes.
fn allowed(size: usize) -> usize {
    size.div_ceil(5).max(LEAST)
}

#[cfg(test)]
mod tests {
    use super::{HeldNotices, NoticeLimit};
    use crate::fixture::at;

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
