//! Wire protocol of the services other than launches. Requests and responses arrive complete, pages are joined, and each error
//! has the kind that its callers act on.

use aws::AwsCloud;
use cloud::fake::Input;
use cloud::{
    CapacityReservation, Cloud, CloudError, ClusterDescription, ErrorKind, FleetRequest, InstanceProfileRequest,
    InstanceStatus, InterfaceKind, LaunchTemplateRequest, NetworkInterface, PlacementGroup, PlacementGroupQuery,
    ReservationFilter, RunInstancesProbe, StatusEvent, Timestamp, ZonalShift,
};
use serde_json::json;
use testbed::ec2wire::Fault;

use super::moto::Moto;
use super::{Line, discovery, launchable, settings, subnets};

fn text(text: &str) -> String {
    text.to_owned()
}

fn reservation(id: &str) -> CapacityReservation {
    CapacityReservation {
        id: text(id),
        owner: text("123456789012"),
        instance_type: text("m5.large"),
        zone: text("us-west-2a"),
        match_criteria: text("targeted"),
        capacity_block: true,
        interruptible: true,
        state: text("active"),
        total: 4,
        available: 3,
        ends: Some(text("2026-12-01T00:00:00Z")),
        tags: discovery(),
    }
}

#[tokio::test]
async fn on_demand_prices_reads_all_pages() {
    let line = Line::new().await;
    let mut seen = line.aws.on_demand_prices().await.unwrap();
    seen.sort_by(|a, b| a.instance_type.cmp(&b.instance_type));
    assert_eq!(seen, line.fake.on_demand_list());
    assert!(line.wire.exchanges("GetProducts").len() > seen.len() / 100, "a hundred a page, of two lists");
}

#[tokio::test]
async fn on_demand_prices_fails_when_list_is_incomplete() {
    let line = Line::new().await;
    for price in line.fake.on_demand_list() {
        if price.instance_type.contains(".metal") {
            line.fake.set_on_demand_price(&price.instance_type, None);
        }
    }
    let error = line.aws.on_demand_prices().await.unwrap_err();
    assert!(error.to_string().contains("bare metal"), "{error}");
}

#[tokio::test]
async fn capacity_reservations_and_placement_group_apply_filters() {
    let line = Line::new().await;
    let open = CapacityReservation { match_criteria: text("open"), ends: None, ..reservation("cr-2") };
    line.fake.set_reservation(reservation("cr-1"));
    line.fake.set_reservation(open.clone());
    line.fake.set_reservation(CapacityReservation { state: text("expired"), ..reservation("cr-3") });
    let of = |ids: &[&str], criteria: Option<&str>| ReservationFilter {
        ids: ids.iter().map(|id| text(id)).collect(),
        match_criteria: criteria.map(text),
        ..ReservationFilter::default()
    };
    let rows = [
        (of(&[], None), vec![reservation("cr-1"), open.clone()]),
        (of(&["cr-1"], None), vec![reservation("cr-1")]),
        (of(&["cr-0"], None), vec![]),
        (of(&["cr-2", "cr-0", "cr-1"], None), vec![open.clone(), reservation("cr-1")]),
        (of(&[], Some("open")), vec![open.clone()]),
        (ReservationFilter { tags: discovery(), ..of(&[], None) }, vec![reservation("cr-1"), open]),
        (ReservationFilter { owner: Some(text("1")), ..of(&[], None) }, vec![]),
    ];
    for (filter, expected) in rows {
        assert_eq!(line.aws.capacity_reservations(&filter).await.unwrap(), expected, "{filter:?}");
    }
    let group = PlacementGroup {
        id: text("pg-1"),
        name: text("near each other"),
        strategy: text("partition"),
        state: text("available"),
        partitions: 7,
    };
    line.fake.set_placement_group(group.clone());
    let by_name = PlacementGroupQuery::Name(group.name.clone());
    assert_eq!(line.aws.placement_group(&by_name).await.unwrap(), Some(group.clone()));
    let by_id = PlacementGroupQuery::Id(text("pg-1"));
    assert_eq!(line.aws.placement_group(&by_id).await.unwrap(), Some(group));
    assert_eq!(line.aws.placement_group(&PlacementGroupQuery::Id(text("pg-2"))).await.unwrap(), None);
}

