//! What is measured of a controller, and how two of them compare.

use std::fmt;

use world::measure::Measure;

/// When the cost has come so close to its last, as a share of the fall, everything is given back.
const CLOSE: f64 = 0.02;

/// One scenario with one controller.
#[derive(Clone, Debug, Default)]
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
#[derive(Clone, Debug)]
pub struct After {
    /// Seconds until the fleet was what it should be; `None` where it never was.
    pub took: Option<f64>,
    /// What budgets, boots and drains alone take.
    pub bound: f64,
    /// Nodes in the end.
    pub nodes: usize,
    /// Dollars an hour in the end.
    pub cost: f64,
    /// What it cost on the way there.
    pub course: Course,
}

/// Dollars an hour by seconds from a change on, the first at 0.
#[derive(Clone, Default)]
pub struct Course(pub Vec<(f64, f64)>);

impl fmt::Debug for Course {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} prices", self.0.len())
    }
}

impl Course {
    /// The price that is as close to the last as counts; `None` when it never fell.
    fn goal(&self) -> Option<f64> {
        let (first, last) = (self.0.first()?.1, self.0.last()?.1);
        (last < first).then_some(last + (first - last) * CLOSE)
    }

    /// When the cost came down to a price.
    fn down_to(&self, price: f64) -> Option<f64> {
        self.0.iter().find(|(_, cost)| *cost <= price).map(|(at, _)| *at)
    }

    /// When the cost had come as close to its last as counts.
    pub fn fallen(&self) -> Option<f64> {
        self.down_to(self.goal()?)
    }
}

/// A figure's name, how it is read and its unit.
type Row = (&'static str, fn(&Figures) -> Option<f64>, &'static str);

const ROWS: [Row; 9] = [
    ("first-claim-s", |it| Some(it.first_claim), "s"),
    ("all-running-s", |it| Some(it.ran?.took), "s"),
    ("nodes", |it| Some(it.ran?.nodes as f64), "nodes"),
    ("cost-per-hour", |it| Some(it.ran?.cost), "$/h"),
    ("give-back-s", |it| it.after.as_ref()?.took, "s"),
    ("nodes-after", |it| Some(it.after.as_ref()?.nodes as f64), "nodes"),
    ("cost-per-hour-after", |it| Some(it.after.as_ref()?.cost), "$/h"),
    ("rss-peak-mib", |it| Some(it.rss_peak_mib), "MiB"),
    ("cpu-s", |it| Some(it.cpu), "s"),
];

/// The lines of `live.json` of one scenario. What neither has come to has none.
pub fn beside(scenario: &str, ours: &Figures, peer: &Figures) -> Vec<Measure> {
    let line = |(name, read, unit): &Row| {
        let (ours, peer) = (read(ours), read(peer));
        (ours.is_some() || peer.is_some()).then(|| Measure::of_both(&format!("{scenario}/{name}"), ours, peer, unit))
    };
    let bound = ours.after.as_ref().map(|it| Measure::alone(&format!("{scenario}/give-back-bound-s"), it.bound, "s"));
    let equal =
        as_cheap(ours, peer).map(|[ours, peer]| Measure::of_both(&format!("{scenario}/as-cheap-s"), ours, peer, "s"));
    ROWS.iter().filter_map(line).chain(equal).chain(bound).collect()
}

/// When each side's fleet cost no more than the dearer of the two in the end.
fn as_cheap(ours: &Figures, peer: &Figures) -> Option<[Option<f64>; 2]> {
    let sides = [&ours.after.as_ref()?.course, &peer.after.as_ref()?.course];
    let dearer = sides[0].goal()?.max(sides[1].goal()?);
    Some(sides.map(|course| course.down_to(dearer)))
}

/// How often nodes go together until so many are left, a tenth at a time, as the pool's budget has it.
pub fn waves(before: usize, after: usize) -> usize {
    let next = |left: &usize| (*left > after).then(|| left - left.div_ceil(10).min(left - after));
    std::iter::successors(Some(before), next).count() - 1
}

#[cfg(test)]
mod tests {
    use super::{After, Course, Figures, as_cheap, waves};

    fn course(costs: &[f64]) -> Course {
        Course((0..).map(f64::from).zip(costs.iter().copied()).collect())
    }

    #[test]
    fn the_last_dollars_do_not_count() {
        let second = |costs: &[f64]| course(costs).fallen();
        assert_eq!(second(&[100.0, 60.0, 51.0, 50.5, 50.0]), Some(2.0));
        assert_eq!(second(&[100.0, 60.0, 80.0, 50.0]), Some(3.0));
        assert_eq!(second(&[100.0, 100.0]), None);
        assert_eq!(second(&[]), None);
    }

    #[test]
    fn both_are_compared_at_the_price_that_both_have_come_to() {
        let figures = |costs: &[f64]| {
            let after = After { took: None, bound: 0.0, nodes: 0, cost: 0.0, course: course(costs) };
            Figures { after: Some(after), ..Figures::default() }
        };
        let (ours, peer) = (figures(&[100.0, 90.0, 70.0, 60.0, 50.0]), figures(&[120.0, 110.0, 80.0]));
        assert_eq!(as_cheap(&ours, &peer), Some([Some(2.0), Some(2.0)]));
        assert_eq!(as_cheap(&peer, &ours), Some([Some(2.0), Some(2.0)]));
        assert_eq!(as_cheap(&ours, &figures(&[100.0, 40.0])), Some([Some(4.0), Some(1.0)]));
        assert_eq!(as_cheap(&ours, &figures(&[100.0, 100.0])), None);
        assert_eq!(as_cheap(&ours, &Figures::default()), None);
    }

    #[test]
    fn a_tenth_goes_at_a_time() {
        assert_eq!([waves(100, 100), waves(100, 90), waves(100, 89), waves(10, 0)], [0, 1, 2, 10]);
    }
}
