//! `NoticeStore` alone: relevant notices, their precedence, their cancellation, and the clock of a deadline.

use std::time::Duration;

use agent::host::clock::WallOffset;
use agent::notices::{
    Maintenance, MaintenanceState, NoticeAction, NoticeReading, NoticeStore, NoticeTerms, NoticeValue,
};
use drain::Millis;
use machine::agent::notices::{NoticeSettings, Rebalance};

const T0: Millis = Millis(1_767_268_800_000);

fn at(seconds: u64) -> Millis {
    T0 + Duration::from_secs(seconds)
}

fn spot(seconds: u64) -> NoticeValue {
    NoticeValue::Spot { action: "terminate".into(), time: at(seconds) }
}

fn maintenance(event: &str, code: &str, standing: MaintenanceState, seconds: u64) -> Maintenance {
    Maintenance { event: event.into(), code: code.into(), standing, not_before: at(seconds), not_after: None }
}

fn reboot(standing: MaintenanceState, seconds: u64) -> NoticeValue {
    NoticeValue::Maintenance(vec![maintenance("e1", "system-reboot", standing, seconds)])
}

fn shutdown() -> NoticeValue {
    NoticeValue::Shutdown(Some(Duration::from_secs(31)))
}

struct Case {
    store: NoticeStore,
    settings: NoticeSettings,
    rebalance: Rebalance,
    approved: Option<&'static str>,
}

impl Case {
    fn new() -> Self {
        let settings = NoticeSettings::default();
        Self { store: NoticeStore::default(), settings, rebalance: Rebalance::Ignore, approved: None }
    }

    fn read(&mut self, value: NoticeValue, now: Millis) -> bool {
        self.store.read(&NoticeReading { value, date: None }, WallOffset::default(), now)
    }

    /// Returns the action, the id of the leading notice, the deadline and the time of forced deletion; times are seconds from
    /// `T0`.
    fn response_of(&self, now: Millis) -> (NoticeAction, String, Option<u64>, Option<u64>) {
        let terms = NoticeTerms { settings: &self.settings, rebalance: self.rebalance, approved: self.approved };
        let response_of = self.store.response(&terms, now);
        let id = response_of.leading.map(|entry| entry.notice.id.clone()).unwrap_or_default();
        let seconds = |at: Option<Millis>| at.map(|at| at.since(T0).as_secs());
        (response_of.demand, id, seconds(response_of.deadline), seconds(response_of.forced))
    }
}

fn draining(id: &str, deadline: u64, forced: Option<u64>) -> (NoticeAction, String, Option<u64>, Option<u64>) {
    (NoticeAction::Drain, id.to_owned(), Some(deadline), forced)
}

#[test]
fn response_takes_most_urgent_notice_and_earliest_deadline() {
    let mut case = Case::new();
    assert_eq!(case.response_of(T0), (NoticeAction::Report, String::new(), None, None));
    assert!(case.read(NoticeValue::Rebalance { time: T0 }, T0));
    assert_eq!(case.response_of(T0).0, NoticeAction::Report);
    assert!(case.read(reboot(MaintenanceState::Active, 900), T0));
    assert_eq!(case.response_of(T0), draining("maintenance-e1", 900, Some(900)));
    assert!(case.read(NoticeValue::Scaling("Terminated".into()), at(1)));
    assert_eq!(case.response_of(at(1)), draining("scaling", 601, Some(601)));
    assert!(case.read(shutdown(), at(2)));
    assert_eq!(case.response_of(at(2)), draining("shutdown", 32, Some(601)), "kubelet stops its pods itself");
    assert!(case.read(spot(122), at(3)));
    assert_eq!(case.response_of(at(3)), draining("spot-terminate-1767268922000", 32, Some(122)));
    assert!(case.read(NoticeValue::Shutdown(None), at(4)));
    assert!(case.read(NoticeValue::Scaling("InService".into()), at(4)));
    assert_eq!(case.response_of(at(4)), draining("spot-terminate-1767268922000", 122, Some(122)));
}

#[test]
fn response_drains_when_maintenance_lead_begins() {
    let mut case = Case::new();
    assert!(case.read(reboot(MaintenanceState::Active, 7200), T0));
    let terms = NoticeTerms { settings: &case.settings, rebalance: Rebalance::Ignore, approved: None };
    assert_eq!(case.store.changes_at(&terms, T0), Some(at(5400)));
    assert_eq!(case.response_of(at(5399)).0, NoticeAction::Report);
    assert_eq!(case.response_of(at(5400)), draining("maintenance-e1", 7200, Some(7200)));
    let mut late = Case::new();
    late.read(reboot(MaintenanceState::Active, 10), at(300));
    assert_eq!(late.response_of(at(300)), draining("maintenance-e1", 420, Some(420)), "its window is open already");
    late.settings.maintenance.enabled = false;
    assert_eq!(late.response_of(at(300)).0, NoticeAction::Report);
}

