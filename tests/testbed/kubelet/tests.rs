//! Tests of the fake kubelet without an API server: its settings, its Node, and its steps for pods.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::node::{self, Conditions};
use super::pods::{Pods, Step};
use super::settings::settable;
use super::{Hardware, Options, Settings, Timing, network_ready};

/// Environment file as the agent writes it: systemd removes the outer quotes, then the inner ones.
const ENVIRONMENT: &str = "OTHER=\"x\"\nNODEADM_KUBELET_ARGS=\"--cloud-provider=external \
    --config=/etc/kubernetes/kubelet/config.json --config-dir=/etc/kubernetes/kubelet/config.json.d \
    --hostname-override=ip-10-0-1-7.us-west-2.compute.internal --kubeconfig=/var/lib/kubelet/kubeconfig \
    --node-ip=10.0.1.7 --node-labels=\\\"karpenter.sh/nodepool=default,a=\\\" --node-labels=b=2\"\n";

fn write(root: &Path, path: &str, text: &str) -> Result<()> {
    let file = root.join(path);
    std::fs::create_dir_all(file.parent().context("a file has a folder")?)?;
    Ok(std::fs::write(file, text)?)
}

fn document(fields: Value) -> String {
    let mut document = json!({"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1"});
    if let (Some(document), Value::Object(fields)) = (document.as_object_mut(), fields) {
        document.extend(fields);
    }
    document.to_string()
}

/// Creates a machine in the state after bootstrap.
fn machine() -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    let root = folder.path();
    write(root, "etc/eks/kubelet-version.txt", "v1.36.3\n")?;
    write(root, "etc/eks/kubelet/environment", ENVIRONMENT)?;
    write(root, "etc/kubernetes/pki/ca.crt", "a certificate")?;
    let main = json!({
        "authentication": {"x509": {"clientCAFile": "/etc/kubernetes/pki/ca.crt"}},
        "providerID": "aws:///us-west-2a/i-1",
        "maxPods": 29,
        "kubeReserved": {"cpu": "70m", "memory": "574Mi", "ephemeral-storage": "1Gi"},
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%"},
    });
    write(root, "etc/kubernetes/kubelet/config.json", &document(main))?;
    let user = json!({"registerWithTaints": [{"key": "kerf.sh/agent-not-ready", "effect": "NoExecute"}]});
    write(root, "etc/kubernetes/kubelet/config.json.d/40-nodeadm.conf", &document(user))?;
    Ok(folder)
}

fn hardware() -> Hardware {
    Hardware {
        instance_type: "m5.large".to_owned(),
        architecture: "x86_64".to_owned(),
        vcpus: 2,
        memory_bytes: 8 << 30,
        huge_page_bytes: 0,
        disk_bytes: 20 << 30,
        devices: BTreeMap::new(),
    }
}

#[test]
fn settings_read_returns_the_agents_configuration() -> Result<()> {
    let machine = machine()?;
    let settings = Settings::read(machine.path())?;
    assert_eq!(settings.name, "ip-10-0-1-7.us-west-2.compute.internal");
    assert_eq!(settings.provider_id, "aws:///us-west-2a/i-1");
    let labels: Vec<_> = settings.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(labels, ["a=", "b=2", "karpenter.sh/nodepool=default"]);
    assert_eq!(settings.taints.len(), 1);
    assert_eq!(settings.taints[0].key, "kerf.sh/agent-not-ready");
    assert_eq!((settings.max_pods, settings.external_cloud), (29, true));
    assert_eq!((settings.version.as_str(), settings.kubeconfig.as_str()), ("v1.36.3", "/var/lib/kubelet/kubeconfig"));
    Ok(())
}

