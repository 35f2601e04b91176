//! A reboot: its own reason, a cordon with or without a drain, and a node in service after the boot.

use std::time::Duration;

use agent::notices::{NoticeValue, parse_maintenance};
use agent::run::journal::Journal;
use agent::run::lifecycle::{AgentAction, Lifecycle};
use machine::agent::AgentSettings;
use serde_json::json;

use super::decisions::{INSTANCE as INSTANCE_ID, T0, at, carried_on, node, node_with, reading, settle, short, started};
use super::logind::{Bus, PLAIN, REBOOTS};
use super::whole::condition;
use crate::api::{Api, until};
use crate::machine::{INSTANCE, Machine, node as registered};

const PROVIDER: &str = "aws:///us-west-2a/i-0abc";

fn reboots(seconds: u64) -> agent::run::lifecycle::Input {
    reading(NoticeValue::Reboot(Duration::from_secs(seconds)))
}

/// Returns a lifecycle that only cordons the node before a reboot.
fn without_drain(shutdown: bool) -> Lifecycle {
    let mut settings = AgentSettings::default();
    settings.notices.reboot.drain = false;
    settings.notices.shutdown.enabled = shutdown;
    let mut lifecycle = started();
    lifecycle.configure(&settings);
    lifecycle.take(node(), T0);
    settle(&mut lifecycle, T0);
    lifecycle
}

/// Returns our Node, cordoned, with the agent's report of a reboot.
fn rebooting_node() -> agent::run::lifecycle::Input {
    node_with(PROVIDER, |node| {
        node["spec"]["unschedulable"] = json!(true);
        let reported = json!({"type": "kerf.sh/Interrupted", "status": "True", "reason": "InstanceReboot"});
        node["status"]["conditions"].as_array_mut().unwrap().push(reported);
    })
}

fn yields(acts: &[AgentAction]) -> bool {
    acts.contains(&AgentAction::Yield)
}

#[test]
fn reboot_without_drain_waits_until_the_node_reports_it() {
    let mut lifecycle = without_drain(true);
    lifecycle.take(reboots(31), T0);
    let acts = settle(&mut lifecycle, T0);
    assert!(short(&acts).contains(&"cordon".to_owned()), "{acts:?}");
    assert!(short(&acts).contains(&"CNI=False InstanceReboot=True".to_owned()), "{acts:?}");
    assert!(!yields(&acts) && lifecycle.journal().drain.is_none());
    lifecycle.take(rebooting_node(), at(1));
    assert!(yields(&settle(&mut lifecycle, at(1))), "the report is on the Node");

    let mut lifecycle = without_drain(true);
    lifecycle.take(reboots(31), T0);
    assert!(!yields(&settle(&mut lifecycle, at(29))));
    assert!(yields(&settle(&mut lifecycle, at(30))), "logind waits no longer");

    let mut lifecycle = without_drain(false);
    lifecycle.take(reboots(31), T0);
    let acts = settle(&mut lifecycle, T0);
    assert!(yields(&acts) && !short(&acts).contains(&"cordon".to_owned()), "shutdown.enabled: false: {acts:?}");
}

#[test]
fn reboot_maintenance_only_cordons_when_drain_is_disabled() {
    let listed = |code: &str| {
        let body = format!(
            r#"[{{"Code": "{code}", "EventId": "e1", "NotBefore": "1 Jan 2026 14:00:00 GMT", "State": "active"}}]"#
        );
        reading(NoticeValue::Maintenance(parse_maintenance(body.as_bytes()).unwrap()))
    };
    for (code, drains) in [("system-reboot", false), ("instance-reboot", false), ("instance-stop", true)] {
        let mut lifecycle = without_drain(true);
        lifecycle.take(listed(code), T0);
        let early = short(&settle(&mut lifecycle, at(5399)));
        assert!(!early.contains(&"cordon".to_owned()), "{code}: {early:?}");
        let due: Vec<String> = (5400..5420).flat_map(|second| short(&settle(&mut lifecycle, at(second)))).collect();
        assert!(due.contains(&"cordon".to_owned()), "{code}: {due:?}");
        assert_eq!(lifecycle.journal().drain.is_some(), drains, "{code}");
        let reported = due.iter().any(|act| act.contains("InstanceReboot=True"));
        assert_eq!(reported, !drains, "{code}: {due:?}");
    }
}

