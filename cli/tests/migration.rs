//! Migration pages: each `kerf` line of their commands is run, in a folder with the files that the lines before it would write.
//! An emulated API server responds like one with Karpenter 1.14.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use serde_json::{Value, json};

use crate::cluster::{api_server, cluster_of, run};
use crate::page::{blocks, copy, here};
use crate::support::silent_endpoint;

/// Returns the lines of all shell blocks of a page.
fn commands(page: &str) -> Vec<String> {
    let text = std::fs::read_to_string(here("docs").join(page)).unwrap();
    let shell = blocks(&text).into_iter().filter(|block| block.language == "sh");
    shell.flat_map(|block| block.commands()).collect()
}

fn class() -> Value {
    json!({
        "metadata": {"name": "default", "annotations": {"karpenter.k8s.aws/ec2nodeclass-hash-version": "v5"}},
        "spec": {
            "role": "nodes",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"id": "subnet-0a1"}],
            "securityGroupSelectorTerms": [{"id": "sg-0a1"}],
        },
    })
}

/// Returns the lists of a cluster with Karpenter 1.14.
fn karpenter() -> Value {
    let reference = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    json!({
        "/apis/karpenter.k8s.aws/v1/ec2nodeclasses": [class()],
        "/apis/karpenter.sh/v1/nodepools": [{
            "metadata": {"name": "default", "annotations": {"karpenter.sh/nodepool-hash-version": "v3"}},
            "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": reference}}},
        }],
        "/apis/karpenter.sh/v1/nodeclaims": [],
        "/apis/apps/v1/deployments": [],
        "/apis/apps/v1/daemonsets": [],
        "/apis/coordination.k8s.io/v1/leases?fieldSelector=metadata.name%3Dkarpenter-leader-election": [],
    })
}

/// Returns the lists of a cluster with v1beta1.
fn older() -> Value {
    let reference = json!({"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "name": "default"});
    let mut class = class();
    class["spec"]["amiFamily"] = json!("AL2023");
    class["spec"]["amiSelectorTerms"].take();
    class["metadata"]["uid"] = json!("11111111-0000-4000-8000-000000000000");
    json!({
        "/apis/karpenter.k8s.aws/v1beta1/ec2nodeclasses": [class],
        "/apis/karpenter.sh/v1beta1/nodepools": [{
            "metadata": {"name": "default"},
            "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": reference}}},
        }],
    })
}

/// Runs a page in a copy of a folder. Files of other programs must already exist there.
fn carry_out(page: &str, folder: &str) {
    let place = tempfile::tempdir().unwrap();
    copy(&here("cli/tests/migration").join(folder), place.path());
    let server = api_server(karpenter());
    let lines = commands(page);
    assert!(lines.iter().filter(|line| line.starts_with("kerf ")).count() > 2, "{page} has commands");
    for line in lines {
        if line.starts_with("kerf ") {
            let (code, out, err) = run(place.path(), &line, &server);
            assert_eq!(code, 0, "{line}\n{out}{err}");
            continue;
        }
        assert!(["kubectl ", "helm ", "aws "].iter().any(|program| line.starts_with(program)), "{page}: {line}");
        if let Some((_, file)) = line.split_once(" > ") {
            assert!(place.path().join(file).exists(), "{page}: {line}");
        }
    }
}

#[test]
fn page_migrate_from_karpenter_runs_without_error() {
    carry_out("migrate-from-karpenter.md", "karpenter");
}

#[test]
fn page_migrate_from_cluster_autoscaler_runs_without_error() {
    carry_out("migrate-from-cluster-autoscaler.md", "cluster-autoscaler");
}

#[test]
fn convert_live_converts_objects_of_v1beta1() {
    let place = tempfile::tempdir().unwrap();
    let (code, out, err) = run(place.path(), "kerf convert --live", &api_server(older()));
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("apiVersion: karpenter.sh/v1\n") && out.contains("alias: al2023@latest"), "{out}");
    assert!(!out.contains("uid") && err.contains("kerf: changed: cluster, document"), "{err}");
    let (code, report, err) = run(place.path(), "kerf adopt --check", &api_server(older()));
    assert_eq!(code, 3, "{err}");
    assert!(report.contains("NodePool default: has version karpenter.sh/v1beta1"), "{report}");
}

/// The holder of the Lease belongs to no Deployment: another kind of workload, or a program outside the cluster.
#[test]
fn adopt_reports_the_holder_of_the_lease() {
    let lease = |holder: &str| {
        let mut cluster = karpenter();
        cluster["/apis/coordination.k8s.io/v1/leases?fieldSelector=metadata.name%3Dkarpenter-leader-election"] = json!([{
            "metadata": {"name": "karpenter-leader-election", "namespace": "kube-system"},
            "spec": {"holderIdentity": holder, "renewTime": "2026-11-22T10:00:00.000000Z"},
        }]);
        cluster
    };
    let place = tempfile::tempdir().unwrap();
    let (code, report, err) = run(place.path(), "kerf adopt --check", &api_server(lease("karpenter-7d9f_0001")));
    assert_eq!(code, 0, "{report}{err}");
    let line = "Lease kube-system/karpenter-leader-election: was last held by karpenter-7d9f_0001, renewed 2026-11-22T10:00:00";
    assert!(report.contains(line), "{report}");
    let (_, report, _) = run(place.path(), "kerf adopt --check", &api_server(lease("")));
    assert!(!report.contains("Lease"), "released, without a holder: {report}");
}

/// A user who may not list pods gets the rest of the check.
#[test]
fn adopt_lists_the_first_disruption_of_a_live_cluster() {
    let place = tempfile::tempdir().unwrap();
    let mut cluster = cluster_of("adopt_nodes/cluster.yaml");
    let (code, report, err) = run(place.path(), "kerf adopt --check", &api_server(cluster.clone()));
    assert_eq!(code, 0, "{report}{err}");
    assert!(report.contains("Node full: disruption begins here (Underutilized, saves $0.386/h)"), "{report}");
    cluster["/api/v1/pods"] = json!("pods is forbidden");
    let (code, report, err) = run(place.path(), "kerf adopt --check", &api_server(cluster));
    assert_eq!(code, 0, "{report}{err}");
    assert!(!report.to_lowercase().contains("disruption"), "{report}");
}

#[test]
fn adopt_reports_the_fix_when_the_cluster_does_not_respond() {
    let place = tempfile::tempdir().unwrap();
    let (_silent, endpoint) = silent_endpoint();
    let (code, out, err) = run(place.path(), "kerf adopt --check", &endpoint);
    assert_eq!((code, out.as_str()), (69, ""), "{err}");
    assert!(err.contains("check the kubeconfig"), "{err}");
}

#[test]
fn kerf_refuses_an_api_server_without_tls() {
    let place = tempfile::tempdir().unwrap();
    let (code, _, err) = run(place.path(), "kerf convert --live", "http://192.0.2.1");
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("kubeconfig: server http://192.0.2.1/ is not https; write https://HOST"), "{err}");
    let flags = "--class c.yaml --pool p.yaml --cluster-endpoint http://192.0.2.1";
    let (code, _, err) = run(place.path(), &format!("kerf userdata {flags}"), "https://192.0.2.1");
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("write https://HOST, because plain HTTP"), "{err}");
}
