//! Tests of user data from an EC2NodeClass and a NodeClaim, and of the defaults of AMI families.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use api::nodeclass::AmiFamily;
use api::{EC2NodeClass, Taint, label};
use cloud::Settings;
use cloud::fake::{FakeCloud, ManualClock, own_image};
use cloud::launch::{LaunchRequest, block_devices, metadata_options};
use cloud::nodeclass::user_data::{NodeUserData, document};
use cloud::nodeclass::{ResolutionCache, ResolvedClass, fetch, queries, resolve};
use jiff::Timestamp;
use machine::userdata::{Document, RenderError, Warning};
use serde_json::{Value, json};

const FAMILIES: [AmiFamily; 7] = [
    AmiFamily::Al2,
    AmiFamily::Al2023,
    AmiFamily::Bottlerocket,
    AmiFamily::Custom,
    AmiFamily::Windows2019,
    AmiFamily::Windows2022,
    AmiFamily::Windows2025,
];

fn settings() -> Settings {
    Settings {
        cluster_name: "kerf".to_owned(),
        cluster_endpoint: "https://10.0.0.1".to_owned(),
        cluster_ca: "Q0E=".to_owned(),
        cluster_cidr: "10.100.0.0/16".to_owned(),
        cluster_dns: vec!["10.100.0.10".to_owned()],
        ..Settings::default()
    }
}

/// Returns an EC2NodeClass of this family, resolved to one image.
async fn class(family: AmiFamily, spec: &Value, annotations: &Value, image: &str) -> ResolvedClass {
    let mut whole = json!({
        "amiFamily": family.as_str(), "amiSelectorTerms": [{"id": "ami-1"}],
        "subnetSelectorTerms": [], "securityGroupSelectorTerms": [], "instanceProfile": "nodes",
    });
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let object = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
        "metadata": {"name": "default", "annotations": annotations}, "spec": whole,
    });
    let class: EC2NodeClass = serde_json::from_value(object).unwrap();
    let image = own_image("ami-1", image, "x86_64", "2026-01-01T00:00:00.000Z");
    let cloud = FakeCloud::builder("us-west-2").clock(ManualClock::default()).image(image).build().unwrap();
    let now = Timestamp::constant(1_790_000_000, 0);
    let answers = fetch(&cloud, &queries(&class, &settings()), &ResolutionCache::default(), now).await;
    resolve(&class, answers, &settings(), now).class
}

fn rendered(class: &ResolvedClass) -> Result<Document, RenderError> {
    rendered_in(class, &settings())
}

fn rendered_in(class: &ResolvedClass, settings: &Settings) -> Result<Document, RenderError> {
    let ask = LaunchRequest {
        labels: [("team".to_owned(), "a".to_owned()), (label::ZONE.to_owned(), "z".to_owned())].into(),
        taints: vec![Taint::new("dedicated", "NoSchedule")],
        startup_taints: vec![Taint::new("cni.example.com/wait", "NoExecute")],
        ..LaunchRequest::default()
    };
    let machine = NodeUserData { capacity_type: label::CAPACITY_SPOT, image_id: "ami-1", max_pods: 58 };
    document(class, settings, ask.registration(), machine)
}

#[tokio::test]
async fn document_has_cluster_labels_taints_and_pods_per_family() {
    for family in FAMILIES {
        let user_data = if family == AmiFamily::Bottlerocket { "settings.motd = 'mine'" } else { "echo mine" };
        let class = class(family, &json!({"userData": user_data}), &json!({}), "").await;
        let Document { text, warnings } = rendered(&class).unwrap();
        assert_eq!(warnings, [], "{family:?}");
        if family == AmiFamily::Custom {
            assert_eq!(text, user_data, "to the byte");
            continue;
        }
        let parts = ["kerf", "https://10.0.0.1", "Q0E=", "10.100.0.10", "58", "dedicated", "cni.example.com/wait"];
        for part in
            parts.iter().chain(&["mine", "team", "karpenter.sh/do-not-sync-taints", "karpenter.sh/unregistered"])
        {
            assert!(text.contains(part), "{family:?}: {part} is not in {text}");
        }
        assert!(!text.contains(label::ZONE), "{family:?}: kubelet may not set it");
        assert!(!text.contains("agent-not-ready"), "{family:?}: no agent would remove it");
        let at = |what: &str| text.find(what).unwrap();
        assert!(at("dedicated") < at("cni.example.com/wait") || family == AmiFamily::Bottlerocket);
    }
}

