//! Data over the wire arrives as sent.

use aws::AwsCloud;
use cloud::fake::Input;
use cloud::{
    BlockDevice, Cloud, CloudError, ConnectionTracking, ErrorKind, Filter, FleetConfig, FleetOverride, FleetRequest,
    LaunchTemplateRequest, MetadataOptions, Placement, ReservationSpecification, SpotPrice, Tags,
};

use testbed::ec2wire::{Ec2Wire, Fault};

use super::{Line, fake, launchable, settings, subnets};

fn text(text: &str) -> String {
    text.to_owned()
}

/// Returns keys and values that forms and XML would break without escaping.
fn awkward_tags() -> Tags {
    [
        (text("kerf.sh/a=b&c"), text("x + y % <z> \"q\" 'r'")),
        (text("ключ"), text("värde ☂")),
        (text("empty"), String::new()),
        (text("lines"), text("one\ntwo\tthree")),
    ]
    .into()
}

#[tokio::test]
async fn instance_types_reads_every_type_in_pages() {
    let line = Line::new().await;
    let expected = line.fake.instance_types().await.unwrap();
    let seen = line.aws.instance_types().await.unwrap();
    for (seen, expected) in seen.iter().zip(&expected) {
        assert_eq!(seen, expected);
    }
    assert_eq!(seen.len(), expected.len());
    assert_eq!(line.wire.exchanges("DescribeInstanceTypes").len(), expected.len().div_ceil(100), "a hundred a page");
}

#[tokio::test]
async fn type_offerings_and_spot_prices_match_the_fake() {
    let line = Line::new().await;
    assert_eq!(line.aws.type_offerings().await.unwrap(), line.fake.type_offerings().await.unwrap());
    let sorted = |mut prices: Vec<SpotPrice>| {
        prices.sort_by(|a, b| (&a.instance_type, &a.zone).cmp(&(&b.instance_type, &b.zone)));
        prices
    };
    let expected = sorted(line.fake.spot_prices().await.unwrap());
    assert_eq!(sorted(line.aws.spot_prices().await.unwrap()), expected);
    assert!(line.wire.exchanges("DescribeSpotPriceHistory").len() > 1, "prices do not fit into one page");
}

#[tokio::test]
async fn subnets_security_groups_and_images_match_the_fake() {
    let line = Line::new().await;
    let all = Filter::default();
    assert_eq!(line.aws.subnets(&all).await.unwrap(), line.fake.subnets(&all).await.unwrap());
    assert_eq!(line.aws.security_groups(&all).await.unwrap(), line.fake.security_groups(&all).await.unwrap());
    let expected = line.fake.images(&all).await.unwrap();
    assert_eq!(line.aws.images(&all).await.unwrap(), expected);
    let amazon = Filter { owners: vec![text("amazon")], ..Filter::default() };
    assert_eq!(line.aws.images(&amazon).await.unwrap(), expected);
    let own = Filter { owners: vec![text("self")], ..Filter::default() };
    assert_eq!(line.aws.images(&own).await.unwrap(), []);
}

#[tokio::test]
async fn create_launch_template_sends_every_field() {
    let line = Line::new().await;
    let request = LaunchTemplateRequest {
        name: text("karpenter.k8s.aws/1"),
        image_id: text("ami-1"),
        instance_profile: text("nodes"),
        security_group_ids: vec![text("sg-2"), text("sg-1")],
        user_data: text("Zm9v+/8="),
        block_devices: vec![
            BlockDevice {
                device: text("/dev/xvda"),
                size_gib: Some(20),
                volume_type: Some(text("gp3")),
                encrypted: Some(true),
                iops: Some(3000),
                throughput: Some(125),
                kms_key_id: Some(text("alias/a b")),
                snapshot_id: Some(text("snap-1")),
                delete_on_termination: Some(false),
                initialization_rate: Some(300),
            },
            BlockDevice { device: text("/dev/xvdb"), ..BlockDevice::default() },
        ],
        metadata: MetadataOptions {
            http_endpoint: text("enabled"),
            http_protocol_ipv6: Some(text("enabled")),
            hop_limit: 64,
            http_tokens: text("optional"),
        },
        associate_public_ip: Some(false),
        detailed_monitoring: true,
        network_interfaces: Vec::new(),
        connection_tracking: Some(ConnectionTracking {
            tcp_established: Some(60),
            udp_stream: Some(180),
            udp: Some(30),
        }),
        placement: Placement { tenancy: Some(text("dedicated")), group_id: Some(text("pg-1")), partition: Some(7) },
        nested_virtualization: Some(true),
        enclave: true,
        capacity_reservation: Some(ReservationSpecification {
            preference: text("capacity-reservations-only"),
            id: Some(text("cr-1")),
        }),
        market_type: Some(text("capacity-block")),
        spot: true,
        tags: awkward_tags(),
    };
    let made = line.aws.create_launch_template(&request).await.unwrap();
    let log = line.fake.log();
    assert_eq!(log.last().map(|logged| &logged.input), Some(&Input::LaunchTemplate(Box::new(request))));
    assert_eq!(line.aws.launch_templates(&awkward_tags()).await.unwrap(), [made]);
}

