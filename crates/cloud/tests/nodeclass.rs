//! Tests of the resolution of EC2NodeClasses against the fake. Each failure names the missing resource and a hint.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::collections::BTreeMap;

use api::EC2NodeClass;
use api::{condition, label};
use cloud::fake::{FakeCloud, Fault, IMAGE_VERSION, ManualClock, own_image};
use cloud::nodeclass::{Resolution, ResolutionCache, fetch, queries, resolve};
use cloud::{Settings, Subnet};
use jiff::Timestamp;
use serde_json::json;

#[path = "nodeclass/drift.rs"]
mod drift;
#[path = "nodeclass/images.rs"]
mod images;
#[path = "nodeclass/probe.rs"]
mod probe;
#[path = "nodeclass/profiles.rs"]
mod profiles;
#[path = "nodeclass/reserved.rs"]
mod reserved;

const GOOD: &str = r#"
    "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "kerf"}}],
    "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "*"}}],
    "amiSelectorTerms": [{"alias": "al2023@latest"}],
    "instanceProfile": "nodes""#;

fn settings() -> Settings {
    Settings { reserved_capacity: true, ..cloud::fake::settings() }
}

/// Returns an EC2NodeClass whose spec is [`GOOD`] with some fields replaced or added (`null` removes a field).
fn class(changes: &str) -> EC2NodeClass {
    let mut spec: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&format!("{{{GOOD}}}")).unwrap();
    let changes: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&format!("{{{changes}}}")).unwrap();
    spec.extend(changes);
    spec.retain(|_, value| !value.is_null());
    let object = serde_json::json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"}, "spec": spec,
    });
    serde_json::from_value(object).unwrap()
}

fn cloud() -> FakeCloud {
    let images = [
        own_image("ami-0aaa", "golden-1", "x86_64", "2026-01-01T00:00:00.000Z"),
        own_image("ami-0bbb", "golden-2", "x86_64", "2026-02-01T00:00:00.000Z"),
        own_image("ami-0ccc", "golden-2-arm", "arm64", "2026-02-01T00:00:00.000Z"),
    ];
    let mut deprecated = own_image("ami-0ddd", "golden-3", "x86_64", "2026-03-01T00:00:00.000Z");
    deprecated.deprecated = true;
    deprecated.tags = [("team".to_owned(), "a".to_owned())].into();
    let builder = FakeCloud::builder("us-west-2").clock(ManualClock::default()).image(deprecated);
    let builder = builder.parameter("/golden", "ami-0aaa").parameter("/broken", "nothing");
    images.into_iter().fold(builder, |builder, image| builder.image(image)).build().unwrap()
}

async fn resolved(cloud: &FakeCloud, class: &EC2NodeClass, settings: &Settings) -> Resolution {
    let now = Timestamp::UNIX_EPOCH;
    let answers = fetch(cloud, &queries(class, settings), &ResolutionCache::default(), now).await;
    resolve(class, answers, settings, now)
}

fn conditions(resolution: &Resolution) -> BTreeMap<&str, (&str, &str)> {
    resolution.findings.iter().map(|one| (one.condition, (one.status, one.reason))).collect()
}

#[tokio::test]
async fn resolve_reports_ready_when_all_selectors_match() {
    let cloud = cloud();
    cloud.set_free_addresses("subnet-00000000000000002", 9000);
    let resolution = resolved(&cloud, &class(""), &settings()).await;
    assert!(resolution.is_ready(), "{:?}", resolution.findings);
    assert_eq!(resolution.findings.len(), 7);
    let zones: Vec<_> = resolution.status_subnets().into_iter().map(|subnet| subnet.zone).collect();
    assert_eq!(zones, ["us-west-2b", "us-west-2a", "us-west-2c"], "most free addresses first");
    assert_eq!(resolution.status_security_groups()[0].name, "kerf-nodes");
    assert_eq!(resolution.status_amis().len(), 5);
    assert_eq!(resolution.class.instance_profile, "nodes");
}

#[tokio::test]
async fn image_for_returns_the_image_of_each_instance_type() {
    let resolution = resolved(&cloud(), &class(""), &settings()).await;
    let facts = cloud::data::facts().unwrap();
    let rows = [
        ("m5.large", "x86_64-standard"),
        ("m7g.large", "arm64-standard"),
        ("g5.xlarge", "x86_64-nvidia"),
        ("g5g.xlarge", "arm64-nvidia"),
        ("inf2.xlarge", "x86_64-neuron"),
    ];
    for (name, kind) in rows {
        let labels = cloud::types::labels(&cloud::data::instance_types().unwrap()[name], facts, &settings());
        let image = &resolution.class.image_for(&labels).unwrap().image.name;
        assert_eq!(*image, format!("amazon-eks-node-al2023-{kind}-1.36-{IMAGE_VERSION}"), "{name}");
    }
}