#[tokio::test]
async fn create_launch_template_sends_network_interfaces() {
    let line = Line::new().await;
    let one = |card: u32, device: u32, kind: InterfaceKind| NetworkInterface {
        card,
        device,
        kind,
        ipv4_prefixes: Some(2),
        ipv6_prefixes: Some(1),
        ipv6_addresses: Some(1),
        primary_ipv6: Some(true),
        associate_public_ip: Some(false),
    };
    let request = LaunchTemplateRequest {
        name: text("karpenter.k8s.aws/nics"),
        image_id: text("ami-1"),
        security_group_ids: vec![text("sg-1")],
        network_interfaces: vec![one(0, 0, InterfaceKind::Interface), one(1, 1, InterfaceKind::Efa)],
        ..LaunchTemplateRequest::default()
    };
    line.aws.create_launch_template(&request).await.unwrap();
    let log = line.fake.log();
    assert_eq!(log.last().map(|logged| &logged.input), Some(&Input::LaunchTemplate(Box::new(request))));
}

#[tokio::test]
async fn dry_runs_launch_nothing_and_return_denials() {
    let line = Line::new().await;
    let request = FleetRequest {
        default_target_capacity_type: Some(text("reserved-capacity")),
        reserved_capacity_types: vec![text("interruptible-capacity-reservation")],
        prioritized: false,
        ..launchable(&line.fake, "asked").await
    };
    let probe = RunInstancesProbe {
        launch_template: text("karpenter.k8s.aws/asked"),
        instance_type: text("m5.large"),
        subnet_id: subnets(&line.fake).await.remove(0).id,
        tags: request.tags.clone(),
    };
    line.aws.dry_run_create_fleet(&request).await.unwrap();
    assert_eq!(line.fake.log().last().map(|logged| &logged.input), Some(&Input::Fleet(Box::new(request.clone()))));
    line.aws.dry_run_run_instances(&probe).await.unwrap();
    assert_eq!(line.fake.log().last().map(|logged| &logged.input), Some(&Input::Probe(probe.clone())));
    line.wire.order("CreateFleet(DryRun)", 1, Fault::unauthorized());
    line.wire.order("RunInstances(DryRun)", 1, Fault::throttled());
    let denied = line.aws.dry_run_create_fleet(&request).await.unwrap_err();
    assert_eq!((denied.kind, denied.call), (ErrorKind::Unauthorized, "CreateFleet(DryRun)"));
    assert_eq!(line.aws.dry_run_run_instances(&probe).await.unwrap_err().kind, ErrorKind::Throttled, "tried once");
    assert!(line.fake.machines().is_empty());
}

#[tokio::test]
async fn instance_statuses_returns_impaired_instances_and_events() {
    let line = Line::new().await;
    let request = FleetRequest { target: 3, ..launchable(&line.fake, "ill").await };
    let ids: Vec<_> = line.fake.create_fleet(&request).await.unwrap().instances.into_iter().map(|one| one.id).collect();
    let all_run = async || {
        line.fake.tick();
        Ok(line.fake.machines().iter().all(|it| it.instance.state == "running").then_some(()))
    };
    testbed::eventually("three running instances", std::time::Duration::from_secs(120), all_run).await.unwrap();
    let event = StatusEvent {
        code: text("instance-retirement"),
        description: text("going"),
        not_before: Some(text("2026-12-01T00:00:00Z")),
    };
    let well = InstanceStatus::default();
    let since = Some(text("2026-11-01T10:00:00Z"));
    line.fake.set_status(InstanceStatus {
        instance: ids[0].clone(),
        instance_impaired_since: since.clone(),
        events: vec![event],
        ..well.clone()
    });
    line.fake.set_status(InstanceStatus { instance: ids[1].clone(), system_impaired_since: since, ..well });
    let seen = line.aws.instance_statuses().await.unwrap();
    assert_eq!(seen, line.fake.instance_statuses().await.unwrap());
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert_eq!(line.wire.exchanges("DescribeInstanceStatus").len(), 3, "a question a reason");
}

/// Returns kind and code of a call that must fail.
fn refusal<T: std::fmt::Debug>(answer: Result<T, CloudError>) -> (ErrorKind, String) {
    let error = answer.unwrap_err();
    (error.kind, error.code)
}

