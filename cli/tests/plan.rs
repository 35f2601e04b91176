//! Properties of `kerf plan` beyond transcripts: identical output for identical objects, settings from flags and the
//! environment, prices from files, and the example of README.md.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed assumption should fail the test")]

use std::path::{Path, PathBuf};

use crate::support::{Answer, kerf};
use cli::plan::Conditions;
use serde_json::Value;

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

/// Returns the folder of the first example in README.md.
fn application() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/shop")
}

fn plan(folder: &Path, more: &[&str], environment: &[(&str, &str)]) -> Answer {
    let arguments: Vec<&str> = ["plan", ".", "-o", "json"].into_iter().chain(more.iter().copied()).collect();
    kerf(folder, &arguments, "", environment)
}

fn json(answer: &Answer) -> Value {
    serde_json::from_str(&answer.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", answer.stdout, answer.stderr))
}

/// Returns the texts of all documents below a folder.
fn documents(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(documents(&path));
        } else if path.extension().is_some_and(|ending| ending == "yaml") {
            let text = std::fs::read_to_string(path).unwrap();
            all.extend(text.split("\n---\n").map(str::to_owned));
        }
    }
    all.sort();
    all
}

#[test]
fn plan_does_not_depend_on_file_order_or_format() {
    let expected = plan(&application(), &[], &[]);
    assert_eq!(expected.code, 0, "{}", expected.stderr);
    assert!(json(&expected)["nodeClaims"].as_array().unwrap().len() > 3);
    let documents = documents(&application());
    let folder = tempfile::tempdir().unwrap();
    for (number, document) in documents.iter().rev().enumerate() {
        std::fs::write(folder.path().join(format!("{number:02}.yml")), document).unwrap();
    }
    assert_eq!(plan(folder.path(), &[], &[]).stdout, expected.stdout, "a file each, backwards");
    let mut rotated = documents.clone();
    rotated.rotate_left(documents.len() / 2);
    let stdin = format!("---\n{}", rotated.join("\n---\n"));
    let piped = kerf(folder.path(), &["plan", "-", "-o", "json"], &stdin, &[]);
    assert_eq!(piped.stdout, expected.stdout, "all in one, the middle first");
    let both = kerf(folder.path(), &["plan", "-", ".", "-o", "json"], &stdin, &[]);
    assert_eq!(both.stdout, expected.stdout, "everything twice");
    let items: Vec<Value> = documents.iter().map(|text| serde_saphyr::from_str(text).unwrap()).collect();
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    assert_eq!(kerf(folder.path(), &["plan", "-", "-o", "json"], &list, &[]).stdout, expected.stdout, "a JSON List");
}

#[test]
fn plan_places_all_pods_of_an_app_within_80_columns() {
    let answer = kerf(&application(), &["plan", "."], "", &[]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert!(answer.stdout.contains(", 20 pods placed, 0 unschedulable\n"), "{}", answer.stdout);
    for line in answer.stdout.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn flags_take_precedence_over_the_environment() {
    let case = cases().join("gates");
    let catalogue = ["--catalogue", "../catalogue.json"];
    let closed = "NodeOverlay=false,StaticCapacity=false,CapacityBuffer=false";
    let claims = |answer: &Answer| json(answer)["nodeClaims"].as_array().unwrap().len();
    let by_environment = plan(&case, &catalogue, &[("FEATURE_GATES", closed)]);
    assert_eq!(claims(&by_environment), 0);
    let flags = ["--catalogue", "../catalogue.json", "--feature-gates", "StaticCapacity=true"];
    assert!(claims(&plan(&case, &flags, &[("FEATURE_GATES", closed)])) > 0);
    for (key, value) in [("PREFERENCE_POLICY", "ignore"), ("MIN_VALUES_POLICY", "Lax"), ("FEATURE_GATES", "X")] {
        let answer = plan(&case, &catalogue, &[(key, value)]);
        assert_eq!(answer.code, 2, "{key}");
        assert!(answer.stderr.contains(value), "{}", answer.stderr);
    }
}

#[test]
fn cost_rises_when_the_memory_overhead_rises() {
    let ask = |environment: &[(&str, &str)]| {
        let answer = json(&plan(&application(), &["--region", "us-west-2"], environment));
        (answer["cost"]["after"].clone(), answer["warnings"].clone())
    };
    let (usual, warnings) = ask(&[]);
    assert!(warnings.to_string().contains("prices in us-west-2 are estimates"), "{warnings}");
    assert!(warnings.to_string().contains("40 % of the on-demand price"), "{warnings}");
    let (tight, _) = ask(&[("VM_MEMORY_OVERHEAD_PERCENT", "0.5")]);
    let number = |cost: &Value| cost.as_str().unwrap().parse::<f64>().unwrap();
    assert!(number(&tight) > number(&usual), "{tight} {usual}");
}

/// A pod that only an m6a.large in us-east-1 can run.
const ONE: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: p}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [m6a.large]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [CAPACITY]}
---
apiVersion: v1
kind: Pod
metadata: {name: one}
spec: {containers: [{name: c}]}
";