#[test]
fn response_follows_maintenance_window_when_it_moves() {
    let mut case = Case::new();
    case.read(reboot(MaintenanceState::Active, 1000), T0);
    assert_eq!(case.response_of(T0).0, NoticeAction::Drain);
    assert!(case.read(reboot(MaintenanceState::Active, 90_000), at(5)));
    assert_eq!(case.response_of(at(5)).0, NoticeAction::Report);
    assert!(case.read(reboot(MaintenanceState::Active, 500), at(10)));
    assert_eq!(case.response_of(at(10)), draining("maintenance-e1", 500, Some(500)));
}

#[test]
fn response_ends_when_maintenance_is_canceled_or_absent() {
    for standing in [MaintenanceState::Canceled, MaintenanceState::Completed] {
        let mut case = Case::new();
        case.read(reboot(MaintenanceState::Active, 900), T0);
        assert!(case.read(reboot(standing, 900), at(5)));
        assert_eq!(case.response_of(at(5)).0, NoticeAction::Report, "{standing:?}");
        assert!(!case.read(reboot(standing, 900), at(10)), "the same again is no news");
    }
    let mut case = Case::new();
    case.read(reboot(MaintenanceState::Active, 900), T0);
    case.read(NoticeValue::Maintenance(Vec::new()), at(5));
    assert_eq!(case.response_of(at(60)).0, NoticeAction::Drain, "one empty answer may be a bad one");
    case.read(reboot(MaintenanceState::Active, 900), at(60));
    case.read(NoticeValue::Maintenance(Vec::new()), at(65));
    case.read(NoticeValue::Maintenance(Vec::new()), at(124));
    assert_eq!(case.response_of(at(124)).0, NoticeAction::Drain);
    case.read(NoticeValue::Maintenance(Vec::new()), at(125));
    assert_eq!(case.response_of(at(125)).0, NoticeAction::Report);
    assert!(case.read(reboot(MaintenanceState::Active, 900), at(130)));
    assert_eq!(case.response_of(at(130)), draining("maintenance-e1-1", 900, Some(900)), "it is another notice now");
}

#[test]
fn read_is_stable_when_maintenance_list_contradicts_itself() {
    let entry = |standing, seconds| maintenance("e1", "system-reboot", standing, seconds);
    let (early, late) = (entry(MaintenanceState::Active, 900), entry(MaintenanceState::Active, 1800));
    let over = entry(MaintenanceState::Canceled, 1800);
    for (list, counts) in [
        (vec![early.clone(), late.clone()], Some(900)),
        (vec![late.clone(), early.clone()], Some(900)),
        (vec![early.clone(), over.clone()], None),
        (vec![over, early], None),
    ] {
        let mut case = Case::new();
        assert_eq!(case.read(NoticeValue::Maintenance(list.clone()), T0), counts.is_some(), "{list:?}");
        assert!(!case.read(NoticeValue::Maintenance(list.clone()), T0), "the same is no news: {list:?}");
        let expected = counts.map_or_else(
            || (NoticeAction::Report, String::new(), None, None),
            |end| draining("maintenance-e1", end, Some(end)),
        );
        assert_eq!(case.response_of(T0), expected, "{list:?}");
    }
}

#[test]
fn read_accepts_only_an_earlier_spot_deadline() {
    let mut case = Case::new();
    assert!(case.read(spot(120), T0));
    for later in
        [spot(120), spot(121), spot(4000), NoticeValue::Scaling("InService".into()), NoticeValue::Shutdown(None)]
    {
        assert!(!case.read(later.clone(), at(1)), "{later:?}");
    }
    assert!(case.read(spot(90), at(2)));
    assert_eq!(case.response_of(at(9000)), draining("spot-terminate-1767268920000", 90, Some(90)));
}

#[test]
fn pass_removes_notice_when_machine_resumes_from_hibernation() {
    let mut case = Case::new();
    case.read(NoticeValue::Spot { action: "hibernate".into(), time: at(10) }, T0);
    let terms = NoticeTerms { settings: &case.settings, rebalance: Rebalance::Ignore, approved: None };
    assert_eq!(case.store.changes_at(&terms, T0), Some(at(310)));
    assert!(!case.store.pass(at(309)) && case.store.pass(at(310)) && !case.store.pass(at(311)));
    assert_eq!(case.response_of(at(310)).0, NoticeAction::Report);
    let mut case = Case::new();
    case.read(spot(10), T0);
    assert!(!case.store.pass(at(100_000)), "one that was to end has not come back");
}

