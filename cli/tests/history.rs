//! `kerf log` and `kerf report`: the decision log of a cluster, and files.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::io::Write as _;

use api::decisions::storage::{DECISIONS, LINES, NUMBER, Ring, SUMMARIES};
use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use serde_json::{Value, json};

use crate::cluster::{api_server, run};

const INSTANCE: &str = "i-0a1b2c3d4e5f60718";

/// Returns a list of names in a record.
fn names(all: &[&str]) -> Value {
    json!({"count": all.len(), "names": all})
}

/// Returns the decisions of one day, as lines.
fn decisions() -> Vec<Value> {
    let pods: Vec<String> = (0..12).map(|number| format!("shop/web-{number}")).collect();
    vec![
        json!({
            "time": "2026-11-28T10:00:05Z", "kind": "created", "reason": "pending pods", "nodepools": names(&["general"]),
            "nodeclaims": names(&["general-x2k9p"]), "pods": {"count": 12, "names": pods},
            "instanceTypes": names(&["m7g.large", "m6g.large", "m7g.xlarge", "m6g.xlarge"]), "pricePerHour": "0.0816",
        }),
        json!({
            "time": "2026-11-28T10:00:07Z", "kind": "launched", "reason": "CreateFleet", "nodepools": names(&["general"]),
            "nodeclaims": names(&["general-x2k9p"]), "pricePerHour": "0.0816",
            "instance": {"id": INSTANCE, "instanceType": "m7g.large", "zone": "us-east-1a", "capacityType": "on-demand"},
        }),
        json!({
            "time": "2026-11-28T10:00:41Z", "kind": "initialized", "reason": "Initialized", "nodepools": names(&["general"]),
            "nodeclaims": names(&["general-x2k9p"]), "nodes": names(&["ip-10-0-1-7.ec2.internal"]),
            "stages": [
                {"stage": "nodeclaim-created", "at": "2026-11-28T10:00:05Z"}, {"stage": "launched", "at": "2026-11-28T10:00:07Z"},
                {"stage": "agent-started", "at": "2026-11-28T10:00:19.5Z"}, {"stage": "initialized", "at": "2026-11-28T10:00:41Z"},
            ],
        }),
        json!({
            "time": "2026-11-28T10:30:00Z", "kind": "unschedulable", "reason": "limit", "pods": names(&["default/big"]),
            "message": "NodePool general: a new node would exceed the limit for cpu",
        }),
        json!({
            "time": "2026-11-28T11:00:00Z", "kind": "disrupting", "reason": "Underutilized",
            "message": "its pods fit on cheaper nodes", "nodepools": names(&["general"]),
            "nodeclaims": names(&["general-x2k9p"]), "nodes": names(&["ip-10-0-1-7.ec2.internal"]),
            "pods": names(&["shop/web-1"]), "replacements": names(&["general-m4c2d"]),
            "pricePerHour": "0.0816", "savingPerHour": "0.0408",
        }),
        json!({"time": "2026-11-28T11:01:00Z", "kind": "hibernated", "reason": "Night", "nodes": names(&["ip-10-0-1-7.ec2.internal"])}),
    ]
}

fn summary(from: &str, to: &str) -> Value {
    let nodes = |kind: &str, capacity_type: &str, cost: &str| {
        json!({
            "nodepool": "general", "instanceType": kind, "zone": "us-east-1a", "capacityType": capacity_type,
            "seconds": 7200, "cost": cost,
        })
    };
    json!({
        "from": from, "to": to, "nodes": [nodes("m7g.large", "on-demand", "0.1632"), nodes("c7g.large", "spot", "0.058")],
        "commands": {"Underutilized": {
            "started": 3, "rolledBack": 1, "nodes": 4, "pods": 12, "expectedSaving": "0.1224", "realisedSaving": "0.08",
        }},
        "interruptions": {"general": 1}, "launched": 5, "launchesFailed": 1, "waits": {"40": 99, "60": 1}, "starts": {"50": 5}, "lost": 0,
    })
}

