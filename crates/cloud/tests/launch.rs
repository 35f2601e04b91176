//! Tests of launches, from a NodeClaim to its instance: the EC2 requests, and no duplicate launch after any outcome of a call.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::collections::{BTreeMap, BTreeSet};

use api::{EC2NodeClass, label};
use base64::Engine as _;
use cloud::fake::{CapacityOutage, FakeCloud, Fault, ManualClock, settings};
use cloud::launch::{
    ClaimId, CreateFleetError, HeldInstance, InFlight, LaunchChoice, LaunchFailure, LaunchOffer, LaunchRefusal,
    LaunchRequest, Resume, SETTLE, Templates, Token, Within, assign, choose, create_fleet, interpret, probe, resume,
    served, try_out, with_owners,
};
use cloud::nodeclass::{ResolutionCache, ResolvedClass, fetch, queries, resolve};
use cloud::tags::{LAUNCH_TOKEN_TAG, NODE_CLAIM_TAG, NODE_CLAIM_UID_TAG, cluster_tags, template_tags};
use cloud::types::{self, ClassSettings, OfferingSource, Source};
use cloud::unavailable_offerings::{FamilyClass, Scope, UnavailableOfferings};
use cloud::{Cloud, FleetAnswer, FleetError, FleetRequest, Instance, Settings, Tags, data};
use jiff::{SignedDuration, Timestamp};
use machine::userdata::RenderError;
use planner::{CapacityType, Catalogue, Operator, Requirement, Requirements, Resources};

#[path = "launch/min_values.rs"]
mod min_values;
#[path = "launch/zonal_shift.rs"]
mod zonal_shift;

struct Fixture {
    cloud: FakeCloud,
    clock: ManualClock,
    settings: Settings,
    class: ResolvedClass,
    catalogue: Catalogue,
    shortages: UnavailableOfferings,
    in_flight: InFlight,
    templates: Templates,
}

async fn fixture(changes: &str) -> Fixture {
    let clock = ManualClock::default();
    let cloud = FakeCloud::builder("us-west-2").clock(clock.clone()).invisible_for(SignedDuration::from_secs(5));
    let cloud = cloud.build().unwrap();
    let settings = settings();
    let text = format!(
        r#"{{"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
        "metadata": {{"name": "default", "annotations": {{"kerf.sh/agent": "enabled"}}}}, "spec": {{
        "subnetSelectorTerms": [{{"tags": {{"karpenter.sh/discovery": "kerf"}}}}],
        "securityGroupSelectorTerms": [{{"tags": {{"karpenter.sh/discovery": "kerf"}}}}],
        "amiSelectorTerms": [{{"alias": "al2023@latest"}}], "instanceProfile": "nodes",
        "tags": {{"team": "a"}} {changes}}}}}"#
    );
    let object: EC2NodeClass = serde_json::from_str(&text).unwrap();
    let answers = fetch(&cloud, &queries(&object, &settings), &ResolutionCache::default(), Timestamp::UNIX_EPOCH).await;
    let resolution = resolve(&object, answers, &settings, Timestamp::UNIX_EPOCH);
    assert!(resolution.is_ready(), "{:?}", resolution.findings);
    let class = resolution.class;
    let shortages = UnavailableOfferings::default();
    let catalogue = catalogue(&cloud, &object, &class, &settings, &shortages).await;
    Fixture {
        cloud,
        clock,
        settings,
        class,
        catalogue,
        shortages,
        in_flight: InFlight::default(),
        templates: Templates::default(),
    }
}

async fn catalogue(
    cloud: &FakeCloud,
    object: &EC2NodeClass,
    class: &ResolvedClass,
    settings: &Settings,
    shortages: &UnavailableOfferings,
) -> Catalogue {
    let infos = cloud.instance_types().await.unwrap();
    let facts = data::facts().unwrap();
    let mut market = OfferingSource::new(facts.on_demand.clone());
    market.set_offerings(cloud.type_offerings().await.unwrap());
    market.add_spot_prices(cloud.spot_prices().await.unwrap());
    let source = Source { infos: &infos, facts, offerings: &market, shortages, images: &class.images };
    let sizes = ClassSettings::new(object, class.zones()).unwrap();
    types::catalogue(&source, &sizes, settings, cloud.now())
}

impl Fixture {
    fn offer(&self) -> LaunchOffer<'_> {
        LaunchOffer {
            class: &self.class,
            catalogue: &self.catalogue,
            shortages: &self.shortages,
            in_flight: &self.in_flight,
            settings: &self.settings,
            now: self.cloud.now(),
        }
    }

    fn choose(&self, ask: &LaunchRequest) -> Result<LaunchChoice, LaunchRefusal> {
        choose(ask, &self.offer())
    }

    async fn create_fleet(
        &self,
        choice: &LaunchChoice,
        request: &FleetRequest,
    ) -> Result<FleetAnswer, CreateFleetError> {
        create_fleet(&self.cloud, &self.templates, choice, request, self.cloud.now()).await
    }

    /// Executes all steps of a NodeClaim's launch: probe, choice and CreateFleet.
    async fn launch(&self, ask: &LaunchRequest) -> Result<FleetAnswer, LaunchRefusal> {
        if let Some(probe) = probe(std::slice::from_ref(ask), &self.offer()) {
            try_out(&self.cloud, &probe).await.unwrap();
        }
        let choice = self.choose(ask)?;
        let members = claims(&["a"]);
        let request = choice.request(&Token::new(&choice, &members, self.cloud.now()), &members);
        Ok(self.create_fleet(&choice, &request).await.unwrap())
    }

    /// Returns all instances that are not ending, invisible ones included.
    fn alive(&self) -> Vec<Instance> {
        let all = self.cloud.machines().into_iter().map(|machine| machine.instance);
        all.filter(|instance| !instance.is_ending()).collect()
    }
}