#[tokio::test]
async fn create_fleet_sends_every_field_and_returns_instances() {
    let line = Line::out_of_time().await;
    let plain = launchable(&line.fake, "plain").await;
    let other = launchable(&line.fake, "other").await;
    let second = FleetConfig {
        overrides: vec![FleetOverride { instance_type: text("m5.xlarge"), ..other.configs[0].overrides[0].clone() }],
        ..other.configs[0].clone()
    };
    let request = FleetRequest {
        target: 2,
        capacity_type: text("spot"),
        configs: vec![plain.configs[0].clone(), second],
        tags: awkward_tags(),
        context: Some(text("a context")),
        prioritized: true,
        ..plain
    };
    let answer = line.aws.create_fleet(&request).await.unwrap();
    assert_eq!(line.fake.fleets().last(), Some(&request));
    assert_eq!(line.fake.create_fleet(&request).await.unwrap(), answer, "the fake tells the same in memory");
    let seen = line.aws.instances(&awkward_tags()).await.unwrap();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen, line.fake.instances(&awkward_tags()).await.unwrap());
}

#[tokio::test]
async fn instances_reads_every_instance_in_pages() {
    let line = Line::new().await;
    let request = FleetRequest { target: 1001, ..launchable(&line.fake, "many").await };
    assert_eq!(line.aws.create_fleet(&request).await.unwrap().instances.len(), 1001);
    assert_eq!(line.aws.instances(&request.tags).await.unwrap().len(), 1001);
    assert_eq!(line.wire.exchanges("DescribeInstances").len(), 2, "a thousand a page");
}

#[tokio::test]
async fn create_fleet_returns_the_same_error_as_the_fake() {
    let line = Line::new().await;
    let request = launchable(&line.fake, "refused").await;
    line.fake.remove_template(&request.configs[0].launch_template);
    let in_memory = line.fake.create_fleet(&request).await.unwrap_err();
    let over_the_wire: CloudError = line.aws.create_fleet(&request).await.unwrap_err();
    assert_eq!(over_the_wire, in_memory);
    assert_eq!(over_the_wire.kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn calls_without_ids_or_tags_send_no_request() {
    let line = Line::new().await;
    assert_eq!(line.aws.terminate_instances(&[]).await, Ok(()));
    assert_eq!(line.aws.create_tags(&[], &awkward_tags()).await, Ok(()));
    assert_eq!(line.aws.create_tags(&[text("i-1")], &Tags::new()).await, Ok(()));
    assert_eq!(line.wire.exchanges("").len(), 0);
}

#[tokio::test]
async fn wire_log_contains_one_line_for_each_call() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wire.log");
    let fake = fake();
    let wire = Ec2Wire::start(fake.clone(), Some(&path)).await.unwrap();
    let aws = AwsCloud::connect(&settings(&wire.url())).await;
    let request = launchable(&fake, "told").await;
    wire.order("CreateFleet", 1, Fault::throttled());
    let refused = aws.create_fleet(&request).await.is_err();
    let id = aws.create_fleet(&request).await.unwrap().instances.remove(0).id;
    let log = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = log.lines().collect();
    let asked = "CreateFleet instant, 1 on-demand, token told, 1 pools: m5.large us-west-2a -> ";
    assert!(refused && lines.len() == 2, "{log}");
    assert!(lines[0].contains(&format!("{asked}503 RequestLimitExceeded (")), "{log}");
    assert!(lines[1].contains(&format!("{asked}{id} m5.large us-west-2a (")), "{log}");
}

#[tokio::test]
async fn user_agent_contains_app_kerf() {
    let line = Line::new().await;
    subnets(&line.aws).await;
    let exchanges = line.wire.exchanges("DescribeSubnets");
    assert!(exchanges[0].user_agent.contains("app/kerf"), "{}", exchanges[0].user_agent);
}