#[test]
fn settings_merge_drop_ins_over_file_and_flags_over_both() -> Result<()> {
    let machine = machine()?;
    let drop_in = |name: &str, fields: Value| {
        write(machine.path(), &format!("etc/kubernetes/kubelet/config.json.d/{name}"), &document(fields))
    };
    drop_in("50-more.conf", json!({"maxPods": 11, "evictionHard": {"memory.available": "5%"}}))?;
    drop_in("60-last.conf", json!({"maxPods": 12, "registerWithTaints": [{"key": "a", "effect": "NoSchedule"}]}))?;
    drop_in("99-ignored.txt", json!({"maxPods": 13}))?;
    let settings = Settings::read(machine.path())?;
    assert_eq!(settings.max_pods, 12);
    assert_eq!(settings.eviction["memory.available"], "5%");
    assert_eq!(settings.eviction["nodefs.available"], "10%", "maps merge");
    assert_eq!(settings.taints.iter().map(|taint| taint.key.as_str()).collect::<Vec<_>>(), ["a"], "lists replace");
    let flags = "--register-with-taints=b=1:NoExecute,c:NoSchedule --max-pods=7\"\n";
    let environment = ENVIRONMENT.trim_end().trim_end_matches('"').to_owned() + " " + flags;
    write(machine.path(), "etc/eks/kubelet/environment", &environment)?;
    let settings = Settings::read(machine.path())?;
    assert_eq!(settings.max_pods, 7);
    let taints: Vec<_> = settings.taints.iter().map(|taint| (&*taint.key, taint.value.as_deref())).collect();
    assert_eq!(taints, [("b", Some("1")), ("c", None)]);
    Ok(())
}

#[test]
fn settings_read_reports_the_file_when_it_is_invalid() -> Result<()> {
    let wrong = |path: &str, text: Option<&str>| -> Result<String> {
        let machine = machine()?;
        match text {
            Some(text) => write(machine.path(), path, text)?,
            None => std::fs::remove_file(machine.path().join(path))?,
        }
        let error = Settings::read(machine.path()).err().context("it was read")?;
        Ok(format!("{error:#}"))
    };
    let environment = "etc/eks/kubelet/environment";
    let rows = [
        (environment, None, "etc/eks/kubelet/environment"),
        (environment, Some("A=1\n"), "NODEADM_KUBELET_ARGS"),
        (environment, Some("NODEADM_KUBELET_ARGS=\"config\"\n"), "is no flag"),
        (environment, Some("NODEADM_KUBELET_ARGS=\"--v=2\"\n"), "lacks --config"),
        ("etc/eks/kubelet-version.txt", None, "kubelet-version.txt"),
        ("etc/kubernetes/pki/ca.crt", None, "ca.crt"),
        ("etc/kubernetes/kubelet/config.json", Some("{}"), "is no KubeletConfiguration"),
        ("etc/kubernetes/kubelet/config.json.d/41.conf", Some("kind: ["), "41.conf is not YAML"),
    ];
    for (path, text, expected) in rows {
        let error = wrong(path, text)?;
        assert!(error.contains(expected), "{path}: {error}");
    }
    Ok(())
}

#[test]
fn settable_permits_only_labels_of_a_node() {
    let rows = [
        ("karpenter.sh/nodepool", true),
        ("karpenter.k8s.aws/instance-cpu", true),
        ("plain", true),
        ("kubernetes.io/arch", true),
        ("topology.kubernetes.io/zone", true),
        ("node.kubernetes.io/anything", true),
        ("sub.node.kubernetes.io/anything", true),
        ("kubelet.kubernetes.io/x", true),
        ("kubernetes.io/anything", false),
        ("node-role.kubernetes.io/worker", false),
        ("node-restriction.kubernetes.io/x", false),
        ("x.k8s.io/y", false),
        ("notkubernetes.io/y", true),
    ];
    for (label, expected) in rows {
        assert_eq!(settable(label), expected, "{label}");
    }
}

#[test]
fn status_subtracts_reservations_from_allocatable() -> Result<()> {
    let machine = machine()?;
    let settings = Settings::read(machine.path())?;
    let status = node::status(&settings, &hardware(), Vec::new())?;
    let mib = |mib: u64| format!("{}Ki", mib * 1024);
    assert_eq!(status["capacity"]["cpu"], "2");
    assert_eq!(status["capacity"]["memory"], mib(8192 - 512));
    assert_eq!(status["allocatable"]["cpu"], "1930m");
    assert_eq!(status["allocatable"]["memory"], mib(8192 - 512 - 574 - 100));
    let disk = (20_u64 << 30) - (1 << 30) - (20_u64 << 30) / 100 * 10;
    assert_eq!(status["allocatable"]["ephemeral-storage"], disk.to_string());
    assert_eq!(status["allocatable"]["pods"], "29");
    Ok(())
}