fn requirement(key: &str, operator: Operator, values: &[&str]) -> Requirement {
    Requirement::new(key, operator, values.iter().copied())
}

fn ask(requirements: &[Requirement]) -> LaunchRequest {
    let mut all: Vec<Requirement> = vec![
        requirement(label::CAPACITY_TYPE, Operator::In, &["spot", "on-demand"]),
        requirement(label::OS, Operator::In, &["linux"]),
    ];
    all.extend(requirements.iter().cloned());
    LaunchRequest {
        pool: "general".to_owned(),
        requirements: all.iter().collect::<Requirements>(),
        requests: [(Resources::CPU, 5150), (Resources::MEMORY, 1 << 30), (Resources::PODS, 7)].into_iter().collect(),
        labels: [(label::NODEPOOL.to_owned(), "general".to_owned()), ("team".to_owned(), "a".to_owned())].into(),
        ..LaunchRequest::default()
    }
}

fn claims(names: &[&str]) -> Vec<ClaimId> {
    names.iter().map(|name| ClaimId { name: (*name).to_owned(), uid: format!("uid-{name}") }).collect()
}

fn held(claims: &[ClaimId], token: &Token) -> Vec<HeldInstance> {
    claims.iter().map(|claim| HeldInstance { claim: claim.clone(), token: token.clone(), instance: None }).collect()
}

#[tokio::test]
async fn choose_returns_the_cheapest_types_that_fit() {
    let fixture = fixture("").await;
    let choice = fixture.choose(&ask(&[])).unwrap();
    assert_eq!(choice.capacity_type, CapacityType::Spot);
    let overrides: Vec<_> = choice.configs.iter().flat_map(|config| &config.overrides).collect();
    let pools: BTreeSet<_> = overrides.iter().map(|one| (&one.instance_type, &one.zone)).collect();
    assert_eq!(pools.len(), overrides.len(), "each pool once");
    let types: BTreeSet<_> = overrides.iter().map(|one| one.instance_type.as_str()).collect();
    assert_eq!(types.len(), 60);
    let fits = |kind: &&planner::InstanceType| {
        kind.allocatable.get(Resources::CPU) >= 5150 && kind.allocatable.get(Resources::PODS) >= 7
    };
    let fitting: Vec<_> = fixture.catalogue.types.iter().filter(fits).collect();
    assert!(types.iter().all(|name| fitting.iter().any(|kind| kind.name == *name)), "{types:?}");
    let ordinary = fitting.iter().filter(|kind| !kind.is_exotic());
    let list = ordinary.flat_map(|kind| &kind.offerings).filter(|one| one.capacity_type == CapacityType::OnDemand);
    let limit = list.filter(|one| one.available).map(|one| one.price.0).min().unwrap();
    assert!(overrides.iter().all(|one| one.priority <= limit), "spot is never dearer than the cheapest on-demand");
    for config in &choice.configs {
        let images: BTreeSet<_> = config.overrides.iter().map(|one| one.image_id.as_str()).collect();
        assert_eq!(images.len(), 1, "one image a template");
    }
    assert!(choice.templates.iter().all(|template| template.name.starts_with("karpenter.k8s.aws/")));
    assert_eq!(fixture.choose(&ask(&[])).unwrap(), choice, "same input, same choice");
}

#[tokio::test]
async fn choose_falls_back_to_on_demand_when_spot_is_unavailable() {
    let mut fixture = fixture("").await;
    for offering in fixture.catalogue.types.iter_mut().flat_map(|kind| &mut kind.offerings) {
        offering.available &= offering.capacity_type != CapacityType::Spot;
    }
    assert_eq!(fixture.choose(&ask(&[])).unwrap().capacity_type, CapacityType::OnDemand);
    let only_spot = ask(&[requirement(label::CAPACITY_TYPE, Operator::In, &["spot"])]);
    let Err(LaunchRefusal::InsufficientCapacity(message)) = fixture.choose(&only_spot) else {
        panic!("nothing to buy")
    };
    assert!(message.contains("no capacity"), "{message}");
}

