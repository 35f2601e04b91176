//! One contract for every implementation of `Cloud`: the fake in memory, the fake over the wire through the real SDK, and moto,
//! a foreign emulator. Further tests prove that the wire loses no data. Each fault of the wire becomes the right kind of error
//! and launches nothing twice.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed assumption should fail the test")]

#[path = "contract/fidelity.rs"]
mod fidelity;
#[path = "contract/moto.rs"]
mod moto;
#[path = "contract/rights.rs"]
mod rights;
#[path = "contract/services.rs"]
mod services;
#[path = "contract/trouble.rs"]
mod trouble;

use std::time::Duration;

use aws::{AwsCloud, Credentials, Settings};
use cloud::contract::{self, Abilities, Verdict};
use cloud::fake::{Builder, CapacityOutage, FakeCloud, IMAGE_VERSION, ManualClock};
use cloud::{Cloud, Filter, FleetConfig, FleetOverride, FleetRequest, LaunchTemplateRequest, Subnet, Tags};
use jiff::SignedDuration;
use testbed::ec2wire::Ec2Wire;

const REGION: &str = "us-west-2";
const PARAMETER: &str = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id";

/// Instance type without spot capacity in every fake here.
const DRY: &str = "m7i.large";

fn fake() -> FakeCloud {
    furnished(FakeCloud::builder(REGION))
}

fn furnished(builder: Builder) -> FakeCloud {
    let short = SignedDuration::from_millis(20);
    let cloud = builder.pending_for(short).shutting_down_for(short).long_poll_of(short).build().unwrap();
    let (capacity_type, instance_type) = (Some("spot".to_owned()), Some(DRY.to_owned()));
    cloud.start_outage(CapacityOutage { capacity_type, instance_type, zone: None });
    cloud
}

/// Returns settings for a server on loopback: fixed keys, and one attempt, so that a test sees every failure.
fn settings(url: &str) -> Settings {
    let keys = Credentials { access_key_id: "test".to_owned(), secret_access_key: "test".to_owned() };
    Settings {
        region: Some(REGION.to_owned()),
        endpoint_url: Some(url.to_owned()),
        credentials: Some(keys),
        attempts: 1,
        backoff: Duration::from_millis(10),
        ..Settings::default()
    }
}

/// Fake, its wire protocol server, and an SDK that is connected to the server.
struct Line {
    fake: FakeCloud,
    wire: Ec2Wire,
    aws: AwsCloud,
}

impl Line {
    async fn new() -> Self {
        Self::to(fake()).await
    }

    /// Creates a line to a fake whose clock does not advance.
    async fn out_of_time() -> Self {
        Self::to(furnished(FakeCloud::builder(REGION).clock(ManualClock::default()))).await
    }

    async fn to(fake: FakeCloud) -> Self {
        let wire = Ec2Wire::start(fake.clone(), None).await.unwrap();
        let aws = AwsCloud::connect(&settings(&wire.url())).await;
        Self { fake, wire, aws }
    }

    /// Creates a line with an SDK that tries `attempts` times.
    async fn with_attempts(attempts: u32) -> Self {
        let line = Self::new().await;
        let aws = AwsCloud::connect(&Settings { attempts, ..settings(&line.wire.url()) }).await;
        Self { aws, ..line }
    }
}

fn discovery() -> Tags {
    [("karpenter.sh/discovery".to_owned(), "kerf".to_owned())].into()
}

async fn subnets(cloud: &dyn Cloud) -> Vec<Subnet> {
    cloud.subnets(&Filter { tags: discovery(), ..Filter::default() }).await.unwrap()
}

/// Returns a request for a fleet of one on-demand m5.large with client token `token`, and creates its launch template.
async fn launchable(cloud: &FakeCloud, token: &str) -> FleetRequest {
    let image = cloud.images(&Filter::default()).await.unwrap().remove(0);
    let template = LaunchTemplateRequest {
        name: format!("karpenter.k8s.aws/{token}"),
        image_id: image.id.clone(),
        ..LaunchTemplateRequest::default()
    };
    cloud.create_launch_template(&template).await.unwrap();
    let subnet = subnets(cloud).await.remove(0);
    let pool = FleetOverride {
        instance_type: "m5.large".to_owned(),
        zone: subnet.zone,
        subnet_id: subnet.id,
        image_id: image.id,
        priority: 96_000,
    };
    FleetRequest {
        client_token: token.to_owned(),
        target: 1,
        capacity_type: "on-demand".to_owned(),
        configs: vec![FleetConfig { launch_template: template.name, overrides: vec![pool] }],
        tags: [("kerf.sh/case".to_owned(), token.to_owned())].into(),
        context: None,
        prioritized: true,
        ..FleetRequest::default()
    }
}

async fn abilities_of_the_fake(cloud: &FakeCloud) -> Abilities {
    let name = format!("amazon-eks-node-al2023-x86_64-standard-1.36-{IMAGE_VERSION}");
    let images = cloud.images(&Filter { names: vec![name], ..Filter::default() }).await.unwrap();
    Abilities {
        name: "kerf-contract".to_owned(),
        network_tags: discovery(),
        image_id: images[0].id.clone(),
        parameter: PARAMETER.to_owned(),
        spot_prices: true,
        fleet_priorities: true,
        fleet_tokens: true,
        exhausted_spot_type: Some(DRY.to_owned()),
        template_network: true,
    }
}

fn check_all_passed(outcomes: &[contract::Outcome]) {
    assert_eq!(contract::failures(outcomes), "");
    assert!(outcomes.iter().all(|outcome| outcome.verdict == Verdict::Passed), "the fake may skip nothing");
}

#[tokio::test]
async fn fake_passes_contract_in_memory() {
    let fake = fake();
    check_all_passed(&contract::run(&fake, &abilities_of_the_fake(&fake).await).await);
}

#[tokio::test]
async fn fake_passes_contract_over_the_wire() {
    let line = Line::new().await;
    let outcomes = contract::run(&line.aws, &abilities_of_the_fake(&line.fake).await).await;
    check_all_passed(&outcomes);
    assert!(line.fake.template_names().is_empty());
    assert!(line.fake.machines().iter().all(|machine| machine.instance.is_ending()));
}

/// The list contains every case that moto 5.2.5 cannot run, so that none counts as tested by mistake. moto has one spot price
/// for all types, always takes the first override, and has no client tokens and no capacity errors. moto uses the default
/// security group for every instance.
#[tokio::test]
async fn moto_passes_contract_except_listed_cases() {
    let moto = moto::Moto::start().await.unwrap();
    let aws = AwsCloud::connect(&settings(&moto.url())).await;
    let abilities = moto.furnish(&aws).await.unwrap();
    let outcomes = contract::run(&moto::Translated(aws), &abilities).await;
    assert_eq!(contract::failures(&outcomes), "");
    let skipped = outcomes.iter().filter(|outcome| outcome.verdict == Verdict::Skipped).map(|outcome| outcome.case);
    assert_eq!(
        skipped.collect::<Vec<_>>(),
        [
            "security groups come from the launch template",
            "the lowest priority value goes first",
            "a client token launches once",
            "a client token refuses other parameters",
            "a pool without capacity is an error beside what was launched",
            "only pools without capacity: no instance, only errors",
        ]
    );
    moto.stop().await.unwrap();
}
