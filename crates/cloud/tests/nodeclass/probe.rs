//! Tests of launch probes: denied calls become conditions, and calls without a definite answer are retried.

use api::condition;
use cloud::fake::{FakeCloud, Fault, Input, karpenter_policies};
use cloud::launch::{InFlight, LaunchOffer, LaunchProbe, LaunchRequest, PermittedTags, probe, try_out};
use cloud::nodeclass::{Resolution, ResolutionCache, fetch, queries, resolve};
use cloud::requirements as requirements_of;
use cloud::types::{ClassSettings, OfferingSource, Source, add_placement, catalogue};
use cloud::unavailable_offerings::UnavailableOfferings;
use cloud::{ErrorKind, PlacementGroup, data};
use jiff::Timestamp;
use serde_json::json;

use super::{class, cloud, settings};

const TEMPLATE: &str = "CreateLaunchTemplate";
const FLEET: &str = "CreateFleet(DryRun)";
const RUN: &str = "RunInstances(DryRun)";

async fn resolution(cloud: &FakeCloud) -> Resolution {
    let (class, settings, now) = (class(""), settings(), Timestamp::UNIX_EPOCH);
    let answers = fetch(cloud, &queries(&class, &settings), &ResolutionCache::default(), now).await;
    resolve(&class, answers, &settings, now)
}

/// Returns the probe of the EC2NodeClass for these NodePools, with a catalogue of these types only.
fn probe_of(resolution: &Resolution, pools: &[LaunchRequest], sold: &[&str]) -> Option<LaunchProbe> {
    let facts = data::facts().unwrap();
    let all = data::instance_types().unwrap();
    let infos: Vec<_> = sold.iter().map(|name| all[*name].clone()).collect();
    let mut market = OfferingSource::new(facts.on_demand.clone());
    market.set_offerings(data::type_offerings("us-west-2").unwrap());
    let (shortages, settings) = (UnavailableOfferings::default(), settings());
    let source =
        Source { infos: &infos, facts, offerings: &market, shortages: &shortages, images: &resolution.class.images };
    let of_class = ClassSettings::new(&class(""), resolution.class.zones()).unwrap();
    let mut catalogue = catalogue(&source, &of_class, &settings, Timestamp::UNIX_EPOCH);
    add_placement(&mut catalogue, &resolution.class);
    let offer = LaunchOffer {
        class: &resolution.class,
        catalogue: &catalogue,
        shortages: &shortages,
        in_flight: &InFlight::default(),
        settings: &settings,
        now: Timestamp::UNIX_EPOCH,
    };
    probe(pools, &offer)
}

fn pool(zone: &str) -> LaunchRequest {
    let zone = api::Requirement::new(api::label::ZONE, api::Operator::In, [zone]);
    LaunchRequest { pool: "blue".to_owned(), requirements: requirements_of(&[zone]), ..LaunchRequest::default() }
}

#[tokio::test]
async fn probe_launches_nothing_and_names_the_pool() {
    let cloud = cloud();
    let resolution = resolution(&cloud).await;
    assert!(resolution.is_ready(), "{:?}", resolution.findings);
    let probe = probe_of(&resolution, &[pool("nowhere"), pool("us-west-2b")], &["m5.large", "g5.xlarge"]).unwrap();
    assert_eq!(try_out(&cloud, &probe).await, Ok(PermittedTags::All));
    assert_eq!(try_out(&cloud, &probe).await, Ok(PermittedTags::All), "the launch template is there already");
    assert!(cloud.machines().is_empty() && cloud.count("CreateFleet") == 0);
    assert_eq!(cloud.template_names().len(), 1);
    let text = format!("{probe:?}");
    assert!(text.contains("\"karpenter.sh/nodepool\": \"blue\""), "a policy may ask for the tag: {text}");
    assert!(text.contains("us-west-2b") && text.contains("m5.large") && !text.contains("g5.xlarge"), "{text}");
    assert!(probe_of(&resolution, &[], &["m5.large"]).is_some(), "a class without pools is tried out too");
    assert_eq!(probe_of(&resolution, &[], &[]), None, "nothing is for sale");
}

/// Rows: the failing calls with their faults, the condition reason (`None` for a retry), and a part of the message.
#[tokio::test]
async fn launch_failed_reports_denied_calls_with_a_hint() {
    let limit = "User data is limited to 16384 bytes";
    let large = || Fault::error(ErrorKind::Invalid, "InvalidUserData.Malformed", limit);
    let malformed =
        || Fault::error(ErrorKind::Invalid, "InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.");
    let profile = || Fault::error(ErrorKind::Invalid, "InvalidParameterValue", "Invalid IAM Instance Profile name");
    let no = Fault::unauthorized;
    type Row = (&'static str, Vec<(&'static str, u64, Fault)>, Option<&'static str>, &'static str);
    let rows: Vec<Row> = vec![
        (
            "templates",
            vec![(TEMPLATE, 1, no())],
            Some("CreateLaunchTemplateAuthCheckFailed"),
            "create launch templates for class default",
        ),
        (
            "fleets",
            vec![(FLEET, 1, no()), (FLEET, 2, no())],
            Some("CreateFleetAuthCheckFailed"),
            "service control policy",
        ),
        (
            "every subnet",
            (1..=6).map(|nth| (RUN, nth, no())).collect(),
            Some("RunInstancesAuthCheckFailed"),
            "IAM policy",
        ),
        (
            "the first subnet decides",
            [(RUN, 1, no())].into_iter().chain((2..=6).map(|nth| (RUN, nth, Fault::server()))).collect(),
            Some("RunInstancesAuthCheckFailed"),
            "",
        ),
        (
            "too much user data",
            vec![(TEMPLATE, 1, large())],
            Some("UserDataSizeLimitExceeded"),
            "shorten spec.userData",
        ),
        ("other user data", vec![(TEMPLATE, 1, malformed())], None, ""),
        (
            "a profile that EC2 does not see yet",
            vec![(RUN, 1, profile()), (RUN, 2, profile()), (RUN, 3, profile())],
            None,
            "",
        ),
        ("throttled", vec![(FLEET, 1, Fault::throttled())], None, ""),
        ("a server's fault", vec![(TEMPLATE, 1, Fault::server())], None, ""),
    ];
    for (what, faults, reason, part) in rows {
        let cloud = cloud();
        let mut resolution = resolution(&cloud).await;
        let probe = probe_of(&resolution, &[], &["m5.large"]).unwrap();
        for (call, nth, fault) in faults {
            cloud.fail(call, nth, fault);
        }
        let failed = try_out(&cloud, &probe).await.unwrap_err();
        failed.record(&mut resolution);
        let found = resolution.findings.iter().find(|one| one.condition == condition::VALIDATION_SUCCEEDED);
        assert_eq!(found.map(|one| one.reason), reason, "{what}");
        assert!(found.is_none_or(|one| one.message.contains(part)), "{what}: {found:?}");
        assert_eq!((resolution.errors.is_empty(), resolution.is_ready()), (reason.is_some(), false), "{what}");
    }
}