#[tokio::test]
async fn choose_drops_spot_that_costs_more_than_on_demand() {
    let mut fixture = fixture("").await;
    let types = |choice: &LaunchChoice| -> BTreeSet<String> {
        choice.configs.iter().flat_map(|config| &config.overrides).map(|one| one.instance_type.clone()).collect()
    };
    let two = requirement(label::INSTANCE_TYPE, Operator::In, &["c5.2xlarge", "m5.24xlarge"]);
    let both = |fixture: &Fixture, more: &[Requirement]| {
        fixture.choose(&ask(&[std::slice::from_ref(&two), more].concat())).unwrap()
    };
    assert_eq!(types(&both(&fixture, &[])), BTreeSet::from(["c5.2xlarge".to_owned()]), "one could have it for less");
    let only_spot = requirement(label::CAPACITY_TYPE, Operator::In, &["spot"]);
    assert_eq!(types(&both(&fixture, &[only_spot])).len(), 2, "nothing to compare with");
    for offering in fixture.catalogue.types.iter_mut().flat_map(|kind| &mut kind.offerings) {
        if offering.capacity_type == CapacityType::Spot && offering.zone == "us-west-2a" {
            offering.price.0 = 1_000_000_000;
        }
    }
    let choice = both(&fixture, &[]);
    assert!(choice.configs.iter().flat_map(|config| &config.overrides).all(|one| one.zone != "us-west-2a"));
}

/// Rows: a requirement, and the expected value of `is_exotic` for every chosen type.
#[tokio::test]
async fn choose_avoids_exotic_types_when_others_fit() {
    let fixture = fixture("").await;
    let rows = [
        (requirement(label::INSTANCE_CATEGORY, Operator::In, &["m", "g"]), false),
        (requirement(label::INSTANCE_GPU_COUNT, Operator::Exists, &[]), true),
        (requirement(label::INSTANCE_TYPE, Operator::In, &["m5.metal"]), true),
        (requirement(label::INSTANCE_TYPE, Operator::In, &["m5.metal", "m5.24xlarge"]), false),
    ];
    for (requirement, exotic) in rows {
        let choice = fixture.choose(&ask(std::slice::from_ref(&requirement))).unwrap();
        for one in choice.configs.iter().flat_map(|config| &config.overrides) {
            let kind = fixture.catalogue.types.iter().find(|kind| kind.name == one.instance_type).unwrap();
            assert_eq!(kind.is_exotic(), exotic, "{requirement:?} {}", kind.name);
        }
    }
}

#[tokio::test]
async fn choose_refuses_when_the_class_has_no_images() {
    let mut fixture = fixture("").await;
    fixture.class.images.clear();
    let Err(LaunchRefusal::InsufficientCapacity(message)) = fixture.choose(&ask(&[])) else {
        panic!("no image, no launch")
    };
    assert!(message.contains("no image"), "{message}");
}

#[tokio::test]
async fn choose_uses_the_subnet_with_most_free_addresses_per_zone() {
    let mut fixture = fixture("").await;
    let template = fixture.class.subnets[0].clone();
    let subnet = |id: &str, free| cloud::Subnet { id: id.to_owned(), free_addresses: free, ..template.clone() };
    let zone = template.zone.clone();
    let chosen = |fixture: &Fixture| {
        let choice = fixture.choose(&ask(&[])).unwrap();
        let all = choice.configs.into_iter().flat_map(|config| config.overrides);
        all.filter(|one| one.zone == zone).map(|one| one.subnet_id).collect::<BTreeSet<_>>()
    };
    let only = |id: &str| BTreeSet::from([id.to_owned()]);
    fixture.class.subnets = vec![subnet("subnet-b", 10), subnet("subnet-a", 10), subnet("subnet-c", 9)];
    assert_eq!(chosen(&fixture), only("subnet-a"), "a tie goes to the lesser id");
    fixture.shortages.mark(Scope::Subnet("subnet-a".to_owned()), fixture.cloud.now());
    assert_eq!(chosen(&fixture), only("subnet-b"));
    fixture.class.subnets = vec![subnet("subnet-b", 0)];
    assert!(matches!(fixture.choose(&ask(&[])), Err(LaunchRefusal::InsufficientCapacity(_))));
}

/// DescribeSubnets does not count launches in flight yet, so the second launch uses the other subnet.
#[tokio::test]
async fn choose_counts_addresses_of_launches_in_flight() {
    let mut fixture = fixture("").await;
    let template = fixture.class.subnets[0].clone();
    let subnet = |id: &str, free| cloud::Subnet { id: id.to_owned(), free_addresses: free, ..template.clone() };
    let zone = requirement(label::ZONE, Operator::In, &[&template.zone]);
    let used = |choice: &LaunchChoice| choice.configs[0].overrides[0].subnet_id.clone();
    fixture.class.subnets = vec![subnet("subnet-0000000000000000b", 1000), subnet(&template.id, 1001)];
    let first = fixture.choose(&ask(std::slice::from_ref(&zone))).unwrap();
    assert_eq!(used(&first), template.id);
    let members = claims(&["a", "b"]);
    let token = Token::new(&first, &members, fixture.cloud.now());
    fixture.in_flight.begin(&token, &first, 2, fixture.cloud.now());
    let second = fixture.choose(&ask(std::slice::from_ref(&zone))).unwrap();
    assert_eq!(used(&second), "subnet-0000000000000000b");
    let counted = fixture.in_flight.free_in(&template.id, fixture.cloud.now());
    assert_eq!(counted, 2 * (i64::from(first.addresses) + 1), "each with its smallest number of pods");
    let answer = fixture.create_fleet(&first, &first.request(&token, &members)).await.unwrap();
    fixture.in_flight.settle(&token, &answer, fixture.cloud.now());
    assert_eq!(fixture.in_flight.free_in(&template.id, fixture.cloud.now()), counted, "both are there");
    fixture.in_flight.settle(&token, &FleetAnswer::default(), fixture.cloud.now());
    assert_eq!(fixture.in_flight.free_in(&template.id, fixture.cloud.now()), 0, "EC2 launched none here");
    fixture.in_flight.begin(&token, &first, 2, fixture.cloud.now());
    fixture.in_flight.release(&token);
    assert_eq!(used(&fixture.choose(&ask(std::slice::from_ref(&zone))).unwrap()), template.id);
    fixture.in_flight.begin(&token, &first, 2, fixture.cloud.now());
    fixture.clock.advance(SignedDuration::from_mins(2));
    assert_eq!(fixture.in_flight.free_in(&template.id, fixture.cloud.now()), 0, "by now EC2 counts them itself");
}

