//! Tests of aliases of AWS's images, and of the cache of their parameters.

use cloud::Settings;
use cloud::fake::{FakeCloud, own_image};
use cloud::nodeclass::{ImageQuery, Keep, ResolutionCache, fetch, queries};
use jiff::{SignedDuration, Timestamp};

use super::{class, resolved, settings};

const EKS: &str = "/aws/service/eks/optimized-ami";
const ROCKET: &str = "/aws/service/bottlerocket";
const WINDOWS: &str = "/aws/service/ami-windows-latest";

/// Checks that the alias on this Kubernetes version means the parameters `PREFIX/MIDDLE/image_id`.
#[track_caller]
fn stands_for(alias: &str, kubernetes: &str, kept: Keep, prefix: &str, middles: &[&str]) {
    let settings = Settings { kubernetes: kubernetes.to_owned(), ..settings() };
    let class = class(&format!(r#""amiSelectorTerms": [{{"alias": "{alias}"}}]"#));
    let asked = |query| match query {
        ImageQuery::Parameter { name, keep, .. } => Some((name, keep)),
        ImageQuery::Filter(_) => None,
    };
    let found: Vec<Option<(String, Keep)>> = queries(&class, &settings).images.into_iter().map(asked).collect();
    let expected = |middle: &&str| Some((format!("{prefix}/{middle}/image_id"), kept));
    let expected: Vec<Option<(String, Keep)>> = middles.iter().map(expected).collect();
    assert_eq!(found, expected, "{alias} on {kubernetes}");
}

#[test]
fn queries_name_the_parameters_of_amazon_linux_aliases() {
    let latest = [
        "1.32/amazon-linux-2/recommended",
        "1.32/amazon-linux-2-arm64/recommended",
        "1.32/amazon-linux-2-gpu/recommended",
    ];
    stands_for("al2@latest", "1.32", Keep::Latest, EKS, &latest);
    let pinned = [
        "1.30/amazon-linux-2/amazon-eks-node-1.30-v20250101",
        "1.30/amazon-linux-2-arm64/amazon-eks-arm64-node-1.30-v20250101",
        "1.30/amazon-linux-2-gpu/amazon-eks-gpu-node-1.30-v20250101",
    ];
    stands_for("al2@v20250101", "1.30", Keep::Pinned, EKS, &pinned);
    stands_for("al2@latest", "1.33", Keep::Latest, EKS, &[]);
    let pinned = [
        "1.36/amazon-linux-2023/x86_64/standard/amazon-eks-node-al2023-x86_64-standard-1.36-v20260101",
        "1.36/amazon-linux-2023/arm64/standard/amazon-eks-node-al2023-arm64-standard-1.36-v20260101",
        "1.36/amazon-linux-2023/x86_64/nvidia/amazon-eks-node-al2023-x86_64-nvidia-1.36-v20260101",
        "1.36/amazon-linux-2023/arm64/nvidia/amazon-eks-node-al2023-arm64-nvidia-1.36-v20260101",
        "1.36/amazon-linux-2023/x86_64/neuron/amazon-eks-node-al2023-x86_64-neuron-1.36-v20260101",
    ];
    stands_for("al2023@v20260101", "1.36", Keep::Pinned, EKS, &pinned);
}

#[test]
fn queries_name_parameters_of_bottlerocket_and_windows_aliases() {
    let middles = |minor: &str, version: &str| -> Vec<String> {
        let kinds = [("", "x86_64"), ("", "arm64"), ("-nvidia", "x86_64"), ("-nvidia", "arm64")];
        kinds.map(|(kind, arch)| format!("aws-k8s-{minor}{kind}/{arch}/{version}")).into()
    };
    for (alias, minor, kept, version) in [
        ("bottlerocket@latest", "1.36", Keep::Latest, "latest"),
        ("bottlerocket@v1.46.0", "1.35", Keep::Pinned, "1.46.0"),
        ("bottlerocket@1.46.0", "1.35", Keep::Pinned, "1.46.0"),
    ] {
        let middles = middles(minor, version);
        let middles: Vec<&str> = middles.iter().map(String::as_str).collect();
        stands_for(alias, minor, kept, ROCKET, &middles);
    }
    let name = |year: &str, minor: &str| format!("Windows_Server-{year}-English-Core-EKS_Optimized-{minor}");
    stands_for("windows2019@latest", "1.36", Keep::Latest, WINDOWS, &[&name("2019", "1.36")]);
    stands_for("windows2022@latest", "1.30", Keep::Latest, WINDOWS, &[&name("2022", "1.30")]);
    stands_for("windows2025@latest", "1.35", Keep::Latest, WINDOWS, &[&name("2025", "1.35")]);
    stands_for("windows2025@latest", "1.34", Keep::Latest, WINDOWS, &[]);
}

/// A missing variant of a release is no error, and one image may serve several variants.
#[tokio::test]
async fn resolve_succeeds_when_a_release_lacks_a_variant() {
    let base = "/aws/service/eks/optimized-ami/1.32/amazon-linux-2";
    let builder = FakeCloud::builder("us-west-2")
        .image(own_image("ami-0aaa", "plain", "x86_64", "2026-01-01T00:00:00.000Z"))
        .image(own_image("ami-0bbb", "gpu", "x86_64", "2026-01-02T00:00:00.000Z"))
        .parameter(&format!("{base}/recommended/image_id"), "ami-0aaa")
        .parameter(&format!("{base}-gpu/recommended/image_id"), "ami-0bbb");
    let settings = Settings { kubernetes: "1.32".to_owned(), ..settings() };
    let class = class(r#""amiSelectorTerms": [{"alias": "al2@latest"}]"#);
    let found = resolved(&builder.build().unwrap(), &class, &settings).await;
    let facts = cloud::data::facts().unwrap();
    for (name, image) in [
        ("m5.large", Some("ami-0aaa")),
        ("g5.xlarge", Some("ami-0bbb")),
        ("inf2.xlarge", Some("ami-0bbb")),
        ("m7g.large", None),
    ] {
        let labels = cloud::types::labels(&cloud::data::instance_types().unwrap()[name], facts, &settings);
        assert_eq!(found.class.image_for(&labels).map(|one| one.image.id.as_str()), image, "{name}");
    }
}

/// Rows: a parameter, whether its image is deprecated, and the minutes after which SSM is queried again.
#[tokio::test]
async fn resolution_cache_expires_parameters_by_kind() {
    let latest = r#""amiSelectorTerms": [{"alias": "bottlerocket@latest"}]"#;
    let pinned = r#""amiSelectorTerms": [{"alias": "bottlerocket@1.46.0"}]"#;
    let custom = r#""amiFamily": "Custom", "amiSelectorTerms": [{"ssmParameter": "/golden"}]"#;
    let rows = [
        (latest, false, 24 * 60),
        (latest, true, 30),
        (pinned, false, 24 * 60),
        (pinned, true, 24 * 60),
        (custom, false, 5),
        (custom, true, 5),
    ];
    for (change, deprecated, minutes) in rows {
        let mut image = own_image("ami-0aaa", "golden", "x86_64", "2026-01-01T00:00:00.000Z");
        image.deprecated = deprecated;
        let mut builder = FakeCloud::builder("us-west-2").image(image).parameter("/golden", "ami-0aaa");
        for (kind, arch) in [("", "x86_64"), ("", "arm64"), ("-nvidia", "x86_64"), ("-nvidia", "arm64")] {
            for version in ["latest", "1.46.0"] {
                let name = format!("/aws/service/bottlerocket/aws-k8s-1.36{kind}/{arch}/{version}/image_id");
                builder = builder.parameter(&name, "ami-0aaa");
            }
        }
        let cloud = builder.build().unwrap();
        let (questions, memory) = (queries(&class(change), &settings()), ResolutionCache::default());
        let ask = async |minute: i64| {
            let now = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minute);
            fetch(&cloud, &questions, &memory, now).await.images.unwrap();
            cloud.count("GetParameter")
        };
        let first = ask(0).await;
        assert_eq!(ask(minutes - 1).await, first, "{change} {deprecated}: still fresh");
        assert_eq!(ask(minutes).await, 2 * first, "{change} {deprecated}: asked again");
    }
}

/// FIPS images have no alias and are selected by their SSM parameters.
#[tokio::test]
async fn ssm_parameter_terms_select_fips_images() {
    let base = "/aws/service/bottlerocket/aws-k8s-1.36-fips";
    let builder = FakeCloud::builder("us-west-2")
        .image(own_image("ami-0aaa", "bottlerocket-aws-k8s-1.36-fips-x86_64", "x86_64", "2026-01-01T00:00:00.000Z"))
        .image(own_image("ami-0bbb", "bottlerocket-aws-k8s-1.36-fips-aarch64", "arm64", "2026-01-01T00:00:00.000Z"))
        .parameter(&format!("{base}/x86_64/latest/image_id"), "ami-0aaa")
        .parameter(&format!("{base}/arm64/latest/image_id"), "ami-0bbb");
    let class = class(&format!(
        r#""amiFamily": "Custom", "amiSelectorTerms": [
            {{"ssmParameter": "{base}/x86_64/latest/image_id"}}, {{"ssmParameter": "{base}/arm64/latest/image_id"}}
        ]"#
    ));
    let found = resolved(&builder.build().unwrap(), &class, &settings()).await;
    let facts = cloud::data::facts().unwrap();
    for (name, image) in [("m5.large", "ami-0aaa"), ("m7g.large", "ami-0bbb")] {
        let labels = cloud::types::labels(&cloud::data::instance_types().unwrap()[name], facts, &settings());
        assert_eq!(found.class.image_for(&labels).unwrap().image.id, image, "{name}");
    }
}