fn price(folder: &Path, capacity: &str, more: &[&str], environment: &[(&str, &str)]) -> String {
    let arguments: Vec<&str> = ["plan", "-", "-o", "json"].into_iter().chain(more.iter().copied()).collect();
    let answer = kerf(folder, &arguments, &ONE.replace("CAPACITY", capacity), environment);
    json(&answer)["nodeClaims"][0]["pricePerHour"].as_str().unwrap_or("none").to_owned()
}

/// Rows: `minValues`, and the line of the table about it with BestEffort; Strict launches nothing for the second.
#[test]
fn plan_names_min_values_that_it_lowered() {
    let folder = tempfile::tempdir().unwrap();
    let lowered = "  minValues of node.kubernetes.io/instance-type lowered to 1 (BestEffort)";
    for (least, line) in [(1, None), (2, Some(lowered))] {
        let values = format!("values: [m6a.large, m6a.missing], minValues: {least}}}");
        let input = ONE.replace("CAPACITY", "on-demand").replace("values: [m6a.large]}", &values);
        let ask = |policy: &str, format: &str| {
            kerf(folder.path(), &["plan", "-", "-o", format, "--min-values-policy", policy], &input, &[])
        };
        let claims = |policy: &str| json(&ask(policy, "json"))["nodeClaims"].clone();
        assert_eq!(claims("BestEffort")[0]["minValuesRelaxed"], line.is_some(), "{least}");
        let table = ask("BestEffort", "table").stdout;
        assert_eq!(table.lines().find(|it| it.contains("minValues of")), line, "{table}");
        assert_eq!(claims("Strict").as_array().unwrap().len(), usize::from(line.is_none()), "{least}");
    }
}

/// A registered, cordoned node of m6a.large with the amounts that it reports, and its NodeClaim.
const REPORTING: &str = "
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata:
  name: claim-N
  labels: {karpenter.sh/nodepool: p, node.kubernetes.io/instance-type: m6a.large}
  annotations: {karpenter.k8s.aws/ec2nodeclass-hash: 'HASH'}
spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}
status: {nodeName: node-N, providerID: 'aws:///us-east-1a/i-0000000N', imageID: IMAGE}
---
apiVersion: v1
kind: Node
metadata: {name: node-N, labels: {karpenter.sh/registered: 'true', karpenter.sh/nodepool: p}}
spec: {providerID: 'aws:///us-east-1a/i-0000000N', unschedulable: true}
status: {capacity: {memory: 7000Mi}, allocatable: {cpu: 1500m, memory: 6326Mi, pods: '29'}}
";
const REPORTING_CLASS: &str = "
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default, annotations: {karpenter.k8s.aws/ec2nodeclass-hash: '17'}}
spec:
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{id: subnet-1}]
  securityGroupSelectorTerms: [{id: sg-1}]
  instanceProfile: nodes
status: {amis: [{id: ami-1, name: a, requirements: []}]}
---";