/// Rows: a fault, and the expected count of the launch's addresses after it. A refused launch releases its addresses; a launch
/// with an unknown outcome may have happened and keeps them.
#[tokio::test]
async fn in_flight_releases_addresses_when_a_launch_fails() {
    let rows = [
        ("CreateFleet", Some(Fault::unauthorized()), false),
        ("CreateLaunchTemplate", Some(Fault::unauthorized()), false),
        ("CreateFleet", Some(Fault::Lost), true),
        ("nothing in stock", None, false),
    ];
    for (what, fault, counted) in rows {
        let mut fixture = fixture("").await;
        let own = fixture.class.subnets[0].clone();
        let other =
            cloud::Subnet { id: "subnet-other".to_owned(), free_addresses: own.free_addresses - 1, ..own.clone() };
        fixture.class.subnets = vec![own.clone(), other.clone()];
        match &fault {
            Some(fault) => fixture.cloud.fail(what, 1, fault.clone()),
            None => fixture.cloud.start_outage(CapacityOutage::default()),
        }
        let here = ask(&[requirement(label::ZONE, Operator::In, &[&own.zone])]);
        let used = |fixture: &Fixture| fixture.choose(&here).unwrap().configs[0].overrides[0].subnet_id.clone();
        let (choice, members) = (fixture.choose(&here).unwrap(), claims(&["a"]));
        let token = Token::new(&choice, &members, fixture.cloud.now());
        fixture.in_flight.begin(&token, &choice, members.len(), fixture.cloud.now());
        assert_eq!(used(&fixture), other.id, "{what}: it is under way");
        match fixture.create_fleet(&choice, &choice.request(&token, &members)).await {
            Ok(answer) => fixture.in_flight.settle(&token, &answer, fixture.cloud.now()),
            Err(error) if error.may_have_launched() => {}
            Err(_) => fixture.in_flight.release(&token),
        }
        assert_eq!(used(&fixture), if counted { &other.id } else { &own.id }.as_str(), "{what}: {fault:?}");
    }
}

#[tokio::test]
async fn try_out_reserves_a_recovering_pool_for_one_launch() {
    let mut fixture = fixture("").await;
    let dry = Scope::offering(CapacityType::Spot, "c5.2xlarge", "us-west-2a");
    let wanted = [
        requirement(label::INSTANCE_TYPE, Operator::In, &["c5.2xlarge"]),
        requirement(label::CAPACITY_TYPE, Operator::In, &["spot"]),
    ];
    let zones = |fixture: &Fixture, more: &[Requirement]| -> BTreeSet<String> {
        let choice = fixture.choose(&ask(&[&wanted, more].concat())).unwrap();
        choice.configs.into_iter().flat_map(|config| config.overrides).map(|one| one.zone).collect()
    };
    let all = zones(&fixture, &[]);
    assert!(all.contains("us-west-2a") && all.len() > 1, "{all:?}");
    fixture.shortages.mark(dry, fixture.cloud.now());
    fixture.clock.advance(cloud::unavailable_offerings::REMEMBERED);
    assert_eq!(zones(&fixture, &[]), all, "the first may try");
    let choice = fixture.choose(&ask(&wanted)).unwrap();
    fixture.shortages.try_out(&choice.scopes(), fixture.cloud.now());
    assert!(!zones(&fixture, &[]).contains("us-west-2a"), "the second leaves it to the first");
    let here = requirement(label::ZONE, Operator::In, &["us-west-2a"]);
    assert_eq!(zones(&fixture, &[here]).len(), 1, "unless it has nothing else");
    fixture.shortages.served(&Scope::offering(CapacityType::Spot, "c5.2xlarge", "us-west-2a"));
    assert_eq!(zones(&fixture, &[]), all);
}