#[test]
fn response_follows_rebalance_policy_of_nodepool() {
    let mut case = Case::new();
    case.read(NoticeValue::Rebalance { time: T0 }, T0);
    let id = "rebalance-1767268800000";
    let rows = [
        (Rebalance::Ignore, Some(id), NoticeAction::Report),
        (Rebalance::Cordon, Some(id), NoticeAction::Cordon),
        (Rebalance::Replace, None, NoticeAction::Cordon),
        (Rebalance::Replace, Some("rebalance-1"), NoticeAction::Cordon),
        (Rebalance::Replace, Some(id), NoticeAction::Drain),
    ];
    for (policy, approved, demand) in rows {
        (case.rebalance, case.approved) = (policy, approved);
        assert_eq!(case.response_of(at(1)), (demand, id.to_owned(), None, None), "{policy:?} {approved:?}");
    }
    case.read(spot(120), at(2));
    assert_eq!(case.response_of(at(2)), draining("spot-terminate-1767268920000", 120, Some(120)));
}

#[test]
fn read_ignores_scaling_states_without_termination() {
    for state in ["InService", "Standby", "Detached", "Warmed:Stopped", "Pending:Wait", "x"] {
        let mut case = Case::new();
        assert!(!case.read(NoticeValue::Scaling(state.into()), T0), "{state}");
        case.read(NoticeValue::Scaling("Terminated".into()), T0);
        let stays = matches!(state, "InService" | "Standby" | "Detached");
        assert_eq!(case.read(NoticeValue::Scaling(state.into()), at(5)), stays, "{state}");
    }
}

#[test]
fn rebooted_removes_reboot_maintenance_only() {
    let list = |standing| {
        NoticeValue::Maintenance(vec![
            maintenance("boots", "instance-reboot", standing, 100),
            maintenance("ends", "instance-retirement", standing, 100),
        ])
    };
    let mut case = Case::new();
    case.read(list(MaintenanceState::Active), T0);
    case.store = std::mem::take(&mut case.store).rebooted();
    assert_eq!(case.response_of(at(200)).0, NoticeAction::Report);
    case.read(list(MaintenanceState::Active), at(300));
    assert_eq!(case.response_of(at(300)), draining("maintenance-ends", 420, Some(420)), "EC2 goes on listing both");
    case.read(list(MaintenanceState::Completed), at(400));
    assert_eq!(case.response_of(at(400)).0, NoticeAction::Report);
}

#[test]
fn response_uses_remaining_time_when_clocks_disagree() {
    // Columns: the time of EC2's clock, the error of the machine's clock in ms, and the seconds left for the drain. The notice
    // gives two minutes.
    let rows = [
        (None, 0, 120),
        (Some(at(0)), 0, 120),
        (Some(at(2)), 0, 120),
        (Some(at(60)), 0, 60),
        (Some(at(500)), 0, 0),
        (Some(Millis(0)), 0, 120),
        (Some(at(0)), 3_600_000, 120),
        (Some(at(0)), -3_600_000, 120),
    ];
    for (date_header, set, left) in rows {
        // The wall clock shows `T0` plus its error; the agent's own clock shows another time.
        let now = at(50_000);
        let truth = i64::try_from(now.0).unwrap_or(0) - i64::try_from(T0.0).unwrap_or(0);
        let wall = WallOffset(set - truth);
        let mut store = NoticeStore::default();
        store.read(&NoticeReading { value: spot(120), date: date_header }, wall, now);
        let settings = NoticeSettings::default();
        let terms = NoticeTerms { settings: &settings, rebalance: Rebalance::Ignore, approved: None };
        let deadline = store.response(&terms, now).deadline.unwrap_or_default();
        assert_eq!(deadline.since(now).as_secs(), left, "{date_header:?} {set}");
    }
}

#[test]
fn read_bounds_the_number_of_maintenance_notices() {
    let mut case = Case::new();
    for round in 0..200_u64 {
        let name = |index: u64| format!("e{}", round * 40 + index);
        let list = |standing| (0..40).map(|index| maintenance(&name(index), "x", standing, 100)).collect();
        case.read(NoticeValue::Maintenance(list(MaintenanceState::Active)), at(round));
        case.read(NoticeValue::Maintenance(list(MaintenanceState::Completed)), at(round));
    }
    assert!(case.store.all().count() <= 104, "{}", case.store.all().count());
}