/// Rows: image fields of the EC2NodeClass, and the selected images, newest first.
#[tokio::test]
async fn ami_selector_terms_select_the_newest_image_per_variant() {
    let pinned = format!(r#""amiSelectorTerms": [{{"alias": "al2023@{IMAGE_VERSION}"}}]"#);
    let custom = |terms: &str| format!(r#""amiFamily": "Custom", "amiSelectorTerms": [{terms}]"#);
    let rows = [
        (custom(r#"{"name": "golden-*"}"#), vec!["ami-0bbb", "ami-0ccc"]),
        (custom(r#"{"tags": {"team": "*"}}"#), vec!["ami-0ddd"]),
        (custom(r#"{"id": "ami-0aaa"}"#), vec!["ami-0aaa"]),
        (custom(r#"{"id": "ami-0aaa"}, {"id": "ami-0ccc"}"#), vec!["ami-0ccc", "ami-0aaa"]),
        (custom(r#"{"name": "golden-*", "owner": "amazon"}"#), vec![]),
        (custom(r#"{"ssmParameter": "/golden"}"#), vec!["ami-0aaa"]),
        (custom(r#"{"ssmParameter": "/broken"}, {"ssmParameter": "/none"}"#), vec![]),
    ];
    let cloud = cloud();
    for (change, expected) in rows {
        let resolution = resolved(&cloud, &class(&change), &settings()).await;
        let found: Vec<_> = resolution.status_amis().into_iter().map(|ami| ami.id).collect();
        assert_eq!(found, expected, "{change}");
        assert_eq!(resolution.is_ready(), !expected.is_empty(), "{change}");
    }
    let resolution = resolved(&cloud, &class(&pinned), &settings()).await;
    assert_eq!(resolution.status_amis().len(), 5, "a pinned release");
    let arch = &resolution.status_amis()[0].requirements;
    assert!(arch.iter().any(|one| one.key == label::ARCH), "{arch:?}");
}

/// Rows: a change of the EC2NodeClass, the failed condition, its reason, and a part of its message.
#[tokio::test]
async fn findings_name_the_missing_resource_and_a_hint() {
    let nothing = r#"[{"tags": {"team": "missing"}}]"#;
    let large = "x".repeat(17_000);
    let rows = [
        (
            format!(r#""subnetSelectorTerms": {nothing}"#),
            condition::SUBNETS_READY,
            "SubnetsNotFound",
            "tag team=missing",
        ),
        (
            format!(r#""securityGroupSelectorTerms": {nothing}"#),
            condition::SECURITY_GROUPS_READY,
            "SecurityGroupsNotFound",
            "tag team=missing",
        ),
        (
            r#""amiSelectorTerms": [{"alias": "al2023@v20000101"}]"#.to_owned(),
            condition::AMIS_READY,
            "AMINotFound",
            "alias al2023@v20000101",
        ),
        (
            r#""amiSelectorTerms": [{"alias": "al2@latest"}]"#.to_owned(),
            condition::AMIS_READY,
            "UnsupportedAlias",
            "AL2 ends with Kubernetes 1.32; use al2023@latest",
        ),
        (
            r#""instanceProfile": "missing""#.to_owned(),
            condition::INSTANCE_PROFILE_READY,
            "InstanceProfileNotFound",
            "create it, or correct spec.instanceProfile",
        ),
        (
            r#""placementGroupSelector": {"name": "pg"}"#.to_owned(),
            condition::PLACEMENT_GROUP_READY,
            "PlacementGroupNotFound",
            "no placement group matches placementGroupSelector (name pg)",
        ),
        (
            r#""tags": {"karpenter.sh/nodepool": "mine"}"#.to_owned(),
            condition::VALIDATION_SUCCEEDED,
            "TagValidationFailed",
            "karpenter.sh/nodepool",
        ),
        (format!(r#""userData": "{large}""#), condition::VALIDATION_SUCCEEDED, "UserDataSizeLimitExceeded", "16384"),
    ];
    let cloud = cloud();
    for (change, condition, reason, text) in rows {
        let resolution = resolved(&cloud, &class(&change), &settings()).await;
        let finding = resolution.findings.iter().find(|one| one.condition == condition).unwrap();
        assert_eq!((finding.status, finding.reason), ("False", reason), "{change:.80}: {finding:?}");
        assert!(finding.message.contains(text), "{}", finding.message);
        let validation = conditions(&resolution)[condition::VALIDATION_SUCCEEDED];
        let expected = if condition == condition::VALIDATION_SUCCEEDED { reason } else { "DependenciesNotReady" };
        assert_eq!(validation, ("False", expected), "{change:.80}");
    }
}

#[tokio::test]
async fn validation_fails_when_the_cluster_cidr_is_unknown() {
    let settings = Settings { cluster_cidr: String::new(), ..settings() };
    let resolution = resolved(&cloud(), &class(""), &settings).await;
    let validation = conditions(&resolution)[condition::VALIDATION_SUCCEEDED];
    assert_eq!(validation, ("False", "ClusterCIDRResolutionFailed"));
}

#[tokio::test]
async fn resolve_keeps_other_findings_when_a_query_fails() {
    let cloud = cloud();
    cloud.fail("DescribeSubnets", 1, Fault::throttled());
    let resolution = resolved(&cloud, &class(""), &settings()).await;
    assert_eq!((resolution.errors.len(), resolution.is_ready()), (1, false));
    let conditions = conditions(&resolution);
    assert_eq!(conditions.get(condition::SUBNETS_READY), None, "what was known before stays");
    assert_eq!(conditions[condition::AMIS_READY].0, "True");
    assert_eq!(conditions[condition::VALIDATION_SUCCEEDED], ("Unknown", "DependenciesNotReady"));
}

#[tokio::test]
async fn subnet_selector_terms_are_alternatives_without_duplicates() {
    let subnet = Subnet {
        id: "subnet-0f".to_owned(),
        zone: "us-west-2d".to_owned(),
        zone_id: "usw2-az4".to_owned(),
        free_addresses: 5,
        ..Subnet::default()
    };
    let cloud = FakeCloud::builder("us-west-2").subnet(subnet).build().unwrap();
    let change = r#""subnetSelectorTerms": [{"id": "subnet-0f"}, {"tags": {"karpenter.sh/discovery": "kerf"}}, {"id": "subnet-0f"}]"#;
    let resolution = resolved(&cloud, &class(change), &settings()).await;
    assert_eq!(resolution.status_subnets().len(), 4);
    assert_eq!(resolution.class.zones()["us-west-2d"].id, "usw2-az4");
}

#[tokio::test]
async fn validation_rejects_invalid_agent_annotations() {
    let rows = [
        (json!({"kerf.sh/agent-settings": "gates: {devices: [nvidia.com/gpu]}"}), "{}", None),
        (json!({"kerf.sh/agent-settings": "gates:\n  gpus: 1"}), "{}", Some("kerf.sh/agent-settings: line 2")),
        (json!({"kerf.sh/agent-settings": ""}), r#"{"amiFamily": "Custom"}"#, Some("spec.userData")),
        (json!({"kerf.sh/agent": "enabled"}), r#"{"amiFamily": "AL2"}"#, Some("use AL2023 or Bottlerocket")),
        (json!({"kerf.sh/agent": "enabled"}), r#"{"amiFamily": "Windows2025"}"#, Some("use AL2023 or Bottlerocket")),
        (json!({"kerf.sh/agent": "enabled"}), r#"{"amiFamily": "Bottlerocket"}"#, None),
        (json!({"kerf.sh/agent-settings": "units: []"}), r#"{"amiFamily": "Bottlerocket"}"#, Some("kerf-agent.source")),
        (json!({"kerf.sh/gate-timeout": "15m"}), "{}", None),
        (json!({"kerf.sh/gate-timeout": "Never"}), "{}", None),
        (json!({"kerf.sh/gate-timeout": "0"}), "{}", Some("kerf.sh/gate-timeout: \"0\" is not a duration")),
        (json!({"kerf.sh/reboot-timeout": "20m"}), "{}", None),
        (json!({"kerf.sh/reboot-timeout": "Never"}), "{}", Some("kerf.sh/reboot-timeout: \"Never\" is not a duration")),
        (json!({"kerf.sh/gate-timeout": "soon"}), "{}", Some("kerf.sh/gate-timeout: \"soon\" is not a duration")),
    ];
    for (annotations, changes, problem) in rows {
        let mut class = class(changes.trim_start_matches('{').trim_end_matches('}'));
        class.metadata.annotations = serde_json::from_value(annotations.clone()).unwrap();
        let resolution = resolved(&cloud(), &class, &settings()).await;
        let found = resolution.findings.iter().find(|it| it.condition == condition::VALIDATION_SUCCEEDED).unwrap();
        assert_eq!(found.is_good(), problem.is_none(), "{annotations}: {found:?}");
        if let Some(problem) = problem {
            assert_eq!(found.reason, "AgentSettingsInvalid", "{annotations}");
            assert!(found.message.contains(problem), "{annotations}: {}", found.message);
        }
    }
}