#[tokio::test]
async fn template_contains_the_settings_of_the_class() {
    let fixture = fixture(
        r#", "kubelet": {"maxPods": 20, "systemReserved": {"cpu": "100m"}},
        "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20G", "volumeType": "gp3"}}]"#,
    )
    .await;
    let amd = requirement(label::ARCH, Operator::In, &["amd64"]);
    let choice = fixture.choose(&ask(&[amd])).unwrap();
    let [template] = choice.templates.as_slice() else { panic!("same image and pods: one template") };
    assert_eq!(template.instance_profile, "nodes");
    assert_eq!(
        template.security_group_ids,
        fixture.class.security_groups.iter().map(|one| one.id.clone()).collect::<Vec<_>>()
    );
    assert_eq!((template.block_devices[0].size_gib, template.block_devices.len()), (Some(19), 1), "rounded up to GiB");
    assert_eq!((template.metadata.http_tokens.as_str(), template.metadata.hop_limit), ("required", 1));
    let expected = [
        ("team", "a"),
        ("kubernetes.io/cluster/kerf", "owned"),
        ("eks:eks-cluster-name", "kerf"),
        (label::NODEPOOL, "general"),
        (label::EC2_NODE_CLASS, "default"),
    ];
    let expected: Tags = expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    assert_eq!(template.tags, expected);
    let raw = base64::engine::general_purpose::STANDARD.decode(&template.user_data).unwrap();
    let text = String::from_utf8(raw).unwrap();
    for part in
        ["team=a", "karpenter.sh/capacity-type=spot", "maxPods: 20", "kerf.sh/agent-not-ready", "unregistered", "100m"]
    {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(machine::userdata::parse(&template.user_data.clone().into_bytes()).is_ok(), "the agent can read it");
    let mut other = ask(&[requirement(label::ARCH, Operator::In, &["amd64"])]);
    other.labels.insert("team".to_owned(), "b".to_owned());
    assert_ne!(fixture.choose(&other).unwrap().templates[0].name, template.name, "other content, other name");
}

#[tokio::test]
async fn token_identifies_choice_and_claims() {
    let fixture = fixture("").await;
    let now = fixture.cloud.now();
    let choice = fixture.choose(&ask(&[])).unwrap();
    let other = fixture.choose(&ask(&[requirement(label::ARCH, Operator::In, &["arm64"])])).unwrap();
    let token = Token::new(&choice, &claims(&["a", "b"]), now);
    assert_eq!(Token::new(&choice, &claims(&["b", "a"]), now), token);
    assert_ne!(Token::new(&other, &claims(&["a", "b"]), now), token);
    assert_ne!(Token::new(&choice, &claims(&["a"]), now), token);
    assert_eq!(token.made(), Timestamp::from_second(now.as_second()).ok());
    assert!(token.to_string().len() <= 64, "EC2's limit for client tokens");
    assert!(!token.settled(now) && token.settled(now.checked_add(SETTLE).unwrap()));
    assert!(Token::read("another tool's").settled(now));
    let one = choice.request(&token, &claims(&["a"]));
    assert_eq!([NODE_CLAIM_TAG, NODE_CLAIM_UID_TAG].map(|key| one.tags[key].as_str()), ["a", "uid-a"]);
    let two = choice.request(&token, &claims(&["a", "b"]));
    assert_eq!((two.tags.get(NODE_CLAIM_UID_TAG), &two.tags[LAUNCH_TOKEN_TAG]), (None, &token.to_string()));
    let bare = LaunchChoice { omits_own_tags: true, ..choice.clone() };
    assert_eq!(bare.request(&token, &claims(&["a"])).tags, choice.tags, "IAM policies deny the other tags");
}

#[tokio::test]
async fn buy_creates_instances_found_by_tag_and_missing_templates() {
    let fixture = fixture("").await;
    let choice = fixture.choose(&ask(&[])).unwrap();
    let claims = claims(&["a", "b"]);
    let request = choice.request(&Token::new(&choice, &claims, fixture.cloud.now()), &claims);
    let answer = fixture.create_fleet(&choice, &request).await.unwrap();
    assert_eq!((answer.instances.len(), interpret(&answer, &choice.within()).failure), (2, None));
    let pool = &answer.instances[0];
    let pool = Scope::offering(CapacityType::Spot, &pool.instance_type, &pool.zone);
    assert!(
        served(&answer, &choice.within()).contains(&pool)
            && choice.scopes().is_superset(&served(&answer, &choice.within()).into_iter().collect())
    );
    fixture.clock.advance(SignedDuration::from_secs(5));
    let found = fixture.cloud.instances(&cluster_tags(&fixture.settings)).await.unwrap();
    assert_eq!(found.len(), 2);
    let templates = fixture.cloud.launch_templates(&template_tags("default", &fixture.settings)).await.unwrap();
    assert_eq!(templates.len(), choice.templates.len());
    fixture.cloud.remove_template(&choice.templates[0].name);
    let again = choice.request(&Token::new(&choice, &claims[..1], fixture.cloud.now()), &claims[..1]);
    assert_eq!(
        fixture.create_fleet(&choice, &again).await.unwrap().instances.len(),
        1,
        "a lost template is made again"
    );
}