#[test]
fn registration_has_taints_of_kubelet_and_cloud_provider() -> Result<()> {
    let machine = machine()?;
    let settings = Settings::read(machine.path())?;
    let now: Timestamp = "2026-11-21T12:00:00Z".parse()?;
    let node = node::registration(&settings, &hardware(), Conditions::default().report(false, now))?;
    let spec = node.spec.context("a spec")?;
    let taints: Vec<_> = spec.taints.iter().flatten().map(|taint| format!("{}:{}", taint.key, taint.effect)).collect();
    let cloud = format!("{}:NoSchedule", node::UNINITIALIZED);
    assert_eq!(taints, ["kerf.sh/agent-not-ready:NoExecute", &cloud]);
    let labels = node.metadata.labels.context("labels")?;
    assert!(labels.keys().all(|label| settable(label)), "{labels:?}");
    assert_eq!(labels["kubernetes.io/arch"], "amd64");
    Ok(())
}

#[test]
fn conditions_report_the_last_transition_time() -> Result<()> {
    let times: Vec<Timestamp> = ["2026-11-21T12:00:00Z", "2026-11-21T12:01:00Z", "2026-11-21T12:02:00Z"]
        .iter()
        .flat_map(|t| t.parse())
        .collect();
    let mut conditions = Conditions::default();
    let mut ready = |network, now| {
        let all = conditions.report(network, now);
        let ready = all.iter().find(|condition| condition["type"] == "Ready").cloned().unwrap_or_default();
        (ready["status"].clone(), ready["lastTransitionTime"].clone(), ready["lastHeartbeatTime"].clone())
    };
    let (first, second, third) = (ready(false, times[0]), ready(false, times[1]), ready(true, times[2]));
    assert_eq!(first, (json!("False"), json!("2026-11-21T12:00:00Z"), json!("2026-11-21T12:00:00Z")));
    assert_eq!(second, (json!("False"), json!("2026-11-21T12:00:00Z"), json!("2026-11-21T12:01:00Z")));
    assert_eq!(third, (json!("True"), json!("2026-11-21T12:02:00Z"), json!("2026-11-21T12:02:00Z")));
    Ok(())
}

#[test]
fn network_ready_is_true_when_a_cni_file_exists() -> Result<()> {
    let folder = tempfile::tempdir()?;
    assert!(!network_ready(folder.path()));
    write(folder.path(), "etc/cni/net.d/readme", "")?;
    assert!(!network_ready(folder.path()));
    write(folder.path(), "etc/cni/net.d/10-aws.conflist", "{}")?;
    assert!(network_ready(folder.path()));
    Ok(())
}

const STEP: Duration = Duration::from_millis(100);

fn pods() -> Pods {
    let timing = Timing { pod_start: STEP * 3, pod_stop: STEP * 5, ..Timing::default() };
    let options = Options {
        built_in_plugins: Vec::new(),
        root: "/".into(),
        hardware: hardware(),
        pod_network: [1, 7],
        timing,
        log: "/dev/null".into(),
        plugin: None,
    };
    Pods::new(&options, Some("10.0.1.7".to_owned()))
}

fn pod(name: &str, change: Value) -> Result<Pod> {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "spec": {"containers": [{"name": "main", "image": "inflate"}]},
        "status": {"phase": "Pending"},
    });
    merge(&mut pod, change);
    Ok(serde_json::from_value(pod)?)
}

fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

