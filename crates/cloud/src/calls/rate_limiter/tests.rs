//! Tests of the request queue: bursts, rates, priorities, cuts.

use super::*;

fn second(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Admits all calls that are due by `now` and returns their names in that order.
fn pass(line: &mut RequestQueue, now: Duration) -> Vec<&'static str> {
    let mut passed = Vec::new();
    loop {
        let waiting: Vec<(Ticket, &'static str)> = line.waiting.iter().map(|(ticket, call)| (*ticket, *call)).collect();
        let Some((_, call)) = waiting.into_iter().find(|(ticket, _)| line.admit(*ticket, now).is_ok()) else {
            return passed;
        };
        passed.push(call);
    }
}

#[test]
fn request_queue_admits_the_burst_and_then_the_rate() {
    let mut line = RequestQueue::default();
    for _ in 0..1000 {
        line.join("CreateFleet");
    }
    assert_eq!(pass(&mut line, second(0)).len(), 46);
    assert_eq!(pass(&mut line, second(1)).len(), 5);
    assert_eq!(pass(&mut line, second(11)).len(), 46);
    assert_eq!(pass(&mut line, second(10_000)).len(), 46, "no more than the burst is saved up");
}

#[test]
fn request_queue_admits_terminations_before_launches_and_tags() {
    let mut line = RequestQueue::new(Rate { burst: 1, per_second: 1 }, QUESTIONS);
    let calls = ["DeleteLaunchTemplate", "CreateTags", "CreateFleet", "CreateTags", "TerminateInstances"];
    for call in calls {
        assert!(line.join(call).is_some());
    }
    let order: Vec<&str> = (0..5).flat_map(|moment| pass(&mut line, second(moment))).collect();
    assert_eq!(order, ["TerminateInstances", "CreateFleet", "CreateTags", "CreateTags", "DeleteLaunchTemplate"]);
    assert!(line.join("GetParameter").is_none(), "other services have limits of their own");
}

#[test]
fn request_queue_admits_writes_when_reads_are_pending() {
    let mut line = RequestQueue::default();
    for _ in 0..200 {
        line.join("DescribeSubnets");
    }
    line.join("DescribeInstances");
    line.join("CreateFleet");
    let passed = pass(&mut line, second(0));
    assert_eq!(passed.iter().filter(|call| **call == "CreateFleet").count(), 1);
    assert!(passed.contains(&"DescribeInstances"), "the last to come, but a caller waits for the answer");
    assert_eq!(passed.len(), 91);
}

#[test]
fn learn_halves_the_rate_when_throttled_and_restores_it() {
    let mut line = RequestQueue::default();
    line.learn("CreateTags", true, second(0));
    line.learn("CreateTags", true, Duration::from_millis(500));
    assert_eq!(line.rates()["CreateTags"], 2500, "refusals of the same moment count once");
    line.join("CreateTags");
    line.join("CreateFleet");
    assert_eq!(pass(&mut line, Duration::from_millis(100)), ["CreateFleet"], "others are not held up");
    assert_eq!(pass(&mut line, Duration::from_millis(400)), ["CreateTags"]);
    for moment in 1..20 {
        line.learn("CreateTags", true, second(moment * 2));
    }
    assert_eq!(line.rates()["CreateTags"], 312, "there is a floor");
    for _ in 0..60 {
        line.learn("CreateTags", false, second(100));
    }
    assert_eq!(line.rates()["CreateTags"], 5000);
}

#[test]
fn leave_removes_a_cancelled_call_from_the_queue() {
    let mut line = RequestQueue::new(Rate { burst: 1, per_second: 1 }, QUESTIONS);
    let first = line.join("TerminateInstances").unwrap();
    let second_one = line.join("CreateFleet").unwrap();
    assert!(line.admit(second_one, second(0)).is_err());
    line.leave(first);
    assert!(line.admit(second_one, second(0)).is_ok());
}
