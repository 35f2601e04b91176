//! Numbers that the published test cases of EKS's bootstrap assert. The numbers are separate from the folders, so that
//! `BLESS=1` cannot change them.

use serde_json::Value;

use agent::bootstrap::plan::plan;

use super::facts::{CLUSTER, Machine};

fn config(machine: &Machine, user_data: &str) -> Value {
    let plan = plan(&machine.facts(user_data)).unwrap();
    serde_json::from_slice(&plan.file("/etc/kubernetes/kubelet/config.json").unwrap().content).unwrap()
}

#[test]
fn plan_sets_published_max_pods_and_reservations() {
    let usual = |kubelet: &str| Machine { kubelet: kubelet.to_owned(), ..Machine::default() };
    let mock = Machine { instance_type: "mock-type.large".to_owned(), ..usual("1.35.0") };
    for (what, machine, expression, max_pods, memory, keys) in [
        ("the usual machine", usual("1.29.0"), "", 58, "893Mi", 24),
        ("the usual machine of today", usual("1.35.0"), "", 58, "893Mi", 26),
        ("a type without known limits", mock, "", 110, "1465Mi", 26),
        ("custom networking", usual("1.32.0"), "((default_enis-1)*(ips_per_eni-1))+2", 44, "739Mi", 24),
        ("two more", usual("1.32.0"), "max_pods+2", 60, "915Mi", 24),
    ] {
        let user_data = format!("{CLUSTER}  kubelet:\n    maxPodsExpression: \"{expression}\"\n");
        let config = config(&machine, &user_data);
        assert_eq!(config["maxPods"], max_pods, "{what}");
        assert_eq!(config["kubeReserved"]["memory"], memory, "{what}");
        assert_eq!(config["kubeReserved"]["cpu"], "70m", "{what}");
        assert_eq!(config["providerID"], "aws:///us-west-2f/i-1234567890abcdef0", "{what}");
        assert_eq!(config.as_object().unwrap().len(), keys, "{what}");
        assert!(config.get("kubeAPIQPS").is_none() && config.get("kubeAPIBurst").is_none(), "{what}");
    }
}

#[test]
fn plan_sets_feature_gates_by_kubelet_version() {
    for (release, gates, has_shutdown) in
        [(27, 1, false), (28, 1, false), (32, 1, false), (33, 2, false), (34, 3, true), (35, 3, true), (36, 3, true)]
    {
        let machine = Machine { kubelet: format!("v1.{release}.9-eks-abcdef0"), ..Machine::default() };
        let config = config(&machine, CLUSTER);
        assert_eq!(config["featureGates"].as_object().unwrap().len(), gates, "1.{release}");
        assert_eq!(config.get("shutdownGracePeriod").is_some(), has_shutdown, "1.{release}");
        assert_eq!(config.get("shutdownGracePeriodCriticalPods").is_some(), has_shutdown, "1.{release}");
    }
}