#[tokio::test]
async fn try_out_succeeds_when_one_subnet_works() {
    let cloud = cloud();
    let resolution = resolution(&cloud).await;
    let probe = probe_of(&resolution, &[], &["m5.large"]).unwrap();
    cloud.fail(RUN, 1, Fault::server());
    assert_eq!(try_out(&cloud, &probe).await, Ok(PermittedTags::All));
    assert_eq!(cloud.count(RUN), 2);
}

/// A changed annotation, instance profile or subnet requires a new probe; the order of subnets does not.
#[tokio::test]
async fn fingerprint_changes_when_a_launch_input_changes() {
    let first = resolution(&cloud()).await;
    let print = first.fingerprint(&class(""));
    let mut turned = first.clone();
    turned.class.subnets.reverse();
    assert_eq!(turned.fingerprint(&class("")), print);
    turned.class.subnets.pop();
    assert_ne!(turned.fingerprint(&class("")), print);
    let mut annotated = class("");
    annotated.metadata.annotations = Some([("try".to_owned(), "again".to_owned())].into());
    assert_ne!(first.fingerprint(&annotated), print);
    assert_ne!(first.fingerprint(&class(r#""userData": "x""#)), print);
}

/// Rows: the placement group, the requested partitions, and the placement of the launch.
#[tokio::test]
async fn probe_uses_the_placement_group_of_the_class() {
    let mut resolution = resolution(&cloud()).await;
    let group = |strategy: &str, partitions| PlacementGroup {
        id: "pg-1".to_owned(),
        name: "a".to_owned(),
        strategy: strategy.to_owned(),
        state: "available".to_owned(),
        partitions,
    };
    let asks = |partitions: &[&str]| {
        let key = api::label::PLACEMENT_GROUP_PARTITION;
        let one = api::Requirement::new(key, api::Operator::In, partitions.iter().copied());
        let requirements = if partitions.is_empty() { Vec::new() } else { vec![one] };
        LaunchRequest {
            pool: "blue".to_owned(),
            requirements: requirements_of(&requirements),
            ..LaunchRequest::default()
        }
    };
    let rows = [
        (None, vec![], "group_id: None, partition: None"),
        (Some(group("cluster", 0)), vec![], "group_id: Some(\"pg-1\"), partition: None"),
        (Some(group("partition", 3)), vec![], "group_id: Some(\"pg-1\"), partition: None"),
        (Some(group("partition", 3)), vec!["3", "2"], "group_id: Some(\"pg-1\"), partition: Some(2)"),
    ];
    for (group, partitions, expected) in rows {
        resolution.class.placement_group = group;
        let probe = probe_of(&resolution, &[asks(&partitions)], &["m5.large"]).unwrap();
        let text = format!("{probe:?}");
        assert!(text.contains(expected) && text.contains("\"blue\""), "{partitions:?}: {text}");
    }
}

/// Policies with rules for tags may deny a launch only because of the tags that Karpenter does not write.
#[tokio::test]
async fn try_out_omits_own_tags_when_policies_deny_them() {
    let mut policies = karpenter_policies("kerf", "us-west-2", "kerf");
    let denial = json!({"Statement": {
        "Effect": "Deny", "Action": ["ec2:CreateFleet", "ec2:RunInstances", "ec2:CreateTags"], "Resource": "*",
        "Condition": {"ForAnyValue:StringLike": {"aws:TagKeys": "kerf.sh/*"}},
    }});
    let cloud = cloud();
    let resolution = resolution(&cloud).await;
    let probe = probe_of(&resolution, &[], &["m5.large"]).unwrap();
    cloud.set_policies(Some(policies.clone()));
    assert_eq!(try_out(&cloud, &probe).await, Ok(PermittedTags::All));
    policies.add(&denial).unwrap();
    cloud.set_policies(Some(policies));
    assert_eq!(try_out(&cloud, &probe).await, Ok(PermittedTags::WithoutOwn));
    let log = cloud.log();
    let Some(Input::Probe(run)) = log.last().map(|logged| &logged.input) else { panic!("{log:?}") };
    assert!(run.tags.contains_key(api::label::NODEPOOL), "{:?}", run.tags);
    let own = cloud::tags::OWN_LAUNCH_TAGS;
    assert!(own.iter().all(|key| !run.tags.contains_key(*key)), "{:?}", run.tags);
}
