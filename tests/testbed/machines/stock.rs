//! Machine of a stock image, on which no agent runs: of Bottlerocket or Windows, and of AL2023 where the simulator's options ask for it.
//! What the image's own start makes of its user data becomes the files of the fake kubelet.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use api::label;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cloud::data::region_of_zone;
use cloud::fake::FakeInstance;
use machine::nodeconfig::merge_json;
use machine::{pods, userdata};
use serde_json::{Map, Value, json};
use toml::Table;

use super::facts;
use super::image::{self, write};
use super::machine::{InstanceUpdates, Machine, MachineSpec, Phase, metadata, until_gone, until_shutdown};
use crate::kubelet::Kubelet;
use crate::pki::Credentials;

/// Versions of Windows in the names of EKS' images, with their builds.
const WINDOWS: [(&str, &str); 3] = [("2019", "10.0.17763"), ("2022", "10.0.20348"), ("2025", "10.0.26100")];
/// Path of the certificate that a kubelet without a role uses.
const CERTIFICATE: &str = "/var/lib/kubelet/pki/kubelet-client-current.pem";
/// Path of the cluster's certificate authority.
const AUTHORITY: &str = "/etc/kubernetes/pki/ca.crt";

/// User data as the start of a stock image understands it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Start {
    cluster: String,
    endpoint: String,
    /// Base64 of the certificate authority.
    authority: String,
    /// Command line of kubelet.
    arguments: Vec<String>,
    /// Fields of kubelet's configuration.
    config: Map<String, Value>,
    /// True if the image contains NVIDIA's device plugin.
    nvidia: bool,
}

impl Start {
    /// Returns the start of an instance of AL2023 as EKS' own bootstrap program understands it.
    pub(super) fn of_al2023(machine: &FakeInstance, vcpus: u32) -> Result<Self> {
        let kind = &machine.instance.instance_type;
        al2023(&facts::user_data(machine), kind, vcpus).context("the user data is no use for AL2023")
    }

    /// Returns the start of an instance; `None` if its image, by name, is neither Bottlerocket nor Windows.
    pub(super) fn of(machine: &FakeInstance, image: &str) -> Option<Result<Self>> {
        let text = String::from_utf8_lossy(&facts::user_data(machine)).into_owned();
        if image.starts_with("bottlerocket-") {
            let start = bottlerocket(&text).context("the user data is no use for Bottlerocket");
            return Some(start.map(|start| Self { nvidia: image.contains("-nvidia-"), ..start }));
        }
        let (_, build) = WINDOWS.iter().find(|(year, _)| image.starts_with(&format!("Windows_Server-{year}")))?;
        Some(windows(&text, build).context("the user data is no use for Windows"))
    }
}

/// Reads the NodeConfig of AL2023. Its kubelet configuration is merged over the program's own one.
fn al2023(user_data: &[u8], instance_type: &str, vcpus: u32) -> Result<Start> {
    let spec = userdata::parse(user_data)?.config.spec;
    let density = pods::density(pods::interface_limits(instance_type), &spec.kubelet.max_pods_expression);
    let reserved = json!({
        "cpu": format!("{}m", pods::kube_reserved_cpu_millicores(vcpus)),
        "memory": format!("{}Mi", pods::kube_reserved_memory_mib(density.pods)),
        "ephemeral-storage": format!("{}Mi", pods::KUBE_RESERVED_EPHEMERAL_STORAGE_MIB),
    });
    let mut config = Map::from_iter([
        ("maxPods".to_owned(), json!(density.pods)),
        ("kubeReserved".to_owned(), reserved),
        ("evictionHard".to_owned(), json!({"memory.available": "100Mi", "nodefs.available": "10%"})),
    ]);
    merge_json(&mut config, spec.kubelet.config);
    Ok(Start {
        cluster: spec.cluster.name,
        endpoint: spec.cluster.api_server_endpoint,
        authority: spec.cluster.certificate_authority,
        arguments: spec.kubelet.flags,
        config,
        nvidia: false,
    })
}

/// Reads the settings of Bottlerocket.
fn bottlerocket(text: &str) -> Result<Start> {
    let document: Table = text.parse().context("it is no TOML")?;
    let kubernetes = document.get("settings").and_then(|settings| settings.get("kubernetes")?.as_table());
    let kubernetes = kubernetes.context("it has no settings.kubernetes")?;
    let field = |name: &str| {
        let found = kubernetes.get(name).and_then(toml::Value::as_str);
        found.map(str::to_owned).with_context(|| format!("settings.kubernetes.{name} is missing"))
    };
    let mut arguments = vec![format!("--node-labels=\"{}\"", labels(table(kubernetes, "node-labels")))];
    arguments.push(format!("--register-with-taints=\"{}\"", taints(table(kubernetes, "node-taints"))));
    arguments.extend(kubernetes.get("max-pods").map(|pods| format!("--max-pods={pods}")));
    let mut config = Map::new();
    for (name, target) in
        [("kube-reserved", "kubeReserved"), ("system-reserved", "systemReserved"), ("eviction-hard", "evictionHard")]
    {
        if let Some(own) = kubernetes.get(name) {
            config.insert(target.to_owned(), serde_json::to_value(own).context("a setting is no JSON")?);
        }
    }
    Ok(Start {
        cluster: field("cluster-name")?,
        endpoint: field("api-server")?,
        authority: field("cluster-certificate")?,
        arguments,
        config,
        nvidia: false,
    })
}