/// Rows: number of nodes, their hash and image, the pod's requests, and the expected number of new nodes. Memory depends on the
/// image alone, CPU also on the class.
#[test]
fn plan_learns_from_the_nodes_in_its_input() {
    let rows = [
        (2, "17", "ami-1", "memory: 6600Mi", 0),
        (1, "17", "ami-1", "memory: 6600Mi", 1),
        (2, "18", "ami-1", "memory: 6600Mi", 0),
        (2, "17", "ami-2", "memory: 6600Mi", 1),
        (2, "17", "ami-1", "memory: 6200Mi", 1),
        (2, "17", "ami-1", "cpu: 1600m", 0),
        (2, "18", "ami-1", "cpu: 1600m", 1),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (count, hash, image, requests, expected) in rows {
        let nodes = (1..=count).map(|number| {
            let node = REPORTING.replace("HASH", hash).replace("IMAGE", image);
            node.replace("-N", &format!("-{number}")).replace("0000000N", &format!("0000000{number}"))
        });
        let nodes: String = nodes.collect();
        let pod = ONE
            .replace("CAPACITY", "on-demand")
            .replace("[{name: c}]", &format!("[{{name: c, resources: {{requests: {{{requests}}}}}}}]"));
        let input = format!("{REPORTING_CLASS}{pod}{nodes}");
        let answer = json(&kerf(folder.path(), &["plan", "-", "-o", "json"], &input, &[]));
        let launched = answer["nodeClaims"].as_array().unwrap().len();
        assert_eq!(launched, expected, "{count} {hash} {image} {requests}: {answer}");
    }
}

#[test]
fn prices_are_read_from_the_flag_else_from_the_default_path() {
    let folder = tempfile::tempdir().unwrap();
    let table = "# Linux on-demand prices of us-east-1, dollars per hour\ninstance_type,usd_per_hour\nm6a.large,0.5\n";
    std::fs::write(folder.path().join("t.csv"), table).unwrap();
    let list = price(folder.path(), "on-demand", &[], &[]);
    assert_eq!(list, "0.0864");
    assert_eq!(price(folder.path(), "spot", &[], &[]), "0.03456");
    assert_eq!(price(folder.path(), "on-demand", &["--prices", "t.csv"], &[]), "0.5");
    let place = folder.path().join("kerf");
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("prices-us-east-1.csv"), table.replace("0.5", "0.25")).unwrap();
    let data = [("XDG_DATA_HOME", folder.path().to_str().unwrap())];
    assert_eq!(price(folder.path(), "on-demand", &[], &data), "0.25");
    assert_eq!(price(folder.path(), "on-demand", &["--prices", "t.csv"], &data), "0.5");
    let other = kerf(
        folder.path(),
        &["plan", "-", "--prices", "t.csv", "--region", "eu-west-2"],
        &ONE.replace("CAPACITY", "spot"),
        &[],
    );
    assert_eq!(other.code, 2);
    assert!(other.stderr.contains("these are the prices of us-east-1, not of eu-west-2"), "{}", other.stderr);
}

#[test]
fn spot_prices_are_read_from_the_history() {
    let folder = tempfile::tempdir().unwrap();
    let record = |zone: &str, price: &str, at: &str, product: &str| {
        serde_json::json!({"AvailabilityZone": zone, "InstanceType": "m6a.large", "ProductDescription": product,
            "SpotPrice": price, "Timestamp": at})
    };
    let history = serde_json::json!({"SpotPriceHistory": [
        record("us-east-1a", "0.021000", "2026-11-20T00:00:00+00:00", "Linux/UNIX"),
        record("us-east-1a", "0.031000", "2026-11-21T00:00:00+00:00", "Linux/UNIX"),
        record("us-east-1b", "0.040000", "2026-11-21T00:00:00+00:00", "Linux/UNIX"),
        record("us-east-1b", "0.001000", "2026-11-21T00:00:00+00:00", "Windows"),
    ]});
    std::fs::write(folder.path().join("spot.json"), history.to_string()).unwrap();
    assert_eq!(price(folder.path(), "spot", &["--spot-prices", "spot.json"], &[]), "0.031");
}