#[tokio::test]
async fn buy_creates_a_deleted_template_once_more() {
    let fixture = fixture("").await;
    let choice = fixture.choose(&ask(&[])).unwrap();
    let claims = claims(&["a"]);
    let request = choice.request(&Token::new(&choice, &claims, fixture.cloud.now()), &claims);
    let code = "InvalidLaunchTemplateName.NotFoundException";
    fixture.cloud.fail("CreateFleet", 1, Fault::error(cloud::ErrorKind::NotFound, code, "gone"));
    assert_eq!(fixture.create_fleet(&choice, &request).await.unwrap().instances.len(), 1);
    assert_eq!(fixture.cloud.count("CreateFleet"), 2);
    let made = fixture.cloud.count("CreateLaunchTemplate");
    fixture.create_fleet(&choice, &request).await.unwrap();
    assert_eq!(fixture.cloud.count("CreateLaunchTemplate"), made, "templates that exist are not made again");
    for name in fixture.cloud.template_names() {
        fixture.cloud.remove_template(&name);
    }
    let more =
        choice.request(&Token::new(&choice, &claims, fixture.cloud.now() + SignedDuration::from_secs(1)), &claims);
    fixture.cloud.fail("CreateLaunchTemplate", 1, Fault::unauthorized());
    let error = fixture.create_fleet(&choice, &more).await.unwrap_err();
    assert!(!error.may_have_launched() && error.cause().kind == cloud::ErrorKind::Unauthorized, "{error}");
}

/// AL2023 instances need the service CIDR. Without it neither a probe nor a launch creates a template.
#[tokio::test]
async fn launch_is_refused_when_the_service_cidr_is_unknown() {
    let mut fixture = fixture("").await;
    let known = std::mem::take(&mut fixture.settings.cluster_cidr);
    let refusal = fixture.launch(&ask(&[])).await.unwrap_err();
    assert!(matches!(&refusal, LaunchRefusal::Class { source: RenderError::NoCidr, .. }), "{refusal:?}");
    assert_eq!(fixture.cloud.count("CreateLaunchTemplate"), 0);
    fixture.settings.cluster_cidr = known;
    assert_eq!(fixture.launch(&ask(&[])).await.unwrap().instances.len(), 1);
    assert_ne!(fixture.cloud.count("CreateLaunchTemplate"), 0, "the same, once it is known");
}

/// Existing templates are not created again, unused templates are deleted, and templates deleted by others are detected.
#[tokio::test]
async fn templates_are_kept_while_they_are_used() {
    let fixture = fixture("").await;
    let choice = fixture.choose(&ask(&[])).unwrap();
    let names: Vec<String> = choice.templates.iter().map(|template| template.name.clone()).collect();
    let claims = claims(&["a"]);
    fixture
        .create_fleet(&choice, &choice.request(&Token::new(&choice, &claims, fixture.cloud.now()), &claims))
        .await
        .unwrap();
    assert_eq!(
        (fixture.cloud.count("CreateLaunchTemplate"), fixture.cloud.count("DescribeLaunchTemplates")),
        (names.len(), 0)
    );
    let (used_by, gone) = (BTreeSet::from(["default".to_owned()]), BTreeSet::new());
    let after = |minutes| fixture.cloud.now() + SignedDuration::from_mins(minutes);
    assert!(
        fixture.templates.unused(&used_by, after(59)).is_empty()
            && fixture.templates.unused(&gone, after(9)).is_empty()
    );
    assert_eq!(fixture.templates.unused(&used_by, after(60)).len(), names.len());
    assert_eq!(fixture.templates.unused(&gone, after(10)).len(), names.len(), "of a class that is gone");
    assert!(fixture.templates.missing(&choice, after(50)).is_empty(), "used again");
    assert!(fixture.templates.unused(&used_by, after(60)).is_empty());
    let restarted = Templates::default();
    let listed = fixture.cloud.launch_templates(&cluster_tags(&fixture.settings)).await.unwrap();
    restarted.verify(&listed, after(100));
    assert!(restarted.missing(&choice, after(100)).is_empty(), "a new life finds them");
    assert!(restarted.unused(&used_by, after(159)).is_empty(), "and gives them their time");
    restarted.verify(&listed[1..], after(120));
    assert_eq!(restarted.missing(&choice, after(120)).len(), 1, "another program deleted one");
}

/// Acts as the controller: stores the token, launches, and retries the same request while the outcome is unknown. After a crash
/// only the tokens remain. Rows: the fault, with or without a crash after it.
#[tokio::test]
async fn resume_launches_each_claim_once_after_fault_or_crash() {
    let faults = [None, Some(Fault::Dropped), Some(Fault::Lost), Some(Fault::server()), Some(Fault::throttled())];
    for fault in faults {
        for crash in [false, true] {
            let fixture = fixture("").await;
            let claims = claims(&["a", "b", "c"]);
            let choice = fixture.choose(&ask(&[])).unwrap();
            let token = Token::new(&choice, &claims, fixture.cloud.now());
            let request = choice.request(&token, &claims);
            if let Some(fault) = fault.clone() {
                fixture.cloud.fail("CreateFleet", 1, fault);
            }
            let first = fixture.create_fleet(&choice, &request).await;
            if !crash && first.is_err() {
                fixture.create_fleet(&choice, &request).await.unwrap();
            }
            let owners = after_restart(&fixture, &choice, held(&claims, &token)).await;
            let distinct: BTreeSet<_> = owners.values().collect();
            assert_eq!((owners.len(), distinct.len()), (3, 3), "{fault:?} {crash}: {owners:?}");
            assert_eq!(fixture.alive().len(), 3, "{fault:?} {crash}: nothing is left over");
        }
    }
}

