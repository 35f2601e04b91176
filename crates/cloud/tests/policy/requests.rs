//! Tests that Kerf's requests satisfy the conditions of the policies.

use std::collections::BTreeMap;

use api::{EC2NodeClass, label};
use cloud::data;
use cloud::fake::{Input, settings};
use cloud::launch::{
    ClaimId, InFlight, LaunchChoice, LaunchOffer, LaunchRequest, Token, choose, ownership_tags, probe, try_out,
};
use cloud::nodeclass::{ProfileStep, Resolution, ResolutionCache, fetch, queries, resolve};
use cloud::policy::Condition;
use cloud::tags::{CLUSTER_TAG, cluster_tags, template_tags};
use cloud::types::{ClassSettings, OfferingSource, Source, catalogue};
use cloud::unavailable_offerings::UnavailableOfferings;
use jiff::Timestamp;

use super::{Cloud, FakeCloud, Operator, Statement, Tags, statement};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// Condition values of a request by condition key, as IAM evaluates them.
type Context = BTreeMap<String, Vec<String>>;

fn class(profile: &str) -> EC2NodeClass {
    let text = format!(
        r#"{{"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {{"name": "default", "uid": "uid-1"}},
        "spec": {{"subnetSelectorTerms": [{{"tags": {{"karpenter.sh/discovery": "kerf"}}}}],
        "securityGroupSelectorTerms": [{{"tags": {{"karpenter.sh/discovery": "kerf"}}}}],
        "amiSelectorTerms": [{{"alias": "al2023@latest"}}], "tags": {{"team": "a"}}, {profile}}}}}"#
    );
    serde_json::from_str(&text).unwrap()
}

async fn resolved(cloud: &FakeCloud, class: &EC2NodeClass) -> Resolution {
    let answers = fetch(cloud, &queries(class, &settings()), &ResolutionCache::default(), NOW).await;
    resolve(class, answers, &settings(), NOW)
}

fn cloud() -> FakeCloud {
    FakeCloud::builder("us-west-2").only_types(&["m5.large", "m6g.large"]).build().unwrap()
}

/// Returns a launch of NodePool `general` with EC2NodeClass `default`.
async fn choice() -> LaunchChoice {
    let ask = LaunchRequest { pool: "general".to_owned(), ..LaunchRequest::default() };
    offered(&cloud(), |offer| choose(&ask, offer).unwrap()).await
}