/// Rows: address of the Service kube-dns, and `spec.kubelet.clusterDNS`.
#[tokio::test]
async fn document_has_the_dns_address_of_class_or_cluster() {
    let rows = [
        (None, None),
        (Some("10.100.0.10"), None),
        (Some("fd00:10::a"), None),
        (None, Some("10.100.0.53")),
        (None, Some("fd00:10::53")),
        (Some("10.100.0.10"), Some("10.100.0.53")),
        (Some("fd00:10::a"), Some("fd00:10::53")),
    ];
    for (family, (of_cluster, of_class)) in FAMILIES.into_iter().flat_map(|family| rows.map(|row| (family, row))) {
        let kubelet = of_class.map_or(json!({}), |address| json!({"kubelet": {"clusterDNS": [address]}}));
        let class = class(family, &kubelet, &json!({}), "").await;
        let address = of_class.or(of_cluster).unwrap_or_default();
        let cidr = if address.contains(':') { "fd00:10::/108" } else { "10.100.0.0/16" };
        let cluster_dns = of_cluster.into_iter().map(str::to_owned).collect();
        let settings = Settings { cluster_cidr: cidr.to_owned(), cluster_dns, ..settings() };
        // YAML quotes what looks like a number.
        let text = rendered_in(&class, &settings).unwrap().text.replace('"', "");
        let (key, setting) = match family {
            AmiFamily::Custom => ("dns", String::new()),
            AmiFamily::Al2 => ("dns-cluster-ip", format!("--dns-cluster-ip '{address}'")),
            AmiFamily::Al2023 => ("clusterDNS", format!("clusterDNS:\n      - {address}\n")),
            AmiFamily::Bottlerocket => ("cluster-dns-ip", format!("cluster-dns-ip = '{address}'")),
            _ => ("DNSClusterIP", format!("-DNSClusterIP '{address}'")),
        };
        let expected = family != AmiFamily::Custom && !address.is_empty();
        assert_eq!(text.contains(key), expected, "{family:?}, {of_cluster:?}, {of_class:?}: {text}");
        assert!(!expected || text.contains(&setting), "{family:?}: {setting} is not in {text}");
        let ipv6 = family == AmiFamily::Al2 && address.contains(':');
        assert_eq!(text.contains("--ip-family ipv6"), ipv6, "{family:?}, {of_cluster:?}, {of_class:?}: {text}");
    }
}

#[tokio::test]
async fn document_configures_the_agent_by_family() {
    let annotations = json!({"kerf.sh/agent": "enabled", "kerf.sh/agent-settings": "units: [kubelet.service]"});
    let container = "[settings.host-containers.kerf-agent]\nsource = 'example.com/agent:1'\n";
    for (family, user_data) in [(AmiFamily::Al2023, ""), (AmiFamily::Bottlerocket, container)] {
        let class = class(family, &json!({"userData": user_data}), &annotations, "").await;
        let text = rendered(&class).unwrap().text;
        assert!(text.contains("kerf.sh/agent-not-ready"), "{family:?}");
        let read = machine::userdata::parse_agent(text.as_bytes()).unwrap().unwrap();
        assert_eq!(read.units, ["kubelet.service"], "{family:?}");
    }
    for family in [AmiFamily::Al2, AmiFamily::Windows2019, AmiFamily::Windows2022, AmiFamily::Windows2025] {
        let class = class(family, &json!({}), &json!({"kerf.sh/agent": "enabled"}), "").await;
        let error = rendered(&class).unwrap_err();
        assert!(matches!(error, RenderError::AgentNotServed { .. }), "{error}");
    }
    let plain = class(AmiFamily::Bottlerocket, &json!({}), &json!({"kerf.sh/agent": "enabled"}), "").await;
    assert_eq!(rendered(&plain).unwrap().warnings, [Warning::AgentFromImage]);
}