/// Resumes until every NodeClaim has an instance.
async fn after_restart(
    fixture: &Fixture,
    choice: &LaunchChoice,
    mut claims: Vec<HeldInstance>,
) -> BTreeMap<String, String> {
    for _ in 0..10 {
        let instances = fixture.cloud.instances(&cluster_tags(&fixture.settings)).await.unwrap();
        let mut anew = Vec::new();
        for answer in resume(&claims, &instances, fixture.cloud.now()) {
            match answer {
                Resume::Adopt(one) => {
                    let held = claims.iter_mut().find(|held| held.claim == one.claim).unwrap();
                    held.instance = Some(one.instance);
                }
                Resume::Wait { until, .. } => fixture.clock.advance(until.duration_since(fixture.cloud.now())),
                Resume::LaunchAnew(claim) => anew.push(claim),
            }
        }
        if !anew.is_empty() {
            let token = Token::new(choice, &anew, fixture.cloud.now());
            for held in claims.iter_mut().filter(|held| anew.contains(&held.claim)) {
                held.token = token.clone();
            }
            fixture.create_fleet(choice, &choice.request(&token, &anew)).await.unwrap();
        }
        if claims.iter().all(|held| held.instance.is_some()) {
            break;
        }
    }
    claims.into_iter().filter_map(|held| Some((held.claim.name, held.instance?))).collect()
}

#[test]
fn deal_completes_a_partial_assignment_unchanged() {
    let token = Token::read("t");
    let instance = |id: &str, uid: Option<&str>| Instance {
        id: id.to_owned(),
        tags: uid.map(|uid| (NODE_CLAIM_UID_TAG.to_owned(), uid.to_owned())).into_iter().collect(),
        ..Instance::default()
    };
    let all = [instance("i-3", None), instance("i-1", None), instance("i-2", None)];
    let claims = held(&claims(&["b", "a", "c"]), &token);
    let pairs = |claims: &[HeldInstance], instances: &[Instance]| -> Vec<(String, String)> {
        assign(claims, instances).into_iter().map(|one| (one.claim.name, one.instance)).collect()
    };
    let expected = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(claim, id)| ((*claim).to_owned(), (*id).to_owned())).collect()
    };
    let whole = pairs(&claims, &all);
    assert_eq!(whole, expected(&[("a", "i-1"), ("b", "i-2"), ("c", "i-3")]));
    // A second assignment completes the first one, whichever part of it was stored before a crash.
    for written in 0..8u8 {
        let mut claims = claims.clone();
        for (position, (name, id)) in whole.iter().enumerate().filter(|(position, _)| written & (1 << position) != 0) {
            let held = claims.iter_mut().find(|held| held.claim.name == *name).unwrap();
            held.instance = Some(id.clone());
            assert!(position < 3);
        }
        let rest: Vec<_> = whole
            .iter()
            .enumerate()
            .filter(|(position, _)| written & (1 << position) == 0)
            .map(|(_, pair)| pair.clone())
            .collect();
        assert_eq!(pairs(&claims, &all), rest, "{written:03b}");
    }
    let tagged = [instance("i-1", Some("uid-c")), instance("i-2", None), instance("i-9", Some("uid-gone"))];
    assert_eq!(pairs(&claims, &tagged), expected(&[("a", "i-2"), ("c", "i-1")]), "tags go before the order");
    assert_eq!(pairs(&claims, &all[..1]), expected(&[("a", "i-3")]), "fewer instances than claims");
}

/// A write fails, and the first NodeClaim of the fleet is deleted with its instance before the assignment is repeated.
#[test]
fn assign_gives_no_instance_of_a_deleted_claim_to_another() {
    let token = Token::read("t");
    let instance =
        |id: &str, state: &str| Instance { id: id.to_owned(), state: state.to_owned(), ..Instance::default() };
    let launched = [instance("i-1", "pending"), instance("i-2", "pending")];
    let both = held(&claims(&["a", "b"]), &token);
    let first = assign(&both, &launched);
    let pairs: Vec<_> = first.iter().map(|one| (one.claim.name.as_str(), one.instance.as_str())).collect();
    assert_eq!(pairs, [("a", "i-1"), ("b", "i-2")]);
    assert_eq!(assign(&both[1..], &with_owners(&launched, &first)), first[1..], "b keeps its instance");
    // After a restart only EC2 knows the instances, and the one of the deleted NodeClaim is ending.
    let listed = [instance("i-1", "shutting-down"), instance("i-2", "running")];
    assert_eq!(assign(&both[1..], &listed), first[1..], "ending instances come last");
    assert_eq!(assign(&both, &listed).len(), 2, "but they count");
}