/// Returns the ConfigMap of a segment as the API server returns it.
fn stored(ring: Ring, segment: u64, records: &[Value]) -> (String, Value) {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    records.iter().for_each(|record| writeln!(encoder, "{record}").unwrap());
    let map = ConfigMap {
        metadata: ObjectMeta { name: Some(ring.name(segment)), ..ObjectMeta::default() },
        data: Some([(NUMBER.to_owned(), segment.to_string())].into()),
        binary_data: Some([(LINES.to_owned(), ByteString(encoder.finish().unwrap()))].into()),
        ..ConfigMap::default()
    };
    (format!("/api/v1/namespaces/kube-system/configmaps/{}", ring.name(segment)), serde_json::to_value(map).unwrap())
}

/// Returns the output for the cluster with these ConfigMaps.
fn answer(line: &str, maps: impl IntoIterator<Item = (String, Value)>) -> (i32, String, String) {
    let place = tempfile::tempdir().unwrap();
    run(place.path(), line, &api_server(Value::Object(maps.into_iter().collect())))
}

fn log(line: &str) -> String {
    let all = decisions();
    // The ring has gone round: the newest segment has the first name.
    let maps = [stored(DECISIONS, 12, &all[2..]), stored(DECISIONS, 11, &all[..2])];
    let (code, out, err) = answer(line, maps);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    out
}

#[test]
fn log_shows_decisions_in_the_order_of_their_time() {
    let expected = "\
2026-11-28 10:00:05  created: pending pods
    NodeClaim general-x2k9p of NodePool general; for pods shop/web-0,
    shop/web-1, shop/web-2 and 9 more; from $0.082 per hour; types m7g.large,
    m6g.large, m7g.xlarge and 1 more
2026-11-28 10:00:07  launched: CreateFleet
    NodeClaim general-x2k9p of NodePool general; i-0a1b2c3d4e5f60718, m7g.large
    in us-east-1a, on-demand; $0.082 per hour
2026-11-28 10:00:41  initialized: Initialized
    Node ip-10-0-1-7.ec2.internal of NodePool general; from nodeclaim-created:
    launched 2.0 s, agent-started 14.5 s, initialized 36.0 s
2026-11-28 10:30:00  unschedulable: limit
    Pod default/big; NodePool general: a new node would exceed the limit for cpu
2026-11-28 11:00:00  disrupting: Underutilized
    Node ip-10-0-1-7.ec2.internal of NodePool general; its pods fit on cheaper
    nodes; moves 1 pod; replaced by NodeClaim general-m4c2d; saves $0.041 of
    $0.082 per hour
2026-11-28 11:01:00  unknown: Night
    Node ip-10-0-1-7.ec2.internal; written by a newer version: upgrade kerf
";
    assert_eq!(log("kerf log"), expected);
}

#[test]
fn log_selects_decisions_by_object() {
    let rows = [
        ("--pod shop/web-11", vec!["created"]),
        ("--pod big", vec!["unschedulable"]),
        ("--node ip-10-0-1-7.ec2.internal", vec!["initialized", "disrupting", "hibernated"]),
        ("--nodeclaim general-m4c2d", vec!["disrupting"]),
        ("--nodepool general --reason CreateFleet", vec!["launched"]),
        ("--nodepool other", vec![]),
    ];
    for (flags, expected) in rows {
        let text = log(&format!("kerf log {flags} -o json"));
        let found: Vec<&str> =
            expected.iter().copied().filter(|kind| text.contains(&format!("\"kind\":\"{kind}\""))).collect();
        // A kind of a newer version cannot be written back.
        let unknown = usize::from(expected.contains(&"hibernated"));
        assert_eq!((found.len() + unknown, text.lines().count()), (expected.len(), expected.len()), "{flags}: {text}");
    }
    assert_eq!(log("kerf log --nodepool other"), "no decision matches\n");
}

#[test]
fn log_reads_its_own_json() {
    let place = tempfile::tempdir().unwrap();
    let lines = log("kerf log -o json");
    std::fs::write(place.path().join("log.jsonl"), &lines).unwrap();
    let (code, out, err) = crate::shell::run(place.path(), "kerf log log.jsonl -o json", &[]);
    assert_eq!((code, out), (0, lines), "{err}");
    std::fs::write(place.path().join("cut.jsonl"), "{\"time\": \"2026-11-28T10:00:05Z\", \"ki").unwrap();
    let (code, _, err) = crate::shell::run(place.path(), "kerf log cut.jsonl", &[]);
    assert_eq!(code, 2);
    assert!(err.contains("cut.jsonl: EOF while parsing a string at line 1 column"), "{err}");
}