/// Creates, reads and deletes an instance profile. The roles must exist. With `by_moto` the function skips the calls that moto
/// 5.2.5 cannot answer (see [`MOTO_LACKS`]).
async fn instance_profile_has_a_lifecycle(cloud: &AwsCloud, role: &str, other: &str, by_moto: bool) {
    let request =
        InstanceProfileRequest { name: text("kerf_1"), path: text("/karpenter/us-west-2/kerf/u/"), tags: discovery() };
    assert_eq!(cloud.instance_profile("kerf_1").await.unwrap(), None);
    cloud.create_instance_profile(&request).await.unwrap();
    assert_eq!(
        refusal(cloud.create_instance_profile(&request).await),
        (ErrorKind::AlreadyExists, text("EntityAlreadyExists"))
    );
    let missing = cloud.add_role_to_instance_profile("kerf_1", "nobody").await.unwrap_err();
    assert_eq!(missing.kind, ErrorKind::NotFound);
    assert!(missing.message.to_lowercase().contains("role"), "{missing}");
    cloud.add_role_to_instance_profile("kerf_1", role).await.unwrap();
    assert_eq!(
        refusal(cloud.add_role_to_instance_profile("kerf_1", other).await),
        (ErrorKind::Invalid, text("LimitExceeded"))
    );
    let seen = cloud.instance_profile("kerf_1").await.unwrap().unwrap();
    assert_eq!((&seen.path, seen.roles.as_slice(), &seen.tags), (&request.path, &[text(role)][..], &request.tags));
    let listed = cloud.instance_profiles("/karpenter/us-west-2/kerf/").await.unwrap();
    assert_eq!(listed.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["kerf_1"]);
    if !by_moto {
        assert_eq!(cloud.instance_profiles("/karpenter/us-west-2/other/").await.unwrap(), []);
    }
    assert_eq!(refusal(cloud.delete_instance_profile("kerf_1").await), (ErrorKind::Invalid, text("DeleteConflict")));
    cloud.remove_role_from_instance_profile("kerf_1", role).await.unwrap();
    if !by_moto {
        assert_eq!(refusal(cloud.remove_role_from_instance_profile("kerf_1", role).await).0, ErrorKind::NotFound);
    }
    cloud.delete_instance_profile("kerf_1").await.unwrap();
    assert_eq!(refusal(cloud.delete_instance_profile("kerf_1").await), (ErrorKind::NotFound, text("NoSuchEntity")));
}

#[tokio::test]
async fn instance_profile_calls_match_iam_on_the_fake() {
    let line = Line::new().await;
    line.fake.add_role("other");
    instance_profile_has_a_lifecycle(&line.aws, "KarpenterNodeRole-kerf", "other", false).await;
}

/// Calls that moto 5.2.5 does not support, by Kerf's names. [`moto_supports_iam_sqs_and_eks_except_listed_calls`] checks the
/// list against moto, so that a newer moto shortens the list.
const MOTO_LACKS: [&str; 3] = [
    "on_demand_prices: there is no price list",
    "instance_profiles: it lists those of other paths, too",
    "remove_role_from_instance_profile: a role that is not in the profile is an internal error",
];