fn table<'t>(kubernetes: &'t Table, name: &str) -> impl Iterator<Item = (&'t String, &'t toml::Value)> {
    kubernetes.get(name).and_then(toml::Value::as_table).into_iter().flatten()
}

fn labels<'t>(all: impl Iterator<Item = (&'t String, &'t toml::Value)>) -> String {
    let pair = |(key, value): (&String, &toml::Value)| format!("{key}={}", value.as_str().unwrap_or_default());
    all.map(pair).collect::<Vec<_>>().join(",")
}

/// Returns the taints of the flag: the setting has `value:Effect` by key, one or a list.
fn taints<'t>(all: impl Iterator<Item = (&'t String, &'t toml::Value)>) -> String {
    let of_key = |(key, value): (&String, &toml::Value)| {
        let values = value.as_array().map_or_else(|| vec![value.clone()], Clone::clone);
        let taint = |value: &toml::Value| format!("{key}={}", value.as_str().unwrap_or_default());
        values.iter().map(taint).collect::<Vec<_>>()
    };
    all.flat_map(of_key).collect::<Vec<_>>().join(",")
}

/// Reads the call of EKS' bootstrap script.
fn windows(text: &str, build: &str) -> Result<Start> {
    let call = text.lines().find(|line| line.starts_with("& ")).context("it calls no script")?;
    let words = powershell_words(call);
    let parameter = |name: &str| {
        let position = words.iter().position(|word| word == name);
        let value = position.and_then(|position| words.get(position + 1)).cloned();
        value.with_context(|| format!("{name} is missing"))
    };
    let own = format!("--node-labels=\"{}=windows,{}={build}\"", label::OS, label::WINDOWS_BUILD);
    Ok(Start {
        cluster: parameter("-EKSClusterName")?,
        endpoint: parameter("-APIServerEndpoint")?,
        authority: parameter("-Base64ClusterCA")?,
        arguments: vec![parameter("-KubeletExtraArgs")?, own],
        config: Map::new(),
        nvidia: false,
    })
}

/// Splits a line of PowerShell at spaces outside single quotes; two quotes in a text are one.
fn powershell_words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' if quoted && letters.peek() == Some(&'\'') => {
                words.last_mut().into_iter().for_each(|word| word.extend(letters.next()))
            }
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            _ => words.last_mut().into_iter().for_each(|word| word.push(letter)),
        }
    }
    words
}

/// Runs the machine from its boot to its end.
pub(super) async fn run_machine(machine: Arc<Machine>, spec: MachineSpec, start: Start, mut updates: InstanceUpdates) {
    if let Err(error) = run(&machine, &spec, &start, &mut updates).await {
        log::error!(instance = machine.instance_id(); "does not boot: {error:#}");
        return machine.enter(Phase::Broken(format!("{error:#}")));
    }
    machine.lost_power();
    machine.enter(Phase::Ended);
}

async fn run(machine: &Machine, spec: &MachineSpec, start: &Start, updates: &mut InstanceUpdates) -> Result<()> {
    let (certificate, role) = spec.identity()?;
    image::install(spec, certificate.as_ref())?;
    let instance = updates.borrow().clone().context("the instance went away before it booted")?;
    configure(&spec.root(), start, &instance, spec.node_name(), certificate.as_ref())?;
    let imds = Arc::new(metadata(spec, updates, role).await?);
    machine.has_booted(&imds, None);
    let mut options = spec.kubelet(&imds.url());
    options.built_in_plugins.extend(start.nvidia.then_some("nvidia.com/gpu"));
    let kubelet = Kubelet::start(options).await?;
    machine.enter(Phase::Running);
    until_shutdown(updates, &imds).await;
    machine.enter(Phase::ShuttingDown);
    kubelet.stop().await;
    until_gone(updates).await;
    imds.stop().await;
    Ok(())
}

