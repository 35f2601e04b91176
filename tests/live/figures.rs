//! What is measured of a controller, and how two of them compare.

use std::time::Instant;

use world::measure::Measure;

/// When the cost has come so close to its last, as a share of the fall, everything is given back.
const CLOSE: f64 = 0.02;

/// One scenario with one controller.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Seconds from the last pod, or from the controller's start if that was later, to the first claim; negative where it came before.
    pub first_claim: f64,
    /// When every pod ran; `None` where that never came about.
    pub ran: Option<Ran>,
    /// After the change, where there was one.
    pub after: Option<After>,
    /// The most memory of the controller's process, from its start to the end.
    pub rss_peak_mib: f64,
    /// Its CPU time likewise.
    pub cpu: f64,
}

/// The fleet on which every pod runs.
#[derive(Clone, Copy, Debug)]
pub struct Ran {
    /// Seconds from the moment from which on pods waited.
    pub took: f64,
    /// How many nodes it has.
    pub nodes: usize,
    /// Dollars an hour.
    pub cost: f64,
}

/// What became of a change.
#[derive(Clone, Copy, Debug)]
pub struct After {
    /// Seconds until the fleet was what it should be; `None` where it never was.
    pub took: Option<f64>,
    /// What budgets, boots and drains alone take.
    pub bound: f64,
    /// Nodes in the end.
    pub nodes: usize,
    /// Dollars an hour in the end.
    pub cost: f64,
}

/// A figure's name, how it is read and its unit.
type Row = (&'static str, fn(&Figures) -> Option<f64>, &'static str);

const ROWS: [Row; 9] = [
    ("first-claim-s", |it| Some(it.first_claim), "s"),
    ("all-running-s", |it| Some(it.ran?.took), "s"),
    ("nodes", |it| Some(it.ran?.nodes as f64), "nodes"),
    ("cost-per-hour", |it| Some(it.ran?.cost), "$/h"),
    ("give-back-s", |it| it.after?.took, "s"),
    ("nodes-after", |it| Some(it.after?.nodes as f64), "nodes"),
    ("cost-per-hour-after", |it| Some(it.after?.cost), "$/h"),
    ("rss-peak-mib", |it| Some(it.rss_peak_mib), "MiB"),
    ("cpu-s", |it| Some(it.cpu), "s"),
];

/// The lines of `live.json` of one scenario. What neither has come to has none.
pub fn beside(scenario: &str, ours: &Figures, peer: &Figures) -> Vec<Measure> {
    let line = |(name, read, unit): &Row| {
        let (ours, peer) = (read(ours), read(peer));
        (ours.is_some() || peer.is_some()).then(|| Measure::of_both(&format!("{scenario}/{name}"), ours, peer, unit))
    };
    let bound = ours.after.map(|it| Measure::alone(&format!("{scenario}/give-back-bound-s"), it.bound, "s"));
    ROWS.iter().filter_map(line).chain(bound).collect()
}

/// How often nodes go together until so many are left, a tenth at a time, as the pool's budget has it.
pub fn waves(before: usize, after: usize) -> usize {
    let next = |left: &usize| (*left > after).then(|| left - left.div_ceil(10).min(left - after));
    std::iter::successors(Some(before), next).count() - 1
}

/// When the cost had come as close to its last as counts; `None` when it never fell.
pub fn fallen(costs: &[(Instant, f64)]) -> Option<Instant> {
    let (first, last) = (costs.first()?.1, costs.last()?.1);
    let close = last + (first - last) * CLOSE;
    (last < first).then(|| costs.iter().find(|(_, cost)| *cost <= close).map(|(at, _)| *at)).flatten()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{fallen, waves};

    #[test]
    fn the_last_dollars_do_not_count() {
        let begin = Instant::now();
        let history = |costs: &[f64]| -> Vec<(Instant, f64)> {
            (0..).map(|second| begin + Duration::from_secs(second)).zip(costs.iter().copied()).collect()
        };
        let second = |costs: &[f64]| fallen(&history(costs)).map(|at| (at - begin).as_secs());
        assert_eq!(second(&[100.0, 60.0, 51.0, 50.5, 50.0]), Some(2));
        assert_eq!(second(&[100.0, 60.0, 80.0, 50.0]), Some(3));
        assert_eq!(second(&[100.0, 100.0]), None);
        assert_eq!(second(&[]), None);
    }

    #[test]
    fn a_tenth_goes_at_a_time() {
        assert_eq!([waves(100, 100), waves(100, 90), waves(100, 89), waves(10, 0)], [0, 1, 2, 10]);
    }
}