#[tokio::test]
async fn moto_supports_iam_sqs_and_eks_except_listed_calls() {
    let moto = Moto::start().await.unwrap();
    let cloud = AwsCloud::connect(&settings(&moto.url())).await;
    for role in ["nodes", "other"] {
        moto.create_role(role).await.unwrap();
    }
    instance_profile_has_a_lifecycle(&cloud, "nodes", "other", true).await;
    assert_eq!(cloud.queue_url("kerf").await.unwrap_err().kind, ErrorKind::NotFound);
    moto.sqs("CreateQueue", json!({"QueueName": "kerf"})).await.unwrap();
    let url = cloud.queue_url("kerf").await.unwrap();
    for number in 0..12 {
        let message = json!({"QueueUrl": url, "MessageBody": format!("<{number}> & \"more\"")});
        moto.sqs("SendMessage", message).await.unwrap();
    }
    twelve_messages_go(&cloud, &url).await;
    moto.sqs("DeleteQueue", json!({"QueueUrl": url})).await.unwrap();
    assert_eq!(cloud.receive_messages(&url).await.unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(cloud.cluster("kerf").await.unwrap_err().kind, ErrorKind::NotFound);
    moto.create_cluster("kerf", "10.100.0.0/16").await.unwrap();
    let cluster = cloud.cluster("kerf").await.unwrap();
    assert_eq!(cluster.service_cidr, "10.100.0.0/16");
    assert!(cluster.endpoint.starts_with("https://") && !cluster.ca.is_empty(), "{cluster:?}");
    assert!(cluster.version.starts_with("1."), "{cluster:?}");

    let request = InstanceProfileRequest { name: text("p"), path: text("/a/"), ..InstanceProfileRequest::default() };
    cloud.create_instance_profile(&request).await.unwrap();
    let lacks = [
        cloud.on_demand_prices().await.is_err(),
        !cloud.instance_profiles("/b/").await.unwrap().is_empty(),
        cloud.remove_role_from_instance_profile("p", "nodes").await.unwrap_err().kind == ErrorKind::Server,
    ];
    for (what, lacks) in MOTO_LACKS.iter().zip(lacks) {
        assert!(lacks, "moto can do this now: {what}");
    }
    moto.stop().await.unwrap();
}

#[tokio::test]
async fn instance_profiles_reads_all_pages() {
    let line = Line::new().await;
    for number in 0..1001 {
        let request = InstanceProfileRequest { name: format!("p{number}"), path: text("/kerf/"), ..Default::default() };
        line.fake.create_instance_profile(&request).await.unwrap();
    }
    assert_eq!(line.aws.instance_profiles("/kerf/").await.unwrap().len(), 1001);
    assert_eq!(line.wire.exchanges("ListInstanceProfiles").len(), 2);
}

#[tokio::test]
async fn cluster_returns_description_or_not_found() {
    let line = Line::new().await;
    assert_eq!(line.aws.cluster("kerf").await.unwrap(), line.fake.cluster("kerf").await.unwrap());
    let six = ClusterDescription { service_cidr: text("fd30::/108"), ..line.fake.cluster("kerf").await.unwrap() };
    line.fake.set_cluster("six", six.clone());
    assert_eq!(line.aws.cluster("six").await.unwrap(), six);
    assert_eq!(line.aws.cluster("none").await.unwrap_err().kind, ErrorKind::NotFound);
}

/// Shifts of people and of AWS, applied or not, and clusters for which ARC has no entry.
#[tokio::test]
async fn zonal_shifts_returns_shifts_and_autoshifts() {
    let line = Line::new().await;
    let arn = line.aws.cluster("kerf").await.unwrap().arn;
    assert_eq!(arn, "arn:aws:eks:us-west-2:123456789012:cluster/kerf");
    assert_eq!(line.aws.zonal_shifts(&arn).await.unwrap(), []);
    let shift = |zone: &str, expires: Option<i64>, applied| ZonalShift {
        zone_id: text(zone),
        expires: expires.map(|second| Timestamp::from_second(second).unwrap()),
        applied,
    };
    let shifts = vec![
        shift("usw2-az1", Some(4_000_000_000), true),
        shift("usw2-az2", Some(4_000_000_000), false),
        shift("usw2-az3", None, true),
        shift("usw2-az4", None, false),
    ];
    line.fake.set_zonal_shifts("kerf", Some(shifts.clone()));
    assert_eq!(line.aws.zonal_shifts(&arn).await.unwrap(), shifts);
    line.fake.set_zonal_shifts("kerf", None);
    assert_eq!(line.aws.zonal_shifts(&arn).await.unwrap_err().kind, ErrorKind::NotFound);
    line.wire.order("GetManagedResource", 1, Fault::unauthorized());
    assert_eq!(line.aws.zonal_shifts(&arn).await.unwrap_err().kind, ErrorKind::Unauthorized);
}

/// Receives twelve messages, ten at once and then two, and deletes them. The call also reports an invalid receipt.
async fn twelve_messages_go(cloud: &AwsCloud, url: &str) {
    let first = cloud.receive_messages(url).await.unwrap();
    let second = cloud.receive_messages(url).await.unwrap();
    assert_eq!((first.len(), second.len()), (10, 2));
    assert_eq!(first[0].body, "<0> & \"more\"");
    assert!(first.iter().all(|message| message.sent.is_some() && !message.id.is_empty()));
    let mut receipts: Vec<_> = first.iter().chain(&second).map(|message| message.receipt.clone()).collect();
    receipts.push(text("made up"));
    assert_eq!(cloud.delete_messages(url, &receipts).await.unwrap(), ["made up"]);
}

#[tokio::test]
async fn queue_calls_receive_and_delete_messages() {
    let line = Line::new().await;
    assert_eq!(line.aws.queue_url("kerf").await.unwrap_err().kind, ErrorKind::NotFound);
    line.fake.create_queue("kerf");
    let url = line.aws.queue_url("kerf").await.unwrap();
    assert_eq!(line.aws.receive_messages(&url).await.unwrap(), []);
    for number in 0..12 {
        assert!(line.fake.send("kerf", &format!("<{number}> & \"more\"")));
    }
    twelve_messages_go(&line.aws, &url).await;
    assert_eq!(line.fake.queue_length("kerf"), 0);
    assert_eq!(line.wire.exchanges("DeleteMessageBatch").len(), 2, "ten a call");
    line.fake.remove_queue("kerf");
    assert_eq!(line.aws.receive_messages(&url).await.unwrap_err().kind, ErrorKind::NotFound);
}