/// Returns the due steps, as `verb name`.
fn due(pods: &mut Pods, network: bool, now: Instant) -> Vec<String> {
    let steps = pods.due(network, now, Timestamp::UNIX_EPOCH);
    let verb = |step: &Step| if matches!(step, Step::Run { .. }) { "run" } else { "end" };
    steps.iter().map(|step| format!("{} {}", verb(step), step.pod().name)).collect()
}

#[test]
fn due_runs_a_pod_when_its_start_time_and_network_are_ready() -> Result<()> {
    let (mut pods, begin) = (pods(), Instant::now());
    pods.observe(&pod("app", json!({}))?, begin);
    pods.observe(&pod("cni", json!({"spec": {"hostNetwork": true}}))?, begin);
    assert!(due(&mut pods, true, begin + STEP * 2).is_empty(), "too early");
    assert_eq!(due(&mut pods, false, begin + STEP * 3), ["run cni"]);
    assert_eq!(due(&mut pods, true, begin + STEP * 4), ["run app"]);
    assert!(due(&mut pods, true, begin + STEP * 5).is_empty(), "once is enough");
    assert_eq!(due(&mut pods, true, begin + STEP * 30), ["run app", "run cni"], "unless it showed no effect");
    for name in ["app", "cni"] {
        pods.observe(&pod(name, json!({"status": {"phase": "Running"}}))?, begin + STEP * 31);
    }
    assert!(due(&mut pods, true, begin + STEP * 100).is_empty());
    Ok(())
}

#[test]
fn due_ends_a_pod_within_its_grace_period() -> Result<()> {
    let begin = Instant::now();
    let rows = [("Running", 30, 5), ("Running", 0, 0), ("Pending", 30, 0), ("Succeeded", 30, 0)];
    for (phase, grace, steps) in rows {
        let mut pods = pods();
        let deleted = json!({
            "metadata": {"deletionTimestamp": "2026-11-21T12:00:00Z", "deletionGracePeriodSeconds": grace},
            "status": {"phase": phase},
        });
        pods.observe(&pod("app", json!({"status": {"phase": phase}}))?, begin);
        pods.observe(&pod("app", deleted.clone())?, begin);
        pods.observe(&pod("app", deleted)?, begin + STEP);
        if steps > 0 {
            assert!(due(&mut pods, true, begin + STEP * (steps - 1)).is_empty(), "{phase} {grace}");
        }
        assert_eq!(due(&mut pods, true, begin + STEP * steps), ["end app"], "{phase} {grace}");
        pods.forget("uid-app");
        assert!(due(&mut pods, true, begin + STEP * 100).is_empty());
    }
    Ok(())
}

#[test]
fn due_ends_a_pod_after_its_pre_stop_hook() -> Result<()> {
    let begin = Instant::now();
    let exec = |command: Value| json!({"exec": {"command": command}});
    let rows = [
        (json!({"sleep": {"seconds": 2}}), 30, 25),
        (exec(json!(["sleep", "2"])), 30, 25),
        (exec(json!(["/bin/sh", "-c", "sleep 2"])), 30, 25),
        (exec(json!(["/bin/sh", "-c", "nginx -s quit"])), 30, 5),
        (json!({"sleep": {"seconds": 60}}), 1, 10),
    ];
    for (hook, grace, steps) in rows {
        let mut pods = pods();
        let deleted = json!({
            "metadata": {"deletionTimestamp": "2026-11-21T12:00:00Z", "deletionGracePeriodSeconds": grace},
            "spec": {"containers": [{"name": "main", "lifecycle": {"preStop": hook}}]},
            "status": {"phase": "Running"},
        });
        pods.observe(&pod("app", deleted)?, begin);
        assert!(due(&mut pods, true, begin + STEP * (steps - 1)).is_empty(), "{hook} {grace}");
        assert_eq!(due(&mut pods, true, begin + STEP * steps), ["end app"], "{hook} {grace}");
    }
    Ok(())
}

