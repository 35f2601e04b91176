//! Measurements of a controller, and the comparison of two controllers.

use std::fmt;

use testbed::measure::Measure;

/// Share of the fall in cost that may remain: a fleet this close to its final cost counts as scaled in.
const CLOSE: f64 = 0.02;

/// Measurements of one scenario with one controller.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Seconds from the last pod, or from the controller's start if that is later, to the first NodeClaim; negative if it came
    /// earlier.
    pub first_claim: f64,
    /// Fleet on which every pod runs; `None` if that was never reached.
    pub ran: Option<Ran>,
    /// Result of the change, if there was one.
    pub after: Option<After>,
    /// Peak memory of the controller's process, in MiB.
    pub rss_peak_mib: f64,
    /// CPU time of the controller's process, in seconds.
    pub cpu: f64,
}

/// Fleet on which every pod runs.
#[derive(Clone, Copy, Debug)]
pub struct Ran {
    /// Seconds from the moment from which pods waited.
    pub took: f64,
    /// Number of nodes.
    pub nodes: usize,
    /// Cost in dollars per hour.
    pub cost: f64,
}

/// Result of a change.
#[derive(Clone, Debug)]
pub struct After {
    /// Seconds until the fleet was final; `None` if it never was.
    pub took: Option<f64>,
    /// Seconds that budgets, boots and drains alone take.
    pub bound: f64,
    /// Number of nodes in the end.
    pub nodes: usize,
    /// Cost in dollars per hour in the end.
    pub cost: f64,
    /// Cost over time.
    pub course: Course,
}

/// Pairs of seconds since a change and cost in dollars per hour, the first at 0.
#[derive(Clone, Default)]
pub struct Course(pub Vec<(f64, f64)>);

impl fmt::Debug for Course {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} prices", self.0.len())
    }
}

impl Course {
    /// Returns the cost that counts as final; `None` if the cost never fell.
    fn goal(&self) -> Option<f64> {
        let (first, last) = (self.0.first()?.1, self.0.last()?.1);
        (last < first).then_some(last + (first - last) * CLOSE)
    }

    /// Returns the time at which the cost fell to `price`.
    fn down_to(&self, price: f64) -> Option<f64> {
        self.0.iter().find(|(_, cost)| *cost <= price).map(|(at, _)| *at)
    }

    /// Returns the time at which the cost counts as final.
    pub fn fallen(&self) -> Option<f64> {
        self.down_to(self.goal()?)
    }
}

/// Name of a measurement, its accessor and its unit.
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

/// Returns the lines of one scenario for `live.json`. A measurement that neither side reached has no line.
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

/// Returns the time at which each side's fleet cost no more than the higher of both final costs.
fn as_cheap(ours: &Figures, peer: &Figures) -> Option<[Option<f64>; 2]> {
    let sides = [&ours.after.as_ref()?.course, &peer.after.as_ref()?.course];
    let dearer = sides[0].goal()?.max(sides[1].goal()?);
    Some(sides.map(|course| course.down_to(dearer)))
}

/// Returns the number of waves from `before` to `after` nodes, a tenth at a time, which is the default budget of a NodePool.
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
    fn fallen_ignores_the_last_two_percent() {
        let second = |costs: &[f64]| course(costs).fallen();
        assert_eq!(second(&[100.0, 60.0, 51.0, 50.5, 50.0]), Some(2.0));
        assert_eq!(second(&[100.0, 60.0, 80.0, 50.0]), Some(3.0));
        assert_eq!(second(&[100.0, 100.0]), None);
        assert_eq!(second(&[]), None);
    }

    #[test]
    fn as_cheap_compares_at_the_higher_final_cost() {
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
    fn waves_counts_steps_of_ten_percent() {
        assert_eq!([waves(100, 100), waves(100, 90), waves(100, 89), waves(10, 0)], [0, 1, 2, 10]);
    }
}