#[tokio::test]
async fn document_uses_bottlerocket_release_of_alias_or_image_name() {
    let alias = |alias: &str| json!({"amiSelectorTerms": [{"alias": alias}]});
    for (mut spec, image, explicit) in [
        (alias("bottlerocket@latest"), "", false),
        (alias("bottlerocket@v1.45.0"), "bottlerocket-aws-k8s-1.36-x86_64-v1.50.0-aaaaaaaa", true),
        (alias("bottlerocket@1.46.0"), "", false),
        (json!({}), "bottlerocket-aws-k8s-1.36-x86_64-v1.46.0-aaaaaaaa", false),
        (json!({}), "bottlerocket-aws-k8s-1.36-aarch64-v1.45.9-aaaaaaaa", true),
        (json!({}), "the-teams-own", true),
    ] {
        spec["instanceStorePolicy"] = json!("RAID0");
        let class = class(AmiFamily::Bottlerocket, &spec, &json!({}), image).await;
        assert_eq!(rendered(&class).unwrap().text.contains("--dirs"), explicit, "{spec}, {image}");
    }
}

#[tokio::test]
async fn block_devices_default_by_family_unless_the_class_lists_some() {
    let devices = async |family: AmiFamily, spec: &Value| {
        let disks = block_devices(&class(family, spec, &json!({}), "").await.spec, family);
        disks.into_iter().map(|disk| (disk.device, disk.size_gib, disk.volume_type, disk.encrypted)).collect::<Vec<_>>()
    };
    let usual = |device: &str, size: u32| (device.to_owned(), Some(size), Some("gp3".to_owned()), Some(true));
    for family in FAMILIES {
        let expected = match family {
            AmiFamily::Al2 | AmiFamily::Al2023 => vec![usual("/dev/xvda", 20)],
            AmiFamily::Bottlerocket => vec![usual("/dev/xvda", 4), usual("/dev/xvdb", 20)],
            AmiFamily::Custom => vec![],
            _ => vec![usual("/dev/sda1", 50)],
        };
        assert_eq!(devices(family, &json!({})).await, expected, "{family:?}");
        let own = json!({"blockDeviceMappings": [{"deviceName": "/dev/sdz", "ebs": {"volumeSize": "20G"}}]});
        assert_eq!(devices(family, &own).await, [("/dev/sdz".to_owned(), Some(19), None, None)], "{family:?}");
    }
}

#[tokio::test]
async fn metadata_omits_ipv6_in_regions_without_support() {
    for (options, region, expected) in [
        (json!({}), "us-east-1", Some("disabled")),
        (json!({"httpProtocolIPv6": "enabled"}), "us-east-1", Some("enabled")),
        (json!({"httpProtocolIPv6": "enabled"}), "us-iso-east-1", None),
        (json!({}), "us-isof-south-1", None),
        (json!({}), "us-isob-west-1", None),
    ] {
        let spec = class(AmiFamily::Al2023, &json!({"metadataOptions": options}), &json!({}), "").await.spec;
        let options = metadata_options(&spec, region);
        assert_eq!(options.http_protocol_ipv6.as_deref(), expected, "{region}");
        assert_eq!((options.http_endpoint.as_str(), options.http_tokens.as_str()), ("enabled", "required"));
        assert_eq!(options.hop_limit, 1);
    }
}
