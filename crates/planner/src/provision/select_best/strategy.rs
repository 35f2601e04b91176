//! Strategies for one plan. No strategy is best for every fleet, so small plans are made with all of them and the cheapest is
//! kept. Large plans use only the strategies that justify their time. The common first part runs once (`fill_existing`).

/// Order of pods in the queue, and rule for what a new launch is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strategy {
    pub(in crate::provision) order: QueueOrder,
    pub(in crate::provision) load: LoadRule,
}

/// Order among pods of one priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueOrder {
    /// Largest requests first.
    Size,
    /// Pods that need the most hosts first, independent of their size: other pods can share these hosts.
    Hosts,
}

/// Rule for what a launch is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadRule {
    /// One pod; others join while the price justifies it.
    One,
    /// One pod; others join where they fit beside it.
    Fit,
    /// As many pods of one shape as make each of them cheapest.
    Own,
    /// One part of the cheapest fleet for all pending pods.
    Fleet,
    /// Even shares of pods that are spread over hosts, on the number of hosts that costs least.
    Even,
    /// The same, also for pods that prefer separate hosts: at least two hosts.
    Shared,
    /// The same, but only pods that avoid each other share the hosts evenly. Other pods join where they fit.
    SharedByOwn,
    /// One part of the cheapest fleet for all pending pods. Pods that prefer separate hosts are on at least two.
    SharedFleet,
}

impl LoadRule {
    /// Reports whether launches are parts of a fleet for all pending pods.
    pub(in crate::provision) fn plans_fleet(self) -> bool {
        matches!(self, Self::Fleet | Self::SharedFleet)
    }

    /// Reports whether pods that prefer separate hosts may share them.
    pub(in crate::provision) fn shares_hosts(self) -> bool {
        matches!(self, Self::Shared | Self::SharedByOwn | Self::SharedFleet)
    }
}

/// Strategies for every plan.
pub(in crate::provision) const ALWAYS: [Strategy; 2] = [
    Strategy { order: QueueOrder::Size, load: LoadRule::Own },
    Strategy { order: QueueOrder::Size, load: LoadRule::One },
];

/// Further strategies for plans with few pods.
const FEW_PODS: [Strategy; 4] = [
    Strategy { order: QueueOrder::Hosts, load: LoadRule::Own },
    Strategy { order: QueueOrder::Hosts, load: LoadRule::One },
    Strategy { order: QueueOrder::Size, load: LoadRule::Fit },
    Strategy { order: QueueOrder::Size, load: LoadRule::Fleet },
];

/// Further strategy for plans with few pods, some of which are spread over hosts.
pub(in crate::provision) const EVEN: Strategy = Strategy { order: QueueOrder::Size, load: LoadRule::Even };

/// Strategies for plans with few pods, some of which prefer separate hosts. Used where separate hosts cost too much more.
const SHARED: [Strategy; 2] = [
    Strategy { order: QueueOrder::Size, load: LoadRule::Shared },
    Strategy { order: QueueOrder::Size, load: LoadRule::SharedByOwn },
];

/// Further strategy for plans with few pods of few shapes, some of which prefer separate hosts.
const SHARED_FLEET: Strategy = Strategy { order: QueueOrder::Size, load: LoadRule::SharedFleet };

/// Further strategies for plans with many pods but few shapes.
const FEW_SHAPES: [Strategy; 1] = [Strategy { order: QueueOrder::Size, load: LoadRule::Fleet }];

/// Maximum for few pods: pods on launches, and pods times shapes.
const MOST_PODS: (usize, usize) = (2_000, 400_000);
/// Maximum of pods times shapes for a shared fleet, because each preference is priced by fleets of its own.
const MOST_SHARED: usize = 5_000;
/// Maximum for few shapes.
const MOST_SHAPES: usize = 120;

/// Returns the further strategies that justify their time for a plan with so many pods of so many shapes on launches or without
/// a place. Many pods of one shape have only one possible fleet. A few pods of one shape still try all strategies, because
/// their result must not depend on whether unrelated pods are pending too.
pub(in crate::provision) fn more(pods: usize, shapes: usize) -> &'static [Strategy] {
    match shapes {
        0 => &[],
        _ if are_few(pods, shapes) => &FEW_PODS,
        2..=MOST_SHAPES => &FEW_SHAPES,
        _ => &[],
    }
}

/// Returns the strategies that price preferences for separate hosts, for so many pods of so many shapes.
pub(in crate::provision) fn shared(pods: usize, shapes: usize) -> Vec<Strategy> {
    let plans_fleet = pods.saturating_mul(shapes) <= MOST_SHARED;
    SHARED.into_iter().chain(plans_fleet.then_some(SHARED_FLEET)).collect()
}

/// Reports whether a plan has few pods on launches or without a place.
pub(in crate::provision) fn are_few(pods: usize, shapes: usize) -> bool {
    pods <= MOST_PODS.0 && pods.saturating_mul(shapes) <= MOST_PODS.1
}
