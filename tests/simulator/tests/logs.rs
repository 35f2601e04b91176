//! Log lines of the whole controller: those of one NodeClaim are found by its name. The test has a program of its own, because
//! all threads of a process share what is logged.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::sync::{Arc, Mutex};

use log::{LevelFilter, Log, Metadata, Record};
use serde_json::{Value, json};
use simulator::cluster::{ModelCluster, pool};
use simulator::surroundings::Workload;

/// Destination that keeps the lines as JSON.
#[derive(Default)]
struct Kept(Mutex<Vec<Value>>);

impl Log for Kept {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let line = daemon::log::json_line(record, "2026-01-01T00:00:00Z");
        self.0.lock().unwrap().push(serde_json::from_str(&line).unwrap());
    }

    fn flush(&self) {}
}

impl Kept {
    /// Returns the messages of the lines with this value, in their order.
    fn messages(&self, key: &str, value: &str) -> Vec<String> {
        let lines = self.0.lock().unwrap();
        let found = lines.iter().filter(|line| line[key] == value);
        found.map(|line| line["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Returns the line of the NodeClaim with this message.
    fn line(&self, name: &str, message: &str) -> Value {
        let lines = self.0.lock().unwrap();
        let mut found = lines.iter().filter(|line| line["nodeclaim"] == name && line["message"] == message);
        found.next().cloned().unwrap_or_default()
    }
}

#[tokio::test(start_paused = true)]
async fn lines_of_a_nodeclaim_are_found_by_its_name() {
    let kept = Arc::new(Kept::default());
    let destination: Arc<dyn Log> = Arc::<Kept>::clone(&kept);
    let subscriber = controller::run::log::subscriber(destination, LevelFilter::Info);
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let cluster = ModelCluster::new(pool(&["m5.large"], json!({"consolidateAfter": "0s"})), Default::default());
    let _controller_run = cluster.controller_run();
    cluster.want("web", Workload::of(2, 1500));
    cluster.until("two nodes", |cluster| cluster.is_settled(2, 2)).await;
    let names: Vec<String> = cluster.claims().into_iter().filter_map(|claim| claim.metadata.name).collect();
    let up = ["created nodeclaim", "launched nodeclaim", "registered nodeclaim", "initialized nodeclaim"];
    for name in &names {
        assert_eq!(kept.messages("nodeclaim", name), up, "{name}");
    }
    let [created, launched] = ["created nodeclaim", "launched nodeclaim"].map(|message| kept.line(&names[0], message));
    assert_eq!(created["reason"], "pending pods");
    assert_eq!(created["price_per_hour"], launched["price_per_hour"], "{created} {launched}");
    assert_eq!((&launched["instance_type"], &launched["capacity_type"]), (&json!("m5.large"), &json!("on-demand")));
    assert!(launched["price_per_hour"].as_str().is_some_and(|price| price.starts_with("0.")), "{launched}");
    let plan = created["plan"].as_str().unwrap();
    assert_eq!(kept.messages("plan", plan), ["created nodeclaim", "created nodeclaim"], "both are of one plan");
    assert_eq!(kept.messages("token", launched["token"].as_str().unwrap())[0], "CreateFleet returned");

    cluster.want("web", Workload::of(1, 1500));
    cluster.until("one node", |cluster| cluster.is_settled(1, 1)).await;
    let left = cluster.claims().into_iter().filter_map(|claim| claim.metadata.name).next().unwrap();
    let gone = names.iter().find(|name| **name != left).unwrap();
    assert_eq!(kept.messages("nodeclaim", &left), up);
    assert_eq!(kept.messages("nodeclaim", gone)[up.len()..], ["disrupting nodeclaim", "deleted nodeclaim"]);
}