/// Passes the offer of EC2NodeClass `default` to `inspect` and returns the result.
async fn offered<T>(cloud: &FakeCloud, inspect: impl FnOnce(&LaunchOffer<'_>) -> T) -> T {
    let object = class(r#""instanceProfile": "nodes""#);
    let class = resolved(cloud, &object).await.class;
    let (infos, facts) = (cloud.instance_types().await.unwrap(), data::facts().unwrap());
    let mut market = OfferingSource::new(facts.on_demand.clone());
    market.set_offerings(cloud.type_offerings().await.unwrap());
    market.add_spot_prices(cloud.spot_prices().await.unwrap());
    let (shortages, settings) = (UnavailableOfferings::default(), settings());
    let source = Source { infos: &infos, facts, offerings: &market, shortages: &shortages, images: &class.images };
    let sizes = ClassSettings::new(&object, class.zones()).unwrap();
    let catalogue = catalogue(&source, &sizes, &settings, NOW);
    let in_flight = InFlight::default();
    let offer = LaunchOffer {
        class: &class,
        catalogue: &catalogue,
        shortages: &shortages,
        in_flight: &in_flight,
        settings: &settings,
        now: NOW,
    };
    inspect(&offer)
}

fn claim(name: &str) -> ClaimId {
    ClaimId { name: name.to_owned(), uid: format!("uid-{name}") }
}

/// Returns a context with tags under `aws:RequestTag` or `aws:ResourceTag` and additional values.
fn context(kind: &str, tags: &Tags, more: &[(&str, &str)]) -> Context {
    let mut context: Context =
        tags.iter().map(|(key, value)| (format!("aws:{kind}/{key}"), vec![value.clone()])).collect();
    context.insert("aws:TagKeys".to_owned(), tags.keys().cloned().collect());
    context.extend(more.iter().map(|(key, value)| ((*key).to_owned(), vec![(*value).to_owned()])));
    context
}

fn filled(text: &str) -> String {
    let text = text.replace("${CLUSTER}", "kerf").replace("${REGION}", "us-west-2");
    text.replace("${PARTITION}", "aws").replace("${ACCOUNT}", "123456789012")
}

fn holds(condition: &Condition, context: &Context) -> bool {
    let allowed: Vec<String> = condition.values.iter().map(|value| filled(value)).collect();
    let found = context.get(&filled(condition.key));
    let every = |found: &Vec<String>| found.iter().all(|value| allowed.contains(value));
    match condition.operator {
        Operator::Equals => found.is_some_and(every),
        Operator::EqualsIfExists | Operator::AllEqual => found.is_none_or(every),
        Operator::Like => {
            assert_eq!(allowed, ["*"], "no other pattern is used");
            found.is_some()
        }
    }
}

/// Returns the keys of the conditions that do not hold.
fn unmet(statement: &Statement, context: &Context) -> Vec<String> {
    statement.conditions.iter().filter(|one| !holds(one, context)).map(|one| filled(one.key)).collect()
}

fn check(sid: &str, context: &Context) {
    assert_eq!(unmet(statement(sid), context), Vec::<String>::new(), "{sid} refuses {context:?}");
}

#[tokio::test]
async fn launch_requests_have_the_tags_that_policies_require() {
    let choice = choice().await;
    let requests = [&["a"][..], &["a", "b"]].map(|names| {
        let claims: Vec<ClaimId> = names.iter().map(|name| claim(name)).collect();
        choice.request(&Token::new(&choice, &claims, NOW), &claims).tags
    });
    let templates = choice.templates.iter().map(|template| template.tags.clone());
    assert!(!choice.templates.is_empty());
    for tags in requests.into_iter().chain(templates) {
        check("AllowScopedEC2InstanceActionsWithTags", &context("RequestTag", &tags, &[]));
        for action in ["CreateFleet", "CreateLaunchTemplate", "RunInstances"] {
            let context = context("RequestTag", &tags, &[("ec2:CreateAction", action)]);
            check("AllowScopedResourceCreationTagging", &context);
        }
        let made = context("ResourceTag", &tags, &[]);
        check("AllowScopedEC2LaunchTemplateAccessActions", &made);
        check("AllowScopedDeletion", &made);
        for key in ["kubernetes.io/cluster/kerf", CLUSTER_TAG, label::NODEPOOL] {
            let mut fewer = tags.clone();
            fewer.remove(key);
            let unmet = unmet(statement("AllowScopedEC2InstanceActionsWithTags"), &context("RequestTag", &fewer, &[]));
            assert_eq!(unmet, [format!("aws:RequestTag/{key}")], "each tag counts");
        }
    }
}

/// EC2 checks a dry run like the real call, so a dry run without the tags is denied.
#[tokio::test]
async fn dry_runs_have_the_tags_that_policies_require() {
    let cloud = cloud();
    let probe = offered(&cloud, |offer| probe(&[], offer).unwrap()).await;
    try_out(&cloud, &probe).await.unwrap();
    let asked: Vec<Tags> = cloud
        .log()
        .into_iter()
        .filter_map(|logged| match logged.input {
            Input::LaunchTemplate(template) => Some(template.tags),
            Input::Fleet(fleet) => Some(fleet.tags),
            Input::Probe(run) => Some(run.tags),
            _ => None,
        })
        .collect();
    assert_eq!(asked.len(), 3, "template, fleet and instance");
    for tags in asked {
        check("AllowScopedEC2InstanceActionsWithTags", &context("RequestTag", &tags, &[]));
    }
}

#[tokio::test]
async fn later_tags_are_allowed_only_on_instances_of_the_cluster() {
    let sid = "AllowScopedResourceTagging";
    let mut later = ownership_tags(&claim("a"));
    later.extend([("Name", "node-1"), (CLUSTER_TAG, "kerf")].map(|(key, value)| (key.to_owned(), value.to_owned())));
    assert!(later.keys().eq(cloud::policy::LATER_TAGS));
    let ours = context("ResourceTag", &choice().await.tags, &[]);
    let request = |tags: &Tags| {
        let mut whole = ours.clone();
        whole.extend(context("RequestTag", tags, &[]));
        whole
    };
    check(sid, &request(&later));
    let mut one = later.clone();
    one.retain(|key, _| key == "Name");
    check(sid, &request(&one));
    assert_eq!(unmet(statement(sid), &context("RequestTag", &later, &[])).len(), 2, "another's instance");
    for (key, value, refused) in
        [("team", "b", "aws:TagKeys"), (CLUSTER_TAG, "other", "aws:RequestTag/eks:eks-cluster-name")]
    {
        let mut tags = later.clone();
        tags.insert(key.to_owned(), value.to_owned());
        assert_eq!(unmet(statement(sid), &request(&tags)), [refused]);
    }
}

#[tokio::test]
async fn cluster_tags_match_what_the_deletion_policy_allows() {
    let choice = choice().await;
    let found = [cluster_tags(&settings()), template_tags("default", &settings())];
    for (key, value) in found.iter().flatten() {
        let tag = choice.tags.get(key);
        assert!(tag.is_some_and(|tag| value == "*" || tag == value), "{key}: instances without it are not found");
    }
    assert_eq!(unmet(statement("AllowScopedDeletion"), &Context::new()).len(), 2, "another's is not ended");
}

#[tokio::test]
async fn profile_request_satisfies_path_and_tag_conditions() {
    let cloud = FakeCloud::builder("us-west-2").build().unwrap();
    let steps = resolved(&cloud, &class(r#""role": "KarpenterNodeRole-kerf""#)).await.profile_steps;
    let Some(ProfileStep::Create(request)) = steps.first() else { panic!("{steps:?}") };
    let arn = format!("arn:aws:iam::123456789012:instance-profile{}{}", request.path, request.name);
    let asked = context("RequestTag", &request.tags, &[]);
    let sids = ["AllowScopedInstanceProfileCreationActions", "AllowScopedInstanceProfileTagActions"];
    for sid in sids.into_iter().chain(["AllowScopedInstanceProfileActions"]) {
        let [resource] = statement(sid).resources else { panic!("{sid} has several resources") };
        let prefix = filled(resource);
        assert!(arn.starts_with(prefix.strip_suffix('*').unwrap()), "{arn} is not {prefix}");
    }
    sids.iter().for_each(|sid| check(sid, &asked));
    check("AllowScopedInstanceProfileActions", &context("ResourceTag", &request.tags, &[]));
    assert_eq!(unmet(statement("AllowScopedInstanceProfileActions"), &Context::new()).len(), 3, "another's profile");
}
