//! Health of a running agent: from a line of the kernel log to condition and event; no condition where another agent writes it.

use serde_json::{Value, json};

use crate::api::{Api, until};
use crate::machine::{INSTANCE, Machine, node};

fn condition(api: &Api, kind: &str) -> Option<Value> {
    let state = api.state();
    let conditions = state.node.as_ref()?["status"]["conditions"].as_array()?.clone();
    conditions.into_iter().find(|it| it["type"] == kind)
}

/// Returns a machine that booted a minute ago, and whose kernel has shut a file system down since.
async fn broken() -> (Api, Machine) {
    let (api, machine) = (Api::start().await, Machine::boot().await);
    let boot = jiff::Timestamp::now().as_second() - 60;
    machine.write("proc/stat", &format!("btime {boot}\n"));
    machine.write("dev/kmsg", "3,9,5000000,-;XFS (nvme0n1p1): Metadata I/O Error. Shutting down filesystem.\n");
    machine.join(&api);
    machine.cni();
    (api, machine)
}

#[tokio::test]
async fn health_writes_false_condition_and_event_on_kernel_error() {
    let (api, mut machine) = broken().await;
    api.put_node(node(INSTANCE));
    machine.start();
    let reported = until("the condition", || condition(&api, "StorageReady")).await;
    assert_eq!((reported["status"].as_str(), reported["reason"].as_str()), (Some("False"), Some("FilesystemShutdown")));
    assert!(reported["message"].as_str().unwrap().contains("Shutting down filesystem"), "{reported}");
    assert!(reported["lastHeartbeatTime"].is_string() && reported["lastTransitionTime"].is_string());
    for (kind, reason) in [("KernelReady", "KernelIsReady"), ("NetworkingReady", "NetworkingIsReady")] {
        let reported = condition(&api, kind).unwrap();
        assert_eq!((reported["status"].as_str(), reported["reason"].as_str()), (Some("True"), Some(reason)));
    }
    assert_eq!(condition(&api, "AcceleratedHardwareReady"), None, "it has none");
    let event_message = || {
        let state = api.state();
        let mut events = state.events.values();
        events.find(|event| event["reason"] == "StorageReady").map(|event| event["message"].clone())
    };
    let event_message = until("the event", event_message).await;
    assert!(event_message.as_str().unwrap().starts_with("FilesystemShutdown: XFS"), "{event_message}");
}

#[tokio::test]
async fn health_keeps_conditions_of_another_agent() {
    let (api, mut machine) = broken().await;
    let mut object = node(INSTANCE);
    let theirs = json!({"type": "StorageReady", "status": "True", "reason": "StorageIsReady", "message": "Storage is fine",
                        "lastHeartbeatTime": jiff::Timestamp::now().to_string()});
    object["status"]["conditions"].as_array_mut().unwrap().push(theirs.clone());
    api.put_node(object);
    machine.start();
    until("open gates", || condition(&api, "kerf.sh/Ready").filter(|it| it["status"] == "True")).await;
    until("the event all the same", || (!api.state().events.is_empty()).then_some(())).await;
    assert_eq!(condition(&api, "StorageReady"), Some(theirs));
    assert_eq!(condition(&api, "KernelReady"), None);
}