#[test]
fn log_names_missing_rights_and_the_missing_log() {
    let forbidden = (format!("/api/v1/namespaces/kube-system/configmaps/{}", DECISIONS.name(0)), json!("forbidden"));
    let (code, _, err) = answer("kerf log", [forbidden]);
    assert_eq!(code, 2);
    let right = "you need verb get on resource configmaps in namespace kube-system";
    assert!(err.contains(&format!("ConfigMap kerf-decisions-0: forbidden; {right}")), "{err}");
    let (code, _, err) = answer("kerf report -n kerf", []);
    assert_eq!(code, 2);
    assert!(err.contains("namespace kerf has no ConfigMap kerf-summaries-0: give the controller's namespace"), "{err}");
}

#[test]
fn log_names_a_damaged_configmap() {
    let (path, mut map) = stored(DECISIONS, 0, &decisions());
    map["binaryData"][LINES] = json!("bm90IGd6aXAgYXQgYWxs");
    let (code, _, err) = answer("kerf log", [(path, map)]);
    assert_eq!(code, 2);
    assert!(err.contains("ConfigMap kerf-decisions-0: binaryData.lines.jsonl.gz: invalid gzip header"), "{err}");
}

#[test]
fn report_sums_the_summaries() {
    let first = summary("2026-11-28T10:00:00Z", "2026-11-28T11:00:00Z");
    let second = summary("2026-11-28T11:00:00Z", "2026-11-28T12:00:00Z");
    let (code, out, err) = answer("kerf report", [stored(SUMMARIES, 0, &[first, second])]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let expected = "\
From 2026-11-28 10:00 to 2026-11-28 12:00 UTC
Cost: $0.442, $0.221 per hour

NODEPOOL  NODE HOURS    COST  ON SPOT  INTERRUPTED  PER 100 H
general          8.0  $0.442      4.0            2      50.00

DISRUPTION     COMMANDS  A DAY  UNDONE  NODES  PODS EACH  SAVING/H  REALISED
Underutilized         6   72.0       2      8        4.0    $0.245    $0.160

Launches: 10 instances, 2 without capacity or with an error
Nodes that started: 10; p50 at most 50 s, p99 at most 50 s
Pods that waited for a node: 200; p50 at most 40 s, p99 at most 40 s
Instance types by node hours: c7g.large 50 %, m7g.large 50 %
Zones by node hours: us-east-1a 100 %
";
    assert_eq!(out, expected);
}

#[test]
fn report_reads_its_own_json_and_knows_periods() {
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(place.path().join(name), text).unwrap();
    write("one.json", &summary("2026-11-28T10:00:00Z", "2026-11-28T11:00:00Z").to_string());
    write("two.json", &summary("2026-11-28T11:00:00Z", "2026-11-28T12:00:00Z").to_string());
    let kerf = |line: &str| crate::shell::run(place.path(), line, &[]);
    let (_, sum, err) = kerf("kerf report one.json two.json -o json");
    write("sum.json", &sum);
    let (_, again, _) = kerf("kerf report sum.json -o json");
    assert_eq!(again, sum, "{err}");
    assert!(sum.contains("\"from\":\"2026-11-28T10:00:00Z\",\"to\":\"2026-11-28T12:00:00Z\""), "{sum}");
    let (code, _, err) = kerf("kerf report sum.json --since yesterday");
    assert_eq!(code, 2);
    assert!(err.contains("\"yesterday\" is not a duration: write it like 90m, 24h or 7d"), "{err}");
    let (_, out, _) = kerf("kerf report sum.json --since 1m");
    assert_eq!(out, "no summary of this period: the controller writes one every 15 minutes\n");
}

/// Returns the summary of an observing controller.
fn observed(from: &str, to: &str, nodes: [u64; 2], cost: [&str; 2]) -> Value {
    json!({
        "from": from, "to": to,
        "newFleet": {
            "seconds": 900, "nodeSeconds": 900 * nodes[1], "cost": cost[1], "actualNodeSeconds": 900 * nodes[0],
            "actualCost": cost[0],
        },
        "wouldDisrupt": {"Underutilized": {"started": 1, "nodes": 2, "pods": 3, "expectedSaving": "0.5"}},
    })
}

fn observed_summaries() -> [Value; 4] {
    [
        observed("2026-11-28T10:15:00Z", "2026-11-28T10:30:00Z", [10, 6], ["0.5", "0.3"]),
        observed("2026-11-28T10:30:00Z", "2026-11-28T10:45:00Z", [12, 6], ["0.5", "0.3"]),
        observed("2026-11-28T11:00:00Z", "2026-11-28T11:15:00Z", [10, 10], ["0.25", "0.25"]),
        summary("2026-11-28T11:15:00Z", "2026-11-28T11:30:00Z"),
    ]
}

#[test]
fn compare_shows_both_fleets_by_period() {
    let (code, out, err) = answer("kerf compare", [stored(SUMMARIES, 0, &observed_summaries())]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let expected = "\
FROM (UTC)        NODES  COST/H  NEW FLEET  COST/H  LESS
2026-11-28 10:00   11.0  $2.000        6.0  $1.200  40 %
2026-11-28 11:00   10.0  $1.000       10.0  $1.000   0 %
all                10.7  $1.667        7.3  $1.133  32 %

NEW FLEET is what Kerf would launch for the pods of the same moment if there
were no nodes. It is a lower limit: a running fleet also pays for changes, for
nodes that start, and for pods that may not move.
Kerf would have started these disruption commands. Underutilized: 3 commands for
6 nodes with 9 pods, $1.500 per hour saved. kerf log lists them.
";
    assert_eq!(out, expected);
    let (_, out, _) = answer("kerf compare --every 1d", [stored(SUMMARIES, 0, &observed_summaries())]);
    assert!(out.lines().nth(1).unwrap().starts_with("2026-11-28 00:00   10.7 "), "{out}");
}

#[test]
fn compare_reads_its_own_json_and_needs_an_observing_controller() {
    let (_, lines, _) = answer("kerf compare -o json", [stored(SUMMARIES, 0, &observed_summaries())]);
    assert_eq!(lines.lines().count(), 2, "{lines}");
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("compared.jsonl"), &lines).unwrap();
    let (code, again, err) = crate::shell::run(place.path(), "kerf compare compared.jsonl -o json", &[]);
    assert_eq!((code, again), (0, lines), "{err}");
    let ordinary = summary("2026-11-28T11:15:00Z", "2026-11-28T11:30:00Z");
    let (code, out, _) = answer("kerf compare", [stored(SUMMARIES, 0, &[ordinary])]);
    assert_eq!(code, 0);
    assert!(out.starts_with("no comparison of this period: only a controller with kerf.observe"), "{out}");
    let (code, _, err) = crate::shell::run(place.path(), "kerf compare compared.jsonl --every 5m", &[]);
    assert_eq!(code, 2);
    assert!(err.contains("\"5m\" is too short: a summary has 15 minutes, write 15m or more"), "{err}");
}

#[test]
fn log_shows_what_an_observing_controller_would_do() {
    let place = tempfile::tempdir().unwrap();
    let created = json!({
        "time": "2026-11-28T10:00:05Z", "kind": "wouldCreate", "reason": "pending pods", "nodepools": names(&["general"]),
        "pods": names(&["shop/web-0"]), "instanceTypes": names(&["m7g.large"]), "pricePerHour": "0.0816",
    });
    let disrupted = json!({
        "time": "2026-11-28T11:00:00Z", "kind": "wouldDisrupt", "reason": "Underutilized",
        "message": "its pods fit on cheaper nodes", "nodeclaims": names(&["general-x2k9p"]),
        "nodes": names(&["ip-10-0-1-7.ec2.internal"]), "pods": names(&["shop/web-1"]), "instanceTypes": names(&["m7g.medium"]),
        "pricePerHour": "0.0816", "savingPerHour": "0.0408",
    });
    std::fs::write(place.path().join("log.jsonl"), format!("{created}\n{disrupted}\n")).unwrap();
    let (code, out, err) = crate::shell::run(place.path(), "kerf log log.jsonl", &[]);
    let expected = "\
2026-11-28 10:00:05  would create: pending pods
    NodeClaim of NodePool general; for pod shop/web-0; from $0.082 per hour;
    types m7g.large
2026-11-28 11:00:00  would disrupt: Underutilized
    Node ip-10-0-1-7.ec2.internal; its pods fit on cheaper nodes; moves 1 pod;
    replaced by types m7g.medium; saves $0.041 of $0.082 per hour
";
    assert_eq!((code, out.as_str()), (0, expected), "{err}");
}
