//! Limit for removals of NodeClaims that only an agent's notice or a failed status check asks for. A node can invent a notice, and
//! a wrong image can fail EC2's checks on all of its nodes. So at most a fifth of a NodePool is removed in ten minutes; the
//! others wait until EC2 itself announces the end of an instance, or a person decides.

use std::collections::BTreeMap;
use std::time::Duration;

use api::status::Conditioned;
use api::{NodeClaim, condition};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// Time in which a removal counts.
const WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// Removals that a small NodePool is allowed: EC2 often interrupts the spot instances of one pool together.
const LEAST: usize = 3;
/// Time after its last check in which a NodeClaim counts as held.
const HELD: SignedDuration = SignedDuration::from_mins(2);
/// Maximum number of removals that survive a restart, the newest ones: the annotations of an object have 256 KiB.
const STORED: usize = 1000;
/// Maximum difference between the clocks of two replicas.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(1);
/// Maximum age of a size.
const CURRENT: SignedDuration = SignedDuration::from_secs(1);
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
    /// Last size of the NodePool, and its time.
    current: Option<(Timestamp, usize)>,
}

/// Removal of a NodeClaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// NodePool has the [`size`] that the function returns. All NodeClaims of a NodePool often ask at the same time, so the function
    /// is called once for them.
    pub fn permits(&self, pool: &str, claim: &str, size: impl FnOnce() -> usize, now: Timestamp) -> bool {
        let mut all = self.0.lock();
        let notices = all.entry(pool.to_owned()).or_default();
        notices.forget_old(now);
        let size = notices.current(size, now);
        let permitted = notices.removed.contains_key(claim) || notices.removed.len() < allowed(notices.largest(size));
        if permitted {
            notices.held.remove(claim);
            notices.removed.entry(claim.to_owned()).or_insert(Removal { at: now, size });
        } else {
            notices.held.insert(claim.to_owned(), now);
        }
        permitted
    }

    /// Adds the removals that [`Self::stored`] returned in an earlier process. Invalid text has no effect, and neither have times
    /// that are not over yet.
    pub fn restore(&self, pool: &str, stored: &str, now: Timestamp) {
        let Ok(removed) = serde_json::from_str::<BTreeMap<String, Removal>>(stored) else { return };
        let mut all = self.0.lock();
        let notices = all.entry(pool.to_owned()).or_default();
        for (claim, removal) in removed.into_iter().filter(|(_, removal)| removal.at.duration_since(now) <= CLOCK_SKEW)
        {
            notices.removed.entry(claim).or_insert(Removal { at: removal.at.min(now), ..removal });
        }
        notices.forget_old(now);
    }

    /// Returns the removals of the NodePool that still count, for [`Self::restore`].
    #[must_use]
    pub fn stored(&self, pool: &str, now: Timestamp) -> Option<String> {
        let mut all = self.0.lock();
        let notices = all.get_mut(pool)?;
        notices.forget_old(now);
        let mut removed: Vec<_> = notices.removed.iter().collect();
        removed.sort_by_key(|(claim, removal)| (std::cmp::Reverse(removal.at), *claim));
        removed.truncate(STORED);
        let removed: BTreeMap<_, _> = removed.into_iter().collect();
        (!removed.is_empty()).then(|| serde_json::to_string(&removed).ok()).flatten()
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

    /// Returns the current size of the NodePool, at most a moment old.
    fn current(&mut self, size: impl FnOnce() -> usize, now: Timestamp) -> usize {
        let known = self.current.filter(|(at, _)| *at <= now && now.duration_since(*at) < CURRENT);
        let (at, size) = known.unwrap_or_else(|| (now, size()));
        self.current = Some((at, size));
        size
    }

    /// Returns the largest size of the NodePool in the window, from the size at each removal and the current one.
    fn largest(&self, current: usize) -> usize {
        self.removed.values().map(|removal| removal.size).fold(current, usize::max)
    }
}

