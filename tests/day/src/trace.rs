//! Day of a typical cluster: services that scale with their users, single replicas, jobs, and faults.

use crate::app::App;
use crate::clock::{HOUR, MINUTE, Moment, SECOND};
use crate::dice::Dice;
use crate::faults::{self, Fault, Kinds, Recovery};

/// Percentage of the services whose pods use more than usual, per hour.
const HUNGRY: u32 = 8;
/// Interval between image changes, in hours; a shorter day has one change.
const IMAGES: i64 = 4;

/// Size of a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Number of services.
    pub services: usize,
    /// Jobs per hour of the working day.
    pub jobs: i64,
    /// Number of faults over the whole time.
    pub faults: usize,
    /// Kinds of the faults.
    pub kinds: Kinds,
    /// First hour of the day.
    pub from: i64,
    /// Number of hours.
    pub hours: i64,
}

/// Event of a day.
#[derive(Clone, Debug)]
pub enum Event {
    /// Creation of a workload.
    Come(App),
    /// New number of replicas of a workload.
    Scale(String, usize),
    /// New usage of a workload's pods, in percent of their requests.
    Use(String, i64),
    /// Drift of every n-th existing node, in the order of NodeClaim names.
    Drift(usize),
    /// Fault in the cluster, EC2 or the controller.
    Fault(Fault),
    /// End of a fault.
    Recovery(Recovery),
}

/// Returns all events of a day, in order.
#[must_use]
pub fn day(seed: u64, size: Size, start: Moment) -> Vec<(Moment, Event)> {
    let mut dice = Dice::new(seed);
    let mut events = Vec::new();
    for number in 0..size.services {
        services(&mut dice, number, size, start, &mut events);
    }
    jobs(&mut dice, size, start, &mut events);
    appetites(seed, size, start, &mut events);
    drifts(seed, size, start, &mut events);
    for _ in 0..size.faults {
        let at = start + dice.between(10 * MINUTE, (size.hours * HOUR - 30 * MINUTE).max(11 * MINUTE));
        events.push((at, Event::Fault(faults::draw(&mut dice, size.kinds))));
    }
    events.sort_by_key(|(at, _)| *at);
    events
}

/// Returns the share of active users in percent: low at night, highest in the afternoon.
fn crowd(minute: i64) -> i64 {
    let from_peak = (minute.rem_euclid(24 * 60) - 14 * 60).abs().min(10 * 60);
    100 - 75 * from_peak / (10 * 60)
}

fn services(dice: &mut Dice, number: usize, size: Size, start: Moment, events: &mut Vec<(Moment, Event)>) {
    let single = dice.chance(15);
    let most = if single { 1 } else { dice.between(3, 24) };
    let app = service(dice, number, single, most);
    let wanted = |minute: i64| if single { 1 } else { (most * crowd(minute)).div_euclid(100).max(2) };
    let name = app.name.clone();
    let begin = size.from * 60;
    let first = usize::try_from(wanted(begin)).unwrap_or(1);
    events.push((start, Event::Come(App { wanted: first, ..app })));
    let mut minute = dice.between(1, 9);
    let mut before = first;
    while minute < size.hours * 60 {
        let noise = if single { 0 } else { dice.between(-1, 1) };
        let now = usize::try_from((wanted(begin + minute) + noise).max(1)).unwrap_or(1);
        if now != before {
            events.push((start + minute * MINUTE + dice.between(0, 59) * SECOND, Event::Scale(name.clone(), now)));
            before = now;
        }
        minute += dice.between(6, 14);
    }
}

/// Adds periods in which pods of some services use more than they request. The random numbers are separate, so they do not
/// change other events of the day.
fn appetites(seed: u64, size: Size, start: Moment, events: &mut Vec<(Moment, Event)>) {
    let mut dice = Dice::new(!seed);
    let services: Vec<(String, i64)> = events
        .iter()
        .filter_map(|(_, event)| match event {
            Event::Come(app) if app.lasts.is_none() => Some((app.name.clone(), app.uses)),
            _ => None,
        })
        .collect();
    for (name, usual) in services {
        for hour in (0..size.hours).filter(|_| dice.chance(HUNGRY)).collect::<Vec<_>>() {
            let at = start + hour * HOUR + dice.between(0, 59) * MINUTE;
            events.push((at, Event::Use(name.clone(), dice.between(90, 160))));
            events.push((at + dice.between(10, 50) * MINUTE, Event::Use(name.clone(), usual)));
        }
    }
}

/// Adds drift of some nodes at intervals, with separate random numbers.
fn drifts(seed: u64, size: Size, start: Moment, events: &mut Vec<(Moment, Event)>) {
    let mut dice = Dice::new(seed.rotate_left(32));
    for first in (0..size.hours).step_by(usize::try_from(IMAGES).unwrap_or(1)) {
        let minutes = (size.hours - first).min(IMAGES) * 60;
        let at = start + first * HOUR + dice.between(minutes / 4, minutes / 2) * MINUTE;
        events.push((at, Event::Drift(dice.between(2, 4))));
    }
}

fn service(dice: &mut Dice, number: usize, single: bool, most: i64) -> App {
    let cpu = *dice.one(&[100, 250, 500, 500, 1000, 1500]);
    let gibibytes = *dice.one(&[1, 2, 2, 4, 4, 8]);
    let apart = !single && most <= 8 && dice.chance(30);
    App {
        name: format!("service-{number:03}"),
        cpu,
        memory: (gibibytes << 30) * cpu / 500,
        uses: dice.between(10, 70),
        grace: dice.between(5, 60),
        starts: dice.between(2, 30) * SECOND,
        stops: dice.between(1, 40) * SECOND,
        may_be_away: (!single && dice.chance(60)).then(|| usize::try_from(dice.between(1, 2)).unwrap_or(1)),
        spread: !single && !apart && dice.chance(30),
        apart,
        on_demand: dice.chance(20),
        rests: dice.chance(25).then(|| dice.between(1, 4) * 30 * MINUTE),
        ..App::default()
    }
}

fn jobs(dice: &mut Dice, size: Size, start: Moment, events: &mut Vec<(Moment, Event)>) {
    let mut number = 0;
    for minute in 0..size.hours * 60 {
        // Threshold out of 6,000 per minute.
        let busy = size.jobs * crowd(size.from * 60 + minute);
        if dice.between(1, 6_000) > busy {
            continue;
        }
        number += 1;
        let app = App {
            name: format!("job-{number:04}"),
            wanted: usize::try_from(dice.between(1, 8)).unwrap_or(1),
            cpu: *dice.one(&[1000, 2000, 4000]),
            memory: dice.between(2, 8) << 30,
            uses: 90,
            grace: 30,
            lasts: Some(dice.between(3, 40) * MINUTE),
            ..App::default()
        };
        events.push((start + minute * MINUTE + dice.between(0, 59) * SECOND, Event::Come(app)));
    }
}