#[test]
fn reboot_gives_way_to_a_shutdown_and_ends_when_cancelled() {
    let mut lifecycle = started();
    lifecycle.take(node(), T0);
    lifecycle.take(reboots(31), T0);
    settle(&mut lifecycle, T0);
    lifecycle.take(reading(NoticeValue::Shutdown(Some(Duration::from_secs(31)))), at(1));
    let acts = short(&settle(&mut lifecycle, at(1)));
    assert!(acts.iter().any(|act| act.contains("InstanceShutdown=True")), "{acts:?}");
    lifecycle.take(rebooting_node(), at(2));
    lifecycle.take(reading(NoticeValue::Shutdown(None)), at(2));
    let acts = short(&settle(&mut lifecycle, at(2)));
    assert!(acts.iter().any(|act| act.contains("InterruptionOver=False")), "{acts:?}");
}

/// Another owner's cordon stays after the boot, the agent's own one goes.
#[test]
fn boot_lifts_only_the_cordon_of_the_agent() {
    for foreign in [false, true] {
        let before = if foreign { rebooting_node() } else { node() };
        let mut lifecycle = carried_on(Journal::new(INSTANCE_ID, Some("one".into())), T0);
        lifecycle.take(before, T0);
        lifecycle.take(reboots(31), T0);
        settle(&mut lifecycle, T0);
        let journal = lifecycle.journal().clone().carried_on(INSTANCE_ID, Some("two".into()));
        let mut lifecycle = carried_on(journal, at(60));
        lifecycle.take(rebooting_node(), at(60));
        let acts: Vec<AgentAction> = (60..80).flat_map(|second| settle(&mut lifecycle, at(second))).collect();
        let uncordons = acts.iter().any(|act| match act {
            AgentAction::PatchNode(patch) => patch["spec"]["unschedulable"] == false,
            _ => false,
        });
        assert_eq!(uncordons, !foreign, "{acts:?}");
        assert!(short(&acts).iter().any(|act| act.contains("InterruptionOver=False")), "{acts:?}");
    }
}

#[tokio::test]
async fn agent_returns_node_to_service_after_a_reboot() {
    let api = Api::start().await;
    let mut machine = Machine::boot().await;
    let bus = Bus::start(machine.root.path(), &[REBOOTS, PLAIN]);
    machine.write("proc/sys/kernel/random/boot_id", "one\n");
    machine.join(&api);
    machine.cni();
    api.put_node(registered(INSTANCE));
    api.put_pod("a", 1);
    machine.start();
    let ready = || condition(&api, "kerf.sh/Ready").filter(|it| it["status"] == "True");
    until("open gates", ready).await;
    bus.signals.send(true).unwrap();
    let interrupted = |status: &'static str| condition(&api, "kerf.sh/Interrupted").filter(|it| it["status"] == status);
    let reported = until("the report", || interrupted("True")).await;
    assert_eq!(reported["reason"], "InstanceReboot");
    until("an empty node", || api.state().pods.is_empty().then_some(())).await;
    let released = tokio::task::spawn_blocking(move || (bus.released.recv_timeout(crate::api::PATIENCE), bus.signals));
    let (released, _signals) = released.await.unwrap();
    assert_eq!(released, Ok(()), "the reboot continues once the node is empty");
    assert_eq!(api.state().node.as_ref().unwrap()["spec"]["unschedulable"], true);
    machine.kill();
    machine.write("proc/sys/kernel/random/boot_id", "two\n");
    machine.start();
    until("the end of the report", || interrupted("False")).await;
    let cordoned = || api.state().node.as_ref().unwrap()["spec"]["unschedulable"] == true;
    until("the end of the cordon", || (!cordoned()).then_some(())).await;
    until("open gates", ready).await;
}
