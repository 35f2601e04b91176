//! A stop by SIGTERM, as systemd sends it. The test has its own process, because a signal reaches the whole process.

#[path = "run/api.rs"]
#[expect(dead_code, reason = "the other tests of the loop use the rest")]
mod api;
#[path = "run/machine.rs"]
#[expect(dead_code, reason = "the other tests of the loop use the rest")]
mod machine;

use nix::sys::signal::{Signal, raise};

use api::{Api, until};
use machine::{INSTANCE, Machine, node};

#[tokio::test]
async fn agent_writes_journal_when_stopped_by_sigterm() {
    let api = Api::start().await;
    let mut machine = Machine::boot().await;
    machine.join(&api);
    api.put_node(node(INSTANCE));
    api.put_pod("held", 1);
    api.state().budget_holds = true;
    machine.interrupt(120);
    let agent = machine.start();
    until("a refused eviction", || {
        let path = "/api/v1/namespaces/default/pods/pod-held/eviction";
        api.requests(&hyper::Method::POST, path).pop()
    })
    .await;
    raise(Signal::SIGTERM).unwrap();
    let ended = tokio::time::timeout(api::PATIENCE, agent).await;
    ended.expect("the agent ends in time").unwrap();
    let journal = machine.journal().expect("a journal");
    let pod = &journal["drain"]["pods"]["held"];
    assert_eq!(pod["pod"]["name"], "pod-held");
    assert!(pod["state"]["Asked"].is_null(), "the answer under way was taken in: {pod}");
    assert!(api.requests(&hyper::Method::DELETE, "/api/v1/namespaces/default/pods/pod-held").is_empty());
}