/// Writes the files of kubelet.
fn configure(
    root: &Path,
    start: &Start,
    machine: &FakeInstance,
    name: &str,
    certificate: Option<&Credentials>,
) -> Result<()> {
    let authority = STANDARD.decode(&start.authority).context("the cluster's certificate is no base64")?;
    write(root, AUTHORITY.trim_start_matches('/'), &String::from_utf8_lossy(&authority))?;
    let instance = &machine.instance;
    let mut config = start.config.clone();
    config.extend([
        ("kind".to_owned(), json!("KubeletConfiguration")),
        ("apiVersion".to_owned(), json!("kubelet.config.k8s.io/v1beta1")),
        ("authentication".to_owned(), json!({"x509": {"clientCAFile": AUTHORITY}})),
        ("providerID".to_owned(), json!(format!("aws:///{}/{}", instance.zone, instance.id))),
    ]);
    write(root, "etc/kubernetes/kubelet/config.json", &Value::Object(config).to_string())?;
    let own = [
        "--config=/etc/kubernetes/kubelet/config.json".to_owned(),
        "--kubeconfig=/var/lib/kubelet/kubeconfig".to_owned(),
        "--cloud-provider=external".to_owned(),
        format!("--hostname-override={name}"),
        format!("--node-ip={}", instance.private_ip),
    ];
    let words: Vec<&String> = own.iter().chain(&start.arguments).collect();
    let line = words.into_iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    write(root, "etc/eks/kubelet/environment", &format!("NODEADM_KUBELET_ARGS='{line}'\n"))?;
    write(root, "var/lib/kubelet/kubeconfig", &kubeconfig(start, machine, certificate.is_some()).to_string())
}

fn kubeconfig(start: &Start, machine: &FakeInstance, has_certificate: bool) -> Value {
    let region = region_of_zone(&machine.instance.zone);
    let user = match has_certificate {
        true => json!({"client-certificate": CERTIFICATE, "client-key": CERTIFICATE}),
        false => json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "command": "aws",
            "args": ["eks", "get-token", "--cluster-name", start.cluster, "--region", region],
        }}),
    };
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "kubernetes",
            "cluster": {"server": start.endpoint, "certificate-authority": AUTHORITY},
        }],
        "users": [{"name": "kubelet", "user": user}],
        "contexts": [{"name": "kubelet", "context": {"cluster": "kubernetes", "user": "kubelet"}}],
        "current-context": "kubelet",
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::{al2023, bottlerocket, windows};

    #[test]
    fn start_reads_a_node_config() {
        let text = r#"apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: c, apiServerEndpoint: "https://a", certificateAuthority: Y2E=, cidr: 10.100.0.0/16}
  kubelet:
    config: {maxPods: 8, kubeReserved: {cpu: 1}}
    flags: ["--node-labels=team=a"]
"#;
        let start = al2023(text.as_bytes(), "m5.large", 2).unwrap();
        assert_eq!(
            (start.cluster.as_str(), start.endpoint.as_str(), start.authority.as_str()),
            ("c", "https://a", "Y2E=")
        );
        assert_eq!(start.arguments, ["--node-labels=team=a"]);
        assert_eq!(start.config["maxPods"], json!(8));
        // The interfaces of an m5.large have addresses for 29 pods: 255 + 11 * 29.
        let reserved = json!({"cpu": 1, "memory": "574Mi", "ephemeral-storage": "1024Mi"});
        assert_eq!(start.config["kubeReserved"], reserved);
        assert!(al2023(b"no NodeConfig", "m5.large", 2).is_err());
    }

    #[test]
    fn start_reads_bottlerocket_settings() {
        let start = bottlerocket(
            r#"[settings.kubernetes]
cluster-name = "c"
api-server = "https://a"
cluster-certificate = "Y2E="
max-pods = 29
node-labels = { team = "a", "karpenter.sh/nodepool" = "p" }
node-taints = { dedicated = ["gpu:NoSchedule", ":NoExecute"] }
kube-reserved = { cpu = "70m" }
"#,
        )
        .unwrap();
        let expected = [
            "--node-labels=\"karpenter.sh/nodepool=p,team=a\"",
            "--register-with-taints=\"dedicated=gpu:NoSchedule,dedicated=:NoExecute\"",
            "--max-pods=29",
        ];
        assert_eq!(start.arguments, expected);
        assert_eq!(start.config["kubeReserved"], json!({"cpu": "70m"}));
        assert!(bottlerocket("[settings.kubernetes]\n").is_err());
    }

    #[test]
    fn start_reads_the_call_of_the_windows_script() {
        let text = "<powershell>\nWrite-Host 'a'\n& $Script -EKSClusterName 'it''s' -APIServerEndpoint 'https://a' \
                    -Base64ClusterCA 'Y2E=' -KubeletExtraArgs '--node-labels=\"a=b\" --max-pods=29'\n</powershell>\n";
        let start = windows(text, "10.0.20348").unwrap();
        let found: BTreeMap<&str, &str> = [("cluster", start.cluster.as_str()), ("endpoint", &start.endpoint)].into();
        assert_eq!(found, [("cluster", "it's"), ("endpoint", "https://a")].into());
        assert_eq!(
            start.arguments,
            [
                "--node-labels=\"a=b\" --max-pods=29",
                "--node-labels=\"kubernetes.io/os=windows,node.kubernetes.io/windows-build=10.0.20348\""
            ]
        );
    }
}
