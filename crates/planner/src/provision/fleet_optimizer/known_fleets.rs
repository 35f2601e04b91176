//! Fleets that were computed before. [`super::fleet`] is a pure function, so that the same question has the same answer, with the same
//! number of steps. Consecutive plans ask it about the same groups of nodes while these do not change.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::{MachineKind, Pattern, PodItem};

/// Maximum number of fleets, of some ten KiB each. Beyond it, all are forgotten.
const MOST: usize = 200;

type Question = (u64, Vec<PodItem>, Vec<MachineKind>);

static KNOWN: Mutex<BTreeMap<Question, (Vec<Pattern>, u64)>> = Mutex::new(BTreeMap::new());

/// Returns the fleet of [`super::fleet`], computed at most once.
pub(in crate::provision) fn fleet(kinds: &[MachineKind], items: &[PodItem], most_steps: u64) -> (Vec<Pattern>, u64) {
    let question = (most_steps, items.to_vec(), kinds.to_vec());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(answer) = known().get(&question) {
        return answer.clone();
    }
    let answer = super::fleet(kinds, items, most_steps);
    let mut known = known();
    if known.len() >= MOST {
        known.clear();
    }
    known.insert(question, answer.clone());
    answer
}
