//! Tests of the fake: it must behave like EC2 where Kerf depends on EC2, because the other tests rely on it.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use cloud::contract::{self, Abilities, Verdict};
use cloud::fake::{CapacityOutage, FakeCloud, Fault, IMAGE_VERSION, ManualClock, Pool};
use cloud::{
    CapacityReservation, Cloud, ErrorKind, Filter, FleetConfig, FleetOverride, FleetRequest, InstanceProfileRequest,
    LaunchTemplateRequest, ReservationSpecification, Tags,
};
use jiff::SignedDuration;

fn seconds(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

fn discovery() -> Tags {
    [("karpenter.sh/discovery".to_owned(), "kerf".to_owned())].into()
}

fn cloud() -> (FakeCloud, ManualClock) {
    let clock = ManualClock::default();
    let cloud =
        FakeCloud::builder("us-west-2").clock(clock.clone()).pending_for(seconds(10)).shutting_down_for(seconds(5));
    (cloud.build().unwrap(), clock)
}

async fn with_template(cloud: &FakeCloud) -> Vec<cloud::Subnet> {
    let images = cloud.images(&Filter::default()).await.unwrap();
    let request = LaunchTemplateRequest {
        name: "karpenter.k8s.aws/1".to_owned(),
        image_id: images[0].id.clone(),
        ..LaunchTemplateRequest::default()
    };
    cloud.create_launch_template(&request).await.unwrap();
    cloud.subnets(&Filter { tags: discovery(), ..Filter::default() }).await.unwrap()
}

fn fleet(token: &str, target: u32, pools: &[(&str, &cloud::Subnet, i64)]) -> FleetRequest {
    let overrides = pools.iter().map(|(instance_type, subnet, priority)| FleetOverride {
        instance_type: (*instance_type).to_owned(),
        zone: subnet.zone.clone(),
        subnet_id: subnet.id.clone(),
        image_id: String::new(),
        priority: *priority,
    });
    FleetRequest {
        client_token: token.to_owned(),
        target,
        capacity_type: "spot".to_owned(),
        configs: vec![FleetConfig {
            launch_template: "karpenter.k8s.aws/1".to_owned(),
            overrides: overrides.collect(),
        }],
        tags: [("case".to_owned(), token.to_owned())].into(),
        ..FleetRequest::default()
    }
}

/// Returns how many instances with this id EC2 describes.
async fn known(cloud: &FakeCloud, id: &str) -> usize {
    cloud.instances_by_id(&[id.to_owned()]).await.unwrap().len()
}

#[tokio::test]
async fn fake_cloud_passes_every_case_of_the_contract() {
    let cloud = FakeCloud::builder("us-west-2").pending_for(SignedDuration::from_millis(20)).build().unwrap();
    cloud.start_outage(CapacityOutage {
        capacity_type: Some("spot".to_owned()),
        instance_type: Some("m7i.large".to_owned()),
        zone: None,
    });
    let images = cloud.images(&Filter::default()).await.unwrap();
    let name = format!("amazon-eks-node-al2023-x86_64-standard-1.36-{IMAGE_VERSION}");
    let abilities = Abilities {
        name: "kerf-contract".to_owned(),
        network_tags: discovery(),
        image_id: images.into_iter().find(|image| image.name == name).unwrap().id,
        parameter: "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id"
            .to_owned(),
        spot_prices: true,
        fleet_priorities: true,
        fleet_tokens: true,
        exhausted_spot_type: Some("m7i.large".to_owned()),
        template_network: true,
    };
    let outcomes = contract::run(&cloud, &abilities).await;
    assert_eq!(contract::failures(&outcomes), "");
    assert!(outcomes.iter().all(|outcome| outcome.verdict == Verdict::Passed), "nothing may be skipped here");
    assert!(cloud.template_names().is_empty() && cloud.machines().iter().all(|machine| machine.instance.is_ending()));
}

#[tokio::test]
async fn instance_changes_state_with_the_clock() {
    let (cloud, clock) = cloud();
    let subnets = with_template(&cloud).await;
    let free = subnets[0].free_addresses;
    let answer = cloud.create_fleet(&fleet("t", 1, &[("m5.large", &subnets[0], 1)])).await.unwrap();
    let id = answer.instances[0].id.clone();
    let state = || cloud.machine(&id).map(|machine| machine.instance.state);
    assert_eq!(state().as_deref(), Some("pending"));
    assert_eq!(cloud.subnet(&subnets[0].id).unwrap().free_addresses, free - 1);
    clock.advance(seconds(10));
    assert_eq!(state().as_deref(), Some("running"));
    assert!(cloud.interrupt(&id, cloud.now().checked_add(seconds(120)).unwrap()));
    assert_eq!(cloud.next_change(), cloud.now().checked_add(seconds(120)).ok());
    clock.advance(seconds(119));
    assert_eq!(state().as_deref(), Some("running"));
    clock.advance(seconds(1));
    assert_eq!(state().as_deref(), Some("shutting-down"));
    assert_eq!(cloud.subnet(&subnets[0].id).unwrap().free_addresses, free);
    clock.advance(seconds(5));
    assert_eq!(state().as_deref(), Some("terminated"));
    assert_eq!(cloud.instances(&Tags::new()).await.unwrap(), []);
    assert_eq!(known(&cloud, &id).await, 1, "EC2 remembers a terminated instance for a while");
    clock.advance(seconds(3601));
    assert_eq!(known(&cloud, &id).await, 0);
}

#[tokio::test]
async fn pool_is_exhausted_at_its_limit_and_refills() {
    let (cloud, _) = cloud();
    let subnets = with_template(&cloud).await;
    cloud.set_stock(Pool::new("spot", "m5.large", &subnets[0].zone), Some(2));
    cloud.set_free_addresses(&subnets[1].id, 0);
    let pools = [("m5.large", &subnets[0], 1), ("m5.large", &subnets[1], 2), ("m5.large", &subnets[2], 3)];
    let answer = cloud.create_fleet(&fleet("a", 3, &pools)).await.unwrap();
    let zones: Vec<_> = answer.instances.iter().map(|one| one.zone.clone()).collect();
    assert_eq!(zones, [subnets[0].zone.clone(), subnets[0].zone.clone(), subnets[2].zone.clone()]);
    let codes: Vec<_> = answer.errors.iter().map(|error| error.code.as_str()).collect();
    assert_eq!(codes, ["InsufficientFreeAddressesInSubnet"]);
    let answer = cloud.create_fleet(&fleet("b", 1, &pools[..1])).await.unwrap();
    assert_eq!((answer.instances.len(), answer.errors[0].code.as_str()), (0, "InsufficientInstanceCapacity"));
    let first = cloud.machines()[0].instance.id.clone();
    let ours = cloud.machines().into_iter().find(|machine| machine.instance.zone == subnets[0].zone).unwrap();
    assert!(cloud.kill(&ours.instance.id) && !cloud.kill(&ours.instance.id), "{first}");
    let answer = cloud.create_fleet(&fleet("c", 1, &pools[..1])).await.unwrap();
    assert_eq!(answer.instances.len(), 1, "what ended gives its place back");
}

#[tokio::test]
async fn fail_applies_each_fault_to_its_call() {
    let (cloud, _) = cloud();
    let subnets = with_template(&cloud).await;
    let request = fleet("t", 1, &[("m5.large", &subnets[0], 1)]);
    cloud.fail("CreateFleet", 1, Fault::Dropped);
    cloud.fail("CreateFleet", 2, Fault::throttled());
    cloud.fail("CreateFleet", 3, Fault::Lost);
    let dropped = cloud.create_fleet(&request).await.unwrap_err();
    assert!(dropped.outcome_unknown() && cloud.machines().is_empty());
    assert_eq!(cloud.create_fleet(&request).await.unwrap_err().kind, ErrorKind::Throttled);
    assert!(cloud.create_fleet(&request).await.unwrap_err().outcome_unknown());
    assert_eq!(cloud.machines().len(), 1, "a lost answer is not a lost launch");
    let again = cloud.create_fleet(&request).await.unwrap();
    assert_eq!((again.instances.len(), cloud.machines().len(), cloud.faults_waiting()), (1, 1, 0));
    assert_eq!((cloud.count("CreateFleet"), cloud.fleets().len()), (4, 4));
}

#[tokio::test]
async fn describe_instances_omits_new_instances_when_invisible() {
    let clock = ManualClock::default();
    let cloud = FakeCloud::builder("us-west-2").clock(clock.clone()).invisible_for(seconds(2)).build().unwrap();
    let subnets = with_template(&cloud).await;
    let answer = cloud.create_fleet(&fleet("t", 1, &[("m5.large", &subnets[0], 1)])).await.unwrap();
    assert_eq!(cloud.instances(&Tags::new()).await.unwrap(), []);
    assert_eq!(known(&cloud, &answer.instances[0].id).await, 0);
    clock.advance(seconds(2));
    assert_eq!(cloud.instances(&Tags::new()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn fake_cloud_is_equal_when_the_seed_is_equal() {
    let once = async |seed| {
        let cloud = FakeCloud::builder("us-west-2").clock(ManualClock::default()).seed(seed).build().unwrap();
        let subnets = with_template(&cloud).await;
        let answer = cloud.create_fleet(&fleet("t", 3, &[("m5.large", &subnets[0], 1)])).await.unwrap();
        (answer, cloud.spot_prices().await.unwrap())
    };
    let (first, second, other) = (once(7).await, once(7).await, once(8).await);
    assert_eq!(first, second);
    assert!(first.0 != other.0 && first.1 != other.1);
}

#[tokio::test]
async fn changes_notifies_of_every_state_change() {
    let (cloud, clock) = cloud();
    let subnets = with_template(&cloud).await;
    let mut changes = cloud.changes();
    let mut changed = |what: &str| {
        assert!(changes.has_changed(), "{what}");
        changes.mark_unchanged();
    };
    let answer = cloud.create_fleet(&fleet("t", 1, &[("m5.large", &subnets[0], 1)])).await.unwrap();
    changed("launch");
    clock.advance(seconds(10));
    cloud.tick();
    changed("running");
    assert!(cloud.recommend_rebalance(&answer.instances[0].id));
    changed("rebalance");
    cloud.terminate_instances(&[answer.instances[0].id.clone()]).await.unwrap();
    changed("shutting down");
    clock.advance(seconds(5));
    cloud.tick();
    changed("terminated");
    assert!(!cloud.interrupt(&answer.instances[0].id, cloud.now()), "too late");
}

/// Runs random walks of 1,000 steps with five seeds, and checks invariants after each step.
#[tokio::test]
async fn fleet_never_exceeds_addresses_and_capacity_in_random_walk() {
    for seed in 1..=5u64 {
        walk(seed).await;
    }
}

async fn walk(seed: u64) {
    const STOCK: u32 = 3;
    let (cloud, clock) = cloud();
    let subnets = with_template(&cloud).await;
    let types = ["m5.large", "c5.large"];
    for subnet in &subnets {
        cloud.set_free_addresses(&subnet.id, 4);
        for name in types {
            cloud.set_stock(Pool::new("spot", name, &subnet.zone), Some(STOCK));
        }
    }
    let mut rng = seed;
    for step in 0..1000 {
        rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let draw = usize::try_from(rng >> 40).unwrap();
        let alive: Vec<_> = cloud.machines().into_iter().filter(|machine| !machine.instance.is_ending()).collect();
        match draw % 5 {
            0 | 1 => {
                let pools: Vec<_> = subnets.iter().map(|subnet| (types[draw / 5 % 2], subnet, 1)).collect();
                let target = u32::try_from(draw / 10 % 4 + 1).unwrap();
                let answer = cloud.create_fleet(&fleet(&format!("t{step}"), target, &pools)).await.unwrap();
                let got = u32::try_from(answer.instances.len()).unwrap();
                assert!(got <= target, "{answer:?}");
            }
            2 => clock.advance(seconds(i64::try_from(draw / 5 % 20).unwrap())),
            3 if !alive.is_empty() => {
                let id = alive[draw / 5 % alive.len()].instance.id.clone();
                cloud.terminate_instances(&[id]).await.unwrap();
            }
            _ if !alive.is_empty() => {
                let deadline = cloud.now().checked_add(seconds(7)).unwrap();
                assert!(cloud.interrupt(&alive[draw / 5 % alive.len()].instance.id, deadline));
            }
            _ => {}
        }
        let alive: Vec<_> = cloud.machines().into_iter().filter(|machine| !machine.instance.is_ending()).collect();
        for subnet in &subnets {
            let here = alive.iter().filter(|machine| machine.instance.subnet_id == subnet.id);
            let used = u32::try_from(here.clone().count()).unwrap();
            assert_eq!(cloud.subnet(&subnet.id).unwrap().free_addresses + used, 4, "seed {seed} step {step}");
            for name in types {
                let of_type = here.clone().filter(|machine| machine.instance.instance_type == name).count();
                assert!(of_type <= usize::try_from(STOCK).unwrap(), "seed {seed} step {step}: {of_type} {name}");
            }
        }
    }
}

/// Creates a reservation of two instances, launches one into its interruptible part, and returns the ids of both and of the
/// instance.
async fn with_interruptible_instance(cloud: &FakeCloud) -> (String, String, String) {
    let subnets = with_template(cloud).await;
    let source = cloud.account().create_reservation(CapacityReservation {
        instance_type: "m5.large".to_owned(),
        zone: subnets[0].zone.clone(),
        match_criteria: "targeted".to_owned(),
        total: 2,
        ..CapacityReservation::default()
    });
    let lent = cloud.account().allocate_interruptible(&source.id, 1, Tags::new()).unwrap();
    let images = cloud.images(&Filter::default()).await.unwrap();
    let option =
        ReservationSpecification { preference: "capacity-reservations-only".to_owned(), id: Some(lent.clone()) };
    let request = LaunchTemplateRequest {
        name: "karpenter.k8s.aws/2".to_owned(),
        image_id: images[0].id.clone(),
        capacity_reservation: Some(option),
        ..LaunchTemplateRequest::default()
    };
    cloud.create_launch_template(&request).await.unwrap();
    let mut fleet = fleet("t", 1, &[("m5.large", &subnets[0], 1)]);
    fleet.capacity_type = "on-demand".to_owned();
    fleet.configs[0].launch_template = request.name;
    let answer = cloud.create_fleet(&fleet).await.unwrap();
    (source.id, lent, answer.instances[0].id.clone())
}

#[tokio::test]
async fn interruptible_capacity_returns_after_its_instances_end() {
    let (cloud, clock) = cloud();
    cloud.create_queue("events");
    cloud.events_to(Some("events"));
    let (source, lent, instance) = with_interruptible_instance(&cloud).await;
    let counts = |id: &str| cloud.reservation(id).map(|one| (one.state, one.total, one.available)).unwrap();
    assert_eq!(counts(&source), ("active".to_owned(), 1, 1));
    assert_eq!(counts(&lent), ("active".to_owned(), 1, 0));
    assert!(cloud.account().reclaim_interruptible(&source));
    assert!(!cloud.account().reclaim_interruptible(&source), "nothing is left to take back");
    assert_eq!(counts(&lent), ("active".to_owned(), 0, 0), "its instance still runs");
    assert_eq!(cloud.queue_length("events"), 1, "the instance got a notice");
    clock.advance(seconds(121));
    assert_eq!(cloud.machine(&instance).unwrap().instance.state, "shutting-down");
    assert_eq!(counts(&lent), ("cancelled".to_owned(), 0, 0));
    assert_eq!(counts(&source), ("active".to_owned(), 2, 2));
    assert!(cloud.account().cancel_reservation(&source) && cloud.account().cancel_reservation(&source));
    assert!(!cloud.account().cancel_reservation("cr-none"));
    assert_eq!(counts(&source), ("cancelled".to_owned(), 2, 0));
}

#[tokio::test]
async fn instances_stop_and_take_their_names_from_the_subnet() {
    let (cloud, clock) = cloud();
    let subnets = with_template(&cloud).await;
    assert!(cloud.account().name_by_resource(&subnets[0].id, true));
    assert!(!cloud.account().name_by_resource("subnet-none", true));
    let answer = cloud.create_fleet(&fleet("t", 1, &[("m5.large", &subnets[0], 1)])).await.unwrap();
    let id = &answer.instances[0].id;
    assert_eq!(cloud.machine(id).unwrap().instance.private_dns_name, format!("{id}.us-west-2.compute.internal"));
    assert!(!cloud.account().stop(id), "it is still pending");
    clock.advance(seconds(10));
    assert!(cloud.account().stop(id) && !cloud.account().stop(id));
    clock.advance(seconds(5));
    assert_eq!(cloud.machine(id).unwrap().instance.state, "stopped");
    cloud.account().delete_tags(std::slice::from_ref(id), &["case".to_owned()]).unwrap();
    assert!(cloud.machine(id).unwrap().instance.tags.is_empty());
    cloud.terminate_instances(std::slice::from_ref(id)).await.unwrap();
    assert_eq!(cloud.machine(id).unwrap().instance.state, "shutting-down");
}

#[tokio::test]
async fn parameter_is_found_by_name_and_by_arn() {
    let (cloud, _) = cloud();
    let name = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id";
    let found = cloud.parameter(name).await.unwrap();
    assert!(found.is_some());
    assert_eq!(cloud.parameter(&format!("arn:aws:ssm:us-west-2::parameter{name}")).await.unwrap(), found);
    assert_eq!(cloud.parameter("arn:aws:ssm:us-west-2::parameter/none").await.unwrap(), None);
}

/// Launches one instance and returns it.
async fn launched(cloud: &FakeCloud, token: &str) -> cloud::Instance {
    let subnets = with_template(cloud).await;
    let answer = cloud.create_fleet(&fleet(token, 1, &[("m7i.large", &subnets[0], 1)])).await.unwrap();
    cloud.machine(&answer.instances[0].id).unwrap().instance
}

/// A user's EC2NodeClass selects resources of another account.
#[tokio::test]
async fn account_for_trials_has_what_a_class_selects() {
    let cloud = FakeCloud::builder("us-west-2").for_trials().build().unwrap();
    let foreign = Filter { tags: [("team".to_owned(), "web".to_owned())].into(), ..Filter::default() };
    assert_eq!(cloud.subnets(&foreign).await.unwrap().len(), 3);
    assert_eq!(cloud.security_groups(&foreign).await.unwrap().len(), 1);
    let unknown = Filter { ids: vec!["subnet-1".to_owned()], ..Filter::default() };
    assert!(cloud.subnets(&unknown).await.unwrap().is_empty());

    let public = "/aws/service/bottlerocket/aws-k8s-1.36/arm64/latest/image_id";
    let image = cloud.parameter(public).await.unwrap().unwrap();
    assert_eq!(cloud.parameter(public).await.unwrap(), Some(image.clone()));
    let found = cloud.images(&Filter { ids: vec![image], ..Filter::default() }).await.unwrap();
    assert_eq!(found.iter().map(|image| image.architecture.as_str()).collect::<Vec<_>>(), ["arm64"]);
    assert_eq!(cloud.parameter("/own/parameter").await.unwrap(), None);

    let profile = InstanceProfileRequest { name: "web".into(), path: "/".into(), ..InstanceProfileRequest::default() };
    cloud.create_instance_profile(&profile).await.unwrap();
    cloud.add_role_to_instance_profile("web", "NodeRole-of-another-account").await.unwrap();
    assert!(cloud.log().is_empty(), "an account that exists for weeks records no calls");
}

#[tokio::test]
async fn account_for_trials_restores_instances_after_a_restart() {
    let build = |seed| FakeCloud::builder("us-west-2").seed(seed).for_trials().build().unwrap();
    let old = launched(&build(1), "a").await;
    assert!(old.private_dns_name.starts_with(&old.id), "{old:?}");
    let cloud = build(2);
    cloud.account().restore([old.clone()]);
    let [found]: [_; 1] = cloud.instances_by_id(std::slice::from_ref(&old.id)).await.unwrap().try_into().unwrap();
    assert_eq!((found.state.as_str(), &found.tags), ("running", &old.tags));
    let new = launched(&cloud, "b").await;
    assert!(new.id != old.id && new.private_dns_name != old.private_dns_name);
    cloud.terminate_instances(std::slice::from_ref(&old.id)).await.unwrap();
    assert!(cloud.machine(&old.id).unwrap().instance.is_ending());
}