/// Rows: error codes of a fleet, the unavailable scopes, and the reason of the NodeClaim's condition (`None`: insufficient
/// capacity).
#[test]
fn interpret_maps_errors_to_scopes_and_reasons() {
    let error = |code: &str| FleetError {
        code: code.to_owned(),
        message: "said so".to_owned(),
        instance_type: "m5.large".to_owned(),
        zone: "a".to_owned(),
        subnet_id: "subnet-1".to_owned(),
        lifecycle: "spot".to_owned(),
    };
    let pool = || Scope::offering(CapacityType::Spot, "m5.large", "a");
    let quota = || Scope::Quota { capacity_type: CapacityType::Spot, class: FamilyClass::Standard };
    let rows = [
        (vec!["InsufficientInstanceCapacity"], vec![pool()], None),
        (vec!["InsufficientInstanceCapacity", "UnfulfillableCapacity"], vec![pool()], None),
        (vec!["InsufficientFreeAddressesInSubnet"], vec![Scope::Subnet("subnet-1".to_owned())], None),
        (vec!["MaxSpotInstanceCountExceeded"], vec![quota()], None),
        (vec!["VcpuLimitExceeded", "Unsupported"], vec![pool(), quota()], None),
        (vec!["ReservationCapacityExceeded"], vec![pool()], None),
        (vec!["MaxFleetCountExceeded"], vec![], Some("FleetQuotaExceeded")),
        (
            vec!["AuthFailure.ServiceLinkedRoleCreationNotPermitted"],
            vec![Scope::CapacityType(CapacityType::Spot)],
            None,
        ),
        (vec!["RequestLimitExceeded"], vec![], Some("RequestLimitExceeded")),
        (vec!["InsufficientInstanceCapacity", "UnauthorizedOperation"], vec![pool()], Some("Unauthorized")),
        (vec!["InvalidAMIID.NotFound"], vec![], Some("AMINotFound")),
        (vec!["SomethingNew"], vec![], Some("LaunchFailed")),
    ];
    for (codes, shortages, reason) in rows {
        let answer = FleetAnswer { errors: codes.iter().map(|code| error(code)).collect(), ..FleetAnswer::default() };
        let verdict = interpret(&answer, &Within::default());
        assert_eq!(verdict.shortages, shortages, "{codes:?}");
        let found = match verdict.failure {
            Some(LaunchFailure::Create { reason, .. }) => Some(reason),
            Some(LaunchFailure::InsufficientCapacity { .. }) => None,
            None => panic!("{codes:?} is a failure"),
        };
        assert_eq!(found, reason, "{codes:?}");
    }
    assert_eq!(interpret(&FleetAnswer::default(), &Within::default()).failure, None);
}

#[tokio::test]
async fn choose_avoids_pools_when_a_fleet_had_no_capacity() {
    let mut fixture = fixture("").await;
    fixture.cloud.start_outage(CapacityOutage { capacity_type: Some("spot".to_owned()), ..CapacityOutage::default() });
    let choice = fixture.choose(&ask(&[])).unwrap();
    let claims = claims(&["a"]);
    let request = choice.request(&Token::new(&choice, &claims, fixture.cloud.now()), &claims);
    let answer = fixture.create_fleet(&choice, &request).await.unwrap();
    let verdict = interpret(&answer, &choice.within());
    assert!(matches!(verdict.failure, Some(LaunchFailure::InsufficientCapacity { .. })) && fixture.alive().is_empty());
    let pools: usize = choice.configs.iter().map(|config| config.overrides.len()).sum();
    assert_eq!(verdict.shortages.len(), pools);
    for scope in verdict.shortages {
        fixture.shortages.mark(scope, fixture.cloud.now());
    }
    // The catalogue is from the last plan; unavailable offerings since then count too.
    let next = fixture.choose(&ask(&[])).unwrap();
    let of = |choice: &LaunchChoice| -> BTreeSet<(String, String)> {
        let all = choice.configs.iter().flat_map(|config| &config.overrides);
        all.map(|one| (one.instance_type.clone(), one.zone.clone())).collect()
    };
    assert!(of(&choice).is_disjoint(&of(&next)) || next.capacity_type != choice.capacity_type);
}

#[tokio::test]
async fn describe_returns_the_claim_fields_of_an_instance() {
    let fixture = fixture("").await;
    let choice = fixture.choose(&ask(&[])).unwrap();
    let claims = claims(&["a"]);
    fixture
        .create_fleet(&choice, &choice.request(&Token::new(&choice, &claims, fixture.cloud.now()), &claims))
        .await
        .unwrap();
    let instance = fixture.alive().remove(0);
    let kind = fixture.catalogue.types.iter().find(|kind| kind.name == instance.instance_type);
    let parts = cloud::launch::claim::describe(&instance, kind, &Requirements::default(), &fixture.settings);
    assert_eq!(parts.provider_id, format!("aws:///{}/{}", instance.zone, instance.id));
    assert_eq!(cloud::launch::claim::instance_id(&parts.provider_id), Some(instance.id.as_str()));
    assert_eq!(cloud::launch::claim::instance_id("kind://x/i-1"), None);
    let expected = [
        (label::INSTANCE_TYPE, instance.instance_type.as_str()),
        (label::ZONE, instance.zone.as_str()),
        (label::CAPACITY_TYPE, "spot"),
        (label::NODEPOOL, "general"),
        (label::EC2_NODE_CLASS, "default"),
        (label::REGION, "us-west-2"),
        (label::OS, "linux"),
    ];
    for (key, value) in expected {
        assert_eq!(parts.labels.get(key).map(String::as_str), Some(value), "{key}");
    }
    assert!(parts.labels[label::ZONE_ID].starts_with("usw2-az"));
    assert!(parts.allocatable["cpu"].millis().unwrap() < parts.capacity["cpu"].millis().unwrap());
    let unknown = cloud::launch::claim::describe(&instance, None, &Requirements::default(), &fixture.settings);
    assert!(unknown.capacity.is_empty() && unknown.labels.contains_key(label::ZONE));
}