#[test]
fn region_is_taken_from_labels_of_nodes() {
    let node = "
apiVersion: v1
kind: Node
metadata: {name: n, labels: {topology.kubernetes.io/region: REGION}}
---";
    let folder = tempfile::tempdir().unwrap();
    let ask = |regions: &[&str]| {
        let nodes = regions.iter().enumerate();
        let nodes: String = nodes
            .map(|(n, region)| node.replace("REGION", region).replace("name: n", &format!("name: n{n}")))
            .collect();
        kerf(folder.path(), &["plan", "-", "-o", "json"], &format!("{nodes}{}", ONE.replace("CAPACITY", "spot")), &[])
    };
    assert!(ask(&["eu-west-2"]).stdout.contains("prices in eu-west-2 are estimates"));
    let assumed = ask(&["mx-central-1"]).stdout;
    assert!(assumed.contains("assuming the instance types of me-south-1"), "{assumed}");
    let unknown = ask(&["mars-north-1"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("--catalogue"), "{}", unknown.stderr);
    assert!(ask(&["us-west-2", "eu-west-2"]).stderr.contains("set --region"));
}

#[test]
fn plan_report_contains_each_pod_once() {
    for case in ["covered", "gates", "good", "ignored", "many_pods", "moving", "unplaced", "unready", "volumes"] {
        let manifests = cli::input::read(&[cases().join(case)], &mut std::io::empty()).unwrap();
        let mut conditions = Conditions::at("2026-11-21T12:00:00Z".parse().unwrap());
        conditions.catalogue.file = Some(cases().join("catalogue.json"));
        let answer = cli::plan::answer(manifests, &conditions).unwrap();
        let outcome = cli::plan::report::PlanReport::new(&answer);
        let mut reported: Vec<&String> = outcome.node_claims.iter().flat_map(|claim| &claim.pods).collect();
        reported.extend(outcome.existing.iter().flat_map(|node| &node.pods));
        reported.extend(outcome.unschedulable.iter().map(|it| &it.pod));
        reported.extend(outcome.ignored.iter().map(|it| &it.pod));
        reported.sort();
        let mut wanted: Vec<&String> = answer.built.snapshot.pods.iter().map(|pod| &pod.name).collect();
        wanted.extend(answer.built.ignored.iter().map(|it| &it.pod));
        wanted.sort();
        assert_eq!(reported, wanted, "{case}");
        assert!(!reported.is_empty(), "{case}");
    }
}

/// A class with the status that a controller wrote: two zones and a reservation.
#[test]
fn plan_uses_zones_and_reservations_of_the_class_status() {
    let class = "
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{id: subnet-1}]
  securityGroupSelectorTerms: [{id: sg-1}]
  instanceProfile: nodes
status:
  subnets: [{id: subnet-1, zone: us-west-2a, zoneID: usw2-az1}, {id: subnet-2, zone: us-west-2b, zoneID: usw2-az2}]
  capacityReservations:
    - {id: cr-1, availabilityZone: us-west-2a, instanceMatchCriteria: targeted, instanceType: m6a.large, ownerID: o}
---";
    let folder = tempfile::tempdir().unwrap();
    let ask = |selector: &str, more: &[&str]| {
        let pod = ONE
            .replace("CAPACITY", "reserved, on-demand")
            .replace("spec: {containers", &format!("spec: {{nodeSelector: {{{selector}}}, containers"));
        let arguments: Vec<&str> = ["plan", "-", "-o", "json"].into_iter().chain(more.iter().copied()).collect();
        json(&kerf(folder.path(), &arguments, &format!("{class}{pod}"), &[]))
    };
    let price = |plan: &Value| plan["nodeClaims"][0]["pricePerHour"].as_str().unwrap_or("none").to_owned();
    let reserved = ask("", &[]);
    assert_eq!(price(&reserved), "0");
    assert!(reserved["warnings"].to_string().contains("capacity reservation cr-1"), "{}", reserved["warnings"]);
    assert_eq!(price(&ask("", &["--feature-gates", "ReservedCapacity=false"])), "0.0864");
    assert_eq!(price(&ask("topology.k8s.aws/zone-id: usw2-az2", &[])), "0.0864");
    assert_eq!(price(&ask("topology.kubernetes.io/zone: us-west-2c", &[])), "none");
}

#[test]
fn plan_format_page_describes_every_field() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/plan-format.md")).unwrap();
    let answers = ["good", "unplaced", "ignored", "covered", "consolidated"]
        .map(|case| plan(&cases().join(case), &["--catalogue", "../catalogue.json"], &[]));
    let mut fields = std::collections::BTreeSet::new();
    answers.iter().for_each(|answer| gather(&json(answer), &mut fields));
    assert!(fields.len() > 15, "{fields:?}");
    let missing: Vec<&String> = fields
        .iter()
        .filter(|field| !['`', '.'].iter().any(|mark| page.contains(&format!("{mark}{field}`"))))
        .collect();
    assert!(missing.is_empty(), "docs/plan-format.md does not name {missing:?}");
}

/// Collects names of fields, except for those of maps by resource.
fn gather(value: &Value, fields: &mut std::collections::BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (name, inner) in map {
                fields.insert(name.clone());
                if name != "requests" {
                    gather(inner, fields);
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|inner| gather(inner, fields)),
        _ => {}
    }
}