#[test]
fn due_reports_a_pod_ready_when_its_probes_find_their_ports() -> Result<()> {
    let probed = |probe: Value| json!({"name": "main", "ports": [{"name": "web", "containerPort": 80}], "readinessProbe": probe});
    let rows = [
        (probed(json!({"httpGet": {"port": 80}})), json!([]), "True"),
        (probed(json!({"tcpSocket": {"port": "web"}})), json!([]), "True"),
        (probed(json!({"exec": {"command": ["true"]}})), json!([]), "True"),
        (probed(json!({"httpGet": {"port": 81}})), json!([]), "False"),
        (probed(json!({"grpc": {"port": 81}})), json!([]), "False"),
        (
            json!({"name": "main"}),
            json!([{"name": "beside", "restartPolicy": "Always", "readinessProbe": {"tcpSocket": {"port": 1}}}]),
            "False",
        ),
        (json!({"name": "main"}), json!([{"name": "once", "readinessProbe": {"tcpSocket": {"port": 1}}}]), "True"),
    ];
    for (container, init, expected) in rows {
        let (mut pods, begin) = (pods(), Instant::now());
        pods.observe(&pod("app", json!({"spec": {"containers": [container], "initContainers": init}}))?, begin);
        let steps = pods.due(true, begin + STEP * 3, Timestamp::UNIX_EPOCH);
        let Some(Step::Run { status, .. }) = steps.first() else {
            anyhow::bail!("nothing runs: {steps:?}");
        };
        let conditions = status["status"]["conditions"].as_array().context("no conditions")?;
        for kind in ["Ready", "ContainersReady"] {
            let found = conditions.iter().find(|condition| condition["type"] == kind).context(kind)?;
            assert_eq!(found["status"], expected, "{kind} of {container} beside {init}");
        }
    }
    Ok(())
}

#[test]
fn end_list_removes_pods_that_were_not_listed() -> Result<()> {
    let (mut pods, begin) = (pods(), Instant::now());
    pods.observe(&pod("gone", json!({}))?, begin);
    pods.begin_list();
    pods.observe(&pod("here", json!({}))?, begin);
    pods.end_list();
    assert_eq!(due(&mut pods, true, begin + STEP * 3), ["run here"]);
    Ok(())
}

#[test]
fn due_gives_each_pod_a_unique_and_stable_address() -> Result<()> {
    let (mut pods, begin) = (pods(), Instant::now());
    let running = json!({"status": {"phase": "Running", "podIP": "100.1.7.3"}});
    pods.observe(&pod("old", running)?, begin);
    for name in ["a", "b", "c"] {
        pods.observe(&pod(name, json!({}))?, begin);
    }
    pods.observe(&pod("host", json!({"spec": {"hostNetwork": true}}))?, begin);
    let mut addresses = Vec::new();
    for step in pods.due(true, begin + STEP * 3, Timestamp::UNIX_EPOCH) {
        if let Step::Run { status, .. } = step {
            addresses.push(status["status"]["podIP"].as_str().unwrap_or_default().to_owned());
        }
    }
    assert_eq!(addresses, ["100.1.7.2", "100.1.7.4", "100.1.7.5", "10.0.1.7"]);
    Ok(())
}

#[test]
fn brings_network_is_true_only_for_pods_of_aws_node() -> Result<()> {
    let owned = |kind: &str, name: &str| json!({"metadata": {"ownerReferences": [owner(kind, name)]}});
    let rows = [("DaemonSet", "aws-node", true), ("DaemonSet", "kube-proxy", false), ("ReplicaSet", "aws-node", false)];
    for (kind, name, expected) in rows {
        let (mut pods, begin) = (pods(), Instant::now());
        pods.observe(&pod("x", owned(kind, name))?, begin);
        let steps = pods.due(true, begin + STEP * 3, Timestamp::UNIX_EPOCH);
        let brings = steps.iter().any(|step| matches!(step, Step::Run { brings_network: true, .. }));
        assert_eq!(brings, expected, "{kind} {name}");
    }
    Ok(())
}

fn owner(kind: &str, name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "uid-owner"})
}

