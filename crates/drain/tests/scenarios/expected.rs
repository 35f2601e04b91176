//! Expectations of a scenario, as text: `BLESS=1` cannot accept a transcript that violates them.
//!
//! ```text
//! expect web is evicted at 0s [with 110s]     with the permission of its budget; `with` if its grace period is shortened
//! expect web is deleted at 240s with 60s      regardless of its budget, once
//! expect web is refused at 0s
//! expect web is skipped                       no request for it is ever sent
//! expect web is gone at 30s
//! expect drained at 61s                       expect not drained
//! ```

use super::cluster::{Outcome, PodRequest, clock};
use super::scenario::{moment, seconds};

/// Maximum number of requests in a message.
const MANY: usize = 5;

/// Returns the expectations that the outcome violates.
pub fn broken(expected: &[String], outcome: &Outcome) -> Vec<String> {
    let checked = expected.iter().map(|line| (line, check_line(&line.split_whitespace().collect::<Vec<_>>(), outcome)));
    checked.filter_map(|(line, checked)| checked.err().map(|why| format!("expected {line}, but {why}"))).collect()
}

fn check_line(words: &[&str], outcome: &Outcome) -> Result<(), String> {
    match words {
        ["drained", "at", span] => {
            let at = moment(span)?;
            same(outcome.over == Some(at), || {
                outcome.over.map_or("it never is".to_owned(), |at| format!("at {}", clock(at)))
            })
        }
        ["not", "drained"] => same(outcome.over.is_none(), || "it is".to_owned()),
        [pod, "is", "skipped"] => same(!outcome.requests.iter().any(|it| it.pod == *pod), || of(pod, outcome)),
        [pod, "is", "gone", "at", span] => {
            let at = moment(span)?;
            same(outcome.gone.get(*pod) == Some(&at), || {
                format!("it is gone at {:?}", outcome.gone.get(*pod).map(|at| clock(*at)))
            })
        }
        [pod, "is", what, "at", span, rest @ ..] => {
            let at = moment(span)?;
            let grace = match rest {
                [] => None,
                ["with", span] => Some(seconds(span)?),
                _ => return Err("unknown expectation".to_owned()),
            };
            let evicts = *what != "deleted";
            let meant = |it: &&PodRequest| {
                it.pod == *pod && it.evicts == evicts && (it.refused.is_some() == (*what == "refused"))
            };
            let first = outcome.requests.iter().find(meant);
            same(first.is_some_and(|it| it.at == at && it.grace == grace), || of(pod, outcome))
        }
        _ => Err("unknown expectation".to_owned()),
    }
}

fn same(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// Returns the first requests for the pod, as text.
fn of(pod: &str, outcome: &Outcome) -> String {
    let requests: Vec<&PodRequest> = outcome.requests.iter().filter(|it| it.pod == pod).collect();
    let transcript = requests.iter().take(MANY).map(|it| {
        let verb = if it.evicts { "evicted" } else { "deleted" };
        let with = it.grace.map(|grace| format!(" with {grace}s")).unwrap_or_default();
        let but = if it.refused.is_some() { ", refused" } else { "" };
        format!("{verb} at {}{with}{but}", clock(it.at))
    });
    let transcript: Vec<String> = transcript.collect();
    format!("{pod} is asked {} times: {}", requests.len(), transcript.join("; "))
}
