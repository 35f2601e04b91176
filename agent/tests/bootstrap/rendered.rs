//! From the controller to the files of kubelet: bootstrap applies the user data that `machine` renders for a NodeClaim.

use std::fs;

use api::Taint;
use machine::pods;
use machine::userdata::{AmiFamily, Bootstrap, encode, render};
use serde_json::Value;

use crate::imds::FakeImds;
use crate::test_host::{TestHost, metadata};

fn claim() -> Bootstrap {
    Bootstrap {
        cluster_name: "demo".to_owned(),
        cluster_endpoint: "https://127.0.0.1:6443".to_owned(),
        cluster_ca: "aGVsbG8=".to_owned(),
        cluster_cidr: "10.100.0.0/16".to_owned(),
        labels: [("karpenter.sh/nodepool".to_owned(), "default".to_owned())].into(),
        taints: vec![Taint::new(api::taint::AGENT_NOT_READY, api::taint::NO_EXECUTE)],
        max_pods: Some(29),
        user_data: Some("#!/bin/bash\necho hello\n".to_owned()),
        ..Bootstrap::default()
    }
}

#[tokio::test]
async fn bootstrap_writes_kubelet_files_from_rendered_user_data() {
    let test_host = TestHost::new("v1.36.0");
    let user_data = render(AmiFamily::Al2023, &claim()).unwrap().text;
    let fake = FakeImds::start(metadata(&encode(&user_data))).await;
    let plan = test_host.bootstrap(&fake.endpoint).run().await.plan().unwrap();
    assert_eq!(plan.warnings, Vec::<String>::new());

    let json =
        |path: &str| -> Value { serde_json::from_slice(&fs::read(test_host.root().join(path)).unwrap()).unwrap() };
    let drop_in = json("etc/kubernetes/kubelet/config.json.d/40-nodeadm.conf");
    assert_eq!(drop_in["maxPods"], 29);
    let taints: Vec<Taint> = serde_json::from_value(drop_in["registerWithTaints"].clone()).unwrap();
    let keys: Vec<&str> = taints.iter().map(|taint| taint.key.as_str()).collect();
    assert_eq!(keys, ["kerf.sh/agent-not-ready", "karpenter.sh/unregistered"]);

    let environment = fs::read_to_string(test_host.root().join("etc/eks/kubelet/environment")).unwrap();
    let labels = r#" --node-labels=\"karpenter.sh/do-not-sync-taints=true,karpenter.sh/nodepool=default\""#;
    assert!(environment.trim_end().ends_with(&format!("{labels}\"")), "{environment}");

    let limits = pods::interface_limits("m4.xlarge").unwrap();
    let density = pods::eni_limited_pods(limits.interfaces, limits.ipv4_per_interface, 0);
    let reserved = &json("etc/kubernetes/kubelet/config.json")["kubeReserved"];
    assert_eq!(reserved["memory"], format!("{}Mi", pods::kube_reserved_memory_mib(density)));
    assert_eq!(reserved["cpu"], format!("{}m", pods::kube_reserved_cpu_millicores(2)));
}

#[tokio::test]
async fn bootstrap_sets_node_ip_to_first_ipv6_when_cluster_is_ipv6() {
    let test_host = TestHost::new("v1.36.0");
    let input = Bootstrap { cluster_cidr: "fd00:10::/108".to_owned(), ..claim() };
    let mut items = metadata(&encode(&render(AmiFamily::Al2023, &input).unwrap().text));
    let addresses = "2600:1f14::10\n2600:1f14::11".as_bytes().to_vec();
    items.insert("meta-data/network/interfaces/macs/0e:49:61:0f:c3:11/ipv6s".to_owned(), addresses);
    let fake = FakeImds::start(items).await;
    test_host.bootstrap(&fake.endpoint).run().await;
    let environment = fs::read_to_string(test_host.root().join("etc/eks/kubelet/environment")).unwrap();
    assert!(environment.contains(" --node-ip=2600:1f14::10 "), "{environment}");
}