/// Returns the size of a NodePool, from its NodeClaims and whether each of them has a notice. Only initialized NodeClaims that are not
/// being deleted count, because a node cannot write their conditions. NodeClaims with a notice are held, and plans replace them
/// already: the size is the larger one of their number and that of the others, so that nodes and replacements do not count twice.
pub fn size<'c>(claims: impl Iterator<Item = (&'c NodeClaim, bool)>) -> usize {
    let stays =
        |claim: &NodeClaim| claim.metadata.deletion_timestamp.is_none() && claim.is_true(condition::INITIALIZED);
    let (noticed, others): (Vec<bool>, Vec<bool>) =
        claims.filter(|(claim, _)| stays(claim)).map(|(_, is_noticed)| is_noticed).partition(|is_noticed| *is_noticed);
    noticed.len().max(others.len())
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
        (0..size).filter(|index| limit.permits("web", &format!("web-{index}"), || size, at(now))).count()
    }

    #[test]
    fn permits_a_fifth_of_a_nodepool_in_ten_minutes() {
        for (size, expected) in [(1, 1), (3, 3), (10, 3), (15, 3), (16, 4), (100, 20)] {
            let limit = NoticeLimit::default();
            assert_eq!(permitted(&limit, size, 0), expected, "{size}");
            assert_eq!(permitted(&limit, size, 599), expected, "{size}: a permission remains, and no other is added");
            assert!(limit.permits("other", "web-99", || size, at(599)), "another NodePool");
        }
    }

    #[test]
    fn permits_more_after_the_window() {
        let limit = NoticeLimit::default();
        assert_eq!(permitted(&limit, 100, 0), 20);
        let next = (20..100).filter(|index| limit.permits("web", &format!("web-{index}"), || 80, at(600))).count();
        assert_eq!(next, 16);
    }

    /// Rows: sizes of the NodePool after three removals from ten nodes, and the further removals that are permitted. Replacements
    /// of the removed nodes do not make the NodePool larger.
    #[test]
    fn permits_a_fifth_of_the_current_size_when_a_nodepool_grows() {
        for (size, further) in [(7, 0), (10, 0), (15, 0), (16, 1), (30, 3), (100, 17)] {
            let limit = NoticeLimit::default();
            assert_eq!(permitted(&limit, 10, 0), 3);
            let new = (0..size).filter(|index| limit.permits("web", &format!("new-{index}"), || size, at(300))).count();
            assert_eq!(new, further, "{size}");
        }
    }

    #[test]
    fn permits_a_fifth_of_the_largest_size_when_a_nodepool_shrinks() {
        let limit = NoticeLimit::default();
        assert!(limit.permits("web", "web-0", || 100, at(0)));
        let after = |first: usize, size, now| {
            (first..first + 100).filter(|index| limit.permits("web", &format!("web-{index}"), || size, at(now))).count()
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
            .filter(|minute| limit.permits("web", &format!("web-{minute}"), || sizes(*minute), at(minute * 60)))
            .collect();
        let in_window = |start: i64| times.iter().filter(|minute| (start..start + 10).contains(*minute)).count();
        assert!((0..60).all(|start| in_window(start) <= 6), "{times:?}");
        assert!((70..170).all(|start| in_window(start) == 3), "{times:?}");
        assert_eq!(in_window(30), 6);
    }

    /// Another process decides as the first one would have, whether it restores the removals once or at each decision.
    #[test]
    fn restore_continues_the_window_of_an_earlier_process() {
        let first = NoticeLimit::default();
        assert!((0..19).all(|index| first.permits("web", &format!("web-{index}"), || 100, at(index))));
        let stored = first.stored("web", at(300)).unwrap();
        assert_eq!(first.stored("other", at(300)), None);
        let next = NoticeLimit::default();
        next.restore("web", &stored, at(300));
        assert!(next.permits("web", "web-18", || 81, at(300)), "a permission remains");
        assert!(next.permits("web", "web-50", || 81, at(300)));
        next.restore("web", &stored, at(301));
        assert!(!next.permits("web", "web-51", || 81, at(301)));
        assert!(next.permits("web", "web-51", || 81, at(600)), "the first removal no longer counts");
        next.restore("web", &stored, at(700));
        assert_eq!(next.stored("web", at(700)).map(|text| text.matches("at").count()), Some(2));
        assert_eq!(next.stored("web", at(1200)), None);
    }

    #[test]
    fn restore_ignores_invalid_text_and_times_of_the_future() {
        let removal = |time: i64| json!({"web-0": {"at": at(time).to_string(), "size": 1_000_000}}).to_string();
        for (stored, expected) in [("{".to_owned(), 3), ("[1]".to_owned(), 3), (removal(3600), 3), (removal(-600), 3)] {
            let limit = NoticeLimit::default();
            limit.restore("web", &stored, at(0));
            assert_eq!(permitted(&limit, 10, 0), expected, "{stored}");
        }
        let limit = NoticeLimit::default();
        limit.restore("web", &removal(30), at(0));
        assert_eq!(limit.stored("web", at(599)), Some(removal(0)), "the clock of another replica");
        assert_eq!(limit.stored("web", at(600)), None);
    }

    #[test]
    fn stored_has_a_bounded_size() {
        let limit = NoticeLimit::default();
        let name = |index| format!("{}-{index:05}", "n".repeat(57));
        assert!((0..2000).all(|index| limit.permits("web", &name(index), || 10_000, at(index / 10))));
        let stored = limit.stored("web", at(200)).unwrap();
        assert!(
            stored.len() < 128 * 1024 && stored.contains(&name(1999)) && !stored.contains(&name(0)),
            "{}",
            stored.len()
        );
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
        for (noticed, expected) in [(0, 5), (1, 4), (2, 3), (3, 3), (5, 5)] {
            let up = (0..5).map(|index| (claims[0].as_ref(), index < noticed));
            let others = claims[1..].iter().map(|claim| (claim.as_ref(), false));
            assert_eq!(size(up.chain(others)), expected, "{noticed}");
        }
    }

    #[test]
    fn held_counts_nodeclaims_until_their_notices_end() {
        let limit = NoticeLimit::default();
        assert_eq!(limit.held("web", at(0)), None);
        permitted(&limit, 10, 0);
        assert_eq!(limit.held("web", at(119)), Some(HeldNotices { held: 7, removed: 3 }));
        assert_eq!(limit.held("web", at(120)), None, "no NodeClaim asked again");
        assert!(!limit.permits("web", "web-9", || 10, at(130)));
        assert_eq!(limit.held("web", at(130)), Some(HeldNotices { held: 1, removed: 3 }));
        assert_eq!(limit.held("web", at(900)), None);
        assert!(limit.0.lock().is_empty(), "nothing is kept for ever");
    }
}