#[test]
fn due_reports_init_containers_ended_and_sidecars_running() -> Result<()> {
    let (mut pods, begin) = (pods(), Instant::now());
    let init = json!([{"name": "once"}, {"name": "beside", "restartPolicy": "Always"}]);
    pods.observe(&pod("app", json!({"spec": {"initContainers": init}}))?, begin);
    let steps = pods.due(true, begin + STEP * 3, Timestamp::UNIX_EPOCH);
    let Some(Step::Run { status, .. }) = steps.first() else {
        anyhow::bail!("nothing runs: {steps:?}");
    };
    let states = &status["status"]["initContainerStatuses"];
    assert_eq!(states[0]["state"]["terminated"]["exitCode"], 0);
    assert!(states[1]["state"]["running"].is_object());
    assert!(status["status"]["containerStatuses"][0]["state"]["running"].is_object());
    Ok(())
}

#[test]
fn due_resizes_a_pod_once_when_its_requests_change() -> Result<()> {
    let (mut pods, begin) = (pods(), Instant::now());
    let asks = |cpu: &str| json!({"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}});
    pods.observe(&pod("app", asks("1"))?, begin);
    let steps = pods.due(true, begin + STEP * 3, Timestamp::UNIX_EPOCH);
    let Some(Step::Run { status, .. }) = steps.first() else {
        anyhow::bail!("nothing runs: {steps:?}");
    };
    let with = |cpu: &str, status: &Value| {
        let mut change = asks(cpu);
        change["status"] = status["status"].clone();
        pod("app", change)
    };
    let later = begin + Duration::from_secs(10);
    pods.observe(&with("1", status)?, later);
    assert_eq!(pods.due(true, later, Timestamp::UNIX_EPOCH), [], "it has what it asked for");
    pods.observe(&with("500m", status)?, later);
    let steps = pods.due(true, later, Timestamp::UNIX_EPOCH);
    let Some(Step::Resize { status, .. }) = steps.first() else {
        anyhow::bail!("nothing is granted: {steps:?}");
    };
    let granted = &status["status"]["containerStatuses"][0];
    assert_eq!(granted["resources"]["requests"]["cpu"], "500m");
    assert_eq!(granted["allocatedResources"]["cpu"], "500m");
    assert!(granted["state"]["running"].is_object(), "the rest stays as it was: {granted}");
    Ok(())
}

#[test]
fn due_completes_a_job_after_its_sleep() -> Result<()> {
    let begin = Instant::now();
    for (policy, completes) in [("Never", true), ("OnFailure", true), ("Always", false)] {
        let mut pods = pods();
        let sleeps = json!([{"name": "main", "command": ["/bin/sh", "-c", "sleep 30"]}]);
        let job = |status: &Value| {
            pod("job", json!({"spec": {"restartPolicy": policy, "containers": sleeps}, "status": status}))
        };
        pods.observe(&job(&json!({}))?, begin);
        let steps = pods.due(true, begin + STEP * 3, Timestamp::UNIX_EPOCH);
        let Some(Step::Run { status, .. }) = steps.first() else {
            anyhow::bail!("nothing runs: {steps:?}");
        };
        let later = begin + Duration::from_secs(40);
        pods.observe(&job(&status["status"])?, later);
        assert_eq!(pods.due(true, later, Timestamp::from_second(29)?), [], "it sleeps");
        let steps = pods.due(true, later, Timestamp::from_second(30)?);
        match steps.first() {
            Some(Step::Complete { status, .. }) => {
                assert!(completes, "{policy}");
                assert_eq!(status["status"]["phase"], "Succeeded");
                assert_eq!(status["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 0);
            }
            other => assert!(!completes && other.is_none(), "{policy}: {other:?}"),
        }
    }
    Ok(())
}

#[test]
fn capacity_has_fewer_pods_with_a_limit_per_core() -> Result<()> {
    let machine = machine()?;
    let settings = Settings::read(machine.path())?;
    for (pods_per_core, pods) in [(0, "29"), (10, "20"), (20, "29")] {
        let status = node::status(&Settings { pods_per_core, ..settings.clone() }, &hardware(), Vec::new())?;
        assert_eq!(status["capacity"]["pods"], pods, "{pods_per_core}");
    }
    Ok(())
}
