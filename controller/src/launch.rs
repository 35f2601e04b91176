//! Carries launches out by the protocol of `cloud::launch`: claims that want the same share one CreateFleet, the
//! token is on every claim before the call, and what was bought is dealt out the same way however often we look.

mod outcome;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::status::Conditioned;
use api::{NodeClaim, annotation, condition, finalizer};
use cloud::launch::{Ask, BuyError, Choice, ClaimId, Held, Offer, Refusal, Resume, Token};
use cloud::{FleetRequest, Instance};
use daemon::metric::Metrics;
use jiff::Timestamp;
use planner::{Requirements, Resources};
use serde_json::json;
use tokio::time::Instant;

use crate::act::{Act, ActError, Step, Target};
use crate::cluster::Cluster;
use crate::index::{Index, launch_token, provider_id};
use crate::lifecycle::pool;
use crate::market::Market;
use crate::patch;
use crate::queue::Next;
use crate::work::Work;

/// A class or a market that is not known yet is looked for again after this long.
const NOT_YET: Duration = Duration::from_secs(1);
/// A launch that EC2 refused for a reason that waiting may cure is tried again after this long.
const REFUSED: Duration = Duration::from_secs(5);

/// Launches claims.
pub struct Launcher {
    cluster: Arc<Cluster>,
    market: Arc<Market>,
    act: Act,
    metrics: Arc<Metrics>,
    open: Mutex<BTreeMap<String, Open>>,
}

/// A launch that this process began.
#[derive(Clone)]
struct Open {
    choice: Choice,
    request: FleetRequest,
    state: State,
}

#[derive(Clone)]
enum State {
    /// Its token is being written on its claims.
    Preparing,
    /// The call may go out, or go out again: its outcome is not known.
    Ready,
    /// EC2 launched these; they are being dealt out.
    Bought(Vec<Instance>),
    /// EC2 refused: the claims are to choose anew, but not before this moment.
    Refused(Instant),
}

impl Launcher {
    /// A launcher with no launches under way.
    #[must_use]
    pub fn new(cluster: Arc<Cluster>, market: Arc<Market>, act: Act, metrics: Arc<Metrics>) -> Self {
        Self { cluster, market, act, metrics, open: Mutex::default() }
    }

    /// Gathers claims without a token into fleets and writes the tokens.
    ///
    /// # Errors
    /// When the API server does not take a token.
    pub async fn gather(&self) -> Result<Next, ActError> {
        let claims: Vec<Arc<NodeClaim>> =
            self.cluster.read(|index| index.claims.values().filter(|claim| wants_token(claim)).cloned().collect());
        let now = Timestamp::now();
        let mut next = Next::Wait;
        let mut groups: Vec<(Choice, Vec<ClaimId>)> = Vec::new();
        for claim in claims {
            match self.choose(&claim, now) {
                None => next = Next::After(NOT_YET),
                Some(Ok(choice)) => match groups.iter_mut().find(|(known, _)| *known == choice) {
                    Some((_, members)) => members.push(id(&claim)),
                    None => groups.push((choice, vec![id(&claim)])),
                },
                Some(Err(refusal)) => {
                    self.act.run_all(outcome::refused(&claim, &refusal, now)).await?;
                    next = Next::After(REFUSED);
                }
            }
        }
        for (choice, members) in groups {
            self.begin(choice, &members, now).await?;
        }
        Ok(next)
    }

    /// `None` while the class or the market is not known.
    fn choose(&self, claim: &NodeClaim, now: Timestamp) -> Option<Result<Choice, Refusal>> {
        let class = self.market.class(&claim.spec.node_class_ref.name)?;
        let catalogue = self.market.catalogue_of(claim, now)?;
        let shortages = self.market.shortages(now);
        let offer = Offer {
            class: &class,
            catalogue: &catalogue,
            shortages: &shortages,
            settings: self.market.settings(),
            now,
        };
        Some(cloud::launch::choose(&ask(claim), &offer))
    }

    /// The token goes on every claim; only then may the call go out.
    async fn begin(&self, choice: Choice, members: &[ClaimId], now: Timestamp) -> Result<(), ActError> {
        let token = Token::new(&choice, members, now);
        let key = token.to_string();
        let request = choice.request(&token, members);
        self.open().insert(key.clone(), Open { choice, request, state: State::Preparing });
        let patch = json!({"metadata": {"annotations": {annotation::LAUNCH_TOKEN: key}}});
        for member in members {
            self.act.run(Step::Patch(Target::Claim(member.name.clone()), patch.clone())).await?;
        }
        self.set_state(&key, State::Ready);
        self.cluster.queue.add(Work::Launch(key));
        Ok(())
    }

    /// Takes one launch a step further.
    ///
    /// # Errors
    /// When the API server or EC2 does not answer; nothing is lost by looking again.
    pub async fn launch(&self, token: &str) -> Result<Next, ActError> {
        let claims: Vec<Arc<NodeClaim>> = self.cluster.read(|index| waiting(index, token));
        let open = self.open().get(token).cloned();
        if claims.is_empty() {
            self.open().remove(token);
            return Ok(Next::Wait);
        }
        match open {
            None => self.resume(&claims).await,
            Some(Open { state: State::Preparing, .. }) => Ok(Next::Wait),
            Some(Open { state: State::Refused(until), .. }) => match until.saturating_duration_since(Instant::now()) {
                Duration::ZERO => self.choose_anew(token, &claims).await,
                // The claims' own change of status woke us.
                left => Ok(Next::After(left)),
            },
            Some(Open { state: State::Bought(instances), .. }) => self.deal(token, &claims, &instances).await,
            Some(Open { state: State::Ready, choice, request }) => self.buy(token, &claims, &choice, &request).await,
        }
    }

    async fn buy(
        &self,
        token: &str,
        claims: &[Arc<NodeClaim>],
        choice: &Choice,
        request: &FleetRequest,
    ) -> Result<Next, ActError> {
        let now = Timestamp::now();
        match cloud::launch::buy(self.market.cloud(), choice, request).await {
            Ok(answer) => {
                let verdict = cloud::launch::judge(&answer);
                outcome::count_errors(&self.metrics, &answer);
                self.market.mark_short(verdict.shortages, now);
                log::info!(token = token, asked = request.target, launched = answer.instances.len() as i64, refused = answer.errors.len() as i64; "CreateFleet answered");
                let instances = outcome::instances(&answer, request);
                self.set_state(token, State::Bought(instances.clone()));
                self.deal(token, claims, &instances).await?;
                let left = self.cluster.read(|index| waiting(index, token));
                self.fail(token, &left, verdict.failure.unwrap_or_else(outcome::too_few)).await
            }
            Err(error) => self.refused(token, &error, now).await,
        }
    }

    /// EC2 launched nothing, or does not say whether it did. The call took a while: the claims are read anew.
    async fn refused(&self, token: &str, error: &BuyError, now: Timestamp) -> Result<Next, ActError> {
        let claims = self.cluster.read(|index| waiting(index, token));
        let failure = cloud::launch::judge_error(error.cause());
        if error.may_have_bought() || error.cause().kind == cloud::Kind::Throttled {
            let text = daemon::error::chain(error);
            log::warn!(token = token, error = text.as_str(); "no answer from CreateFleet, asking again with the same token");
            for claim in &claims {
                self.act.run_all(outcome::failed(claim, &failure, now)).await?;
            }
            return Ok(Next::Retry);
        }
        match error.cause().kind {
            cloud::Kind::IdempotencyMismatch => self.choose_anew(token, &claims).await,
            _ => self.fail(token, &claims, failure).await,
        }
    }

    /// Gives instances to claims and writes it down.
    async fn deal(&self, token: &str, claims: &[Arc<NodeClaim>], instances: &[Instance]) -> Result<Next, ActError> {
        let held: Vec<Held> = claims.iter().map(|claim| hold(claim)).collect();
        for assignment in cloud::launch::deal(&held, instances) {
            let found = instances.iter().find(|instance| instance.id == assignment.instance);
            if let Some(instance) = found {
                self.adopt(&assignment.claim, instance).await?;
            }
        }
        log::debug!(token = token, claims = claims.len() as i64; "dealt");
        Ok(Next::Wait)
    }

    /// The claim has its instance: labels first, then the status that says Launched.
    async fn adopt(&self, claim: &ClaimId, instance: &Instance) -> Result<(), ActError> {
        let find = |index: &Index| index.claims.get(&claim.name).cloned();
        let Some(before) = self.cluster.read(find) else { return Ok(()) };
        let catalogue = self.market.catalogue_of(&before, Timestamp::now());
        let kinds = catalogue.as_ref().map(|catalogue| catalogue.types.as_slice()).unwrap_or_default();
        let kind = kinds.iter().find(|kind| kind.name == instance.instance_type);
        let parts = cloud::claim::describe(instance, kind, self.market.settings());
        if !instance.tags.contains_key(cloud::launch::NODE_CLAIM_UID_TAG) {
            self.act.run(Step::Tag(instance.id.clone(), cloud::launch::ownership_tags(claim))).await?;
        }
        self.act.run(outcome::metadata(&before, &parts, &self.profile(&before))).await?;
        let Some(labelled) = self.cluster.read(find) else { return Ok(()) };
        self.act.run(outcome::launched(&labelled, &parts, Timestamp::now())).await?;
        let (name, id, kind) = (claim.name.as_str(), instance.id.as_str(), instance.instance_type.as_str());
        log::info!(nodeclaim = name, instance = id, instance_type = kind, zone = instance.zone.as_str(); "launched");
        Ok(())
    }

    /// The instance profile that the claim's instance was launched with: its choice's, or after a crash its class's.
    fn profile(&self, claim: &NodeClaim) -> String {
        let token = launch_token(claim).unwrap_or_default();
        let chosen = self.open().get(token).and_then(|open| open.choice.templates.first().cloned());
        let class = || self.market.class(&claim.spec.node_class_ref.name);
        chosen
            .map(|template| template.instance_profile)
            .or_else(|| class().map(|class| class.instance_profile.clone()))
            .unwrap_or_default()
    }

    /// What to do with claims that got nothing.
    async fn fail(
        &self,
        token: &str,
        claims: &[Arc<NodeClaim>],
        failure: cloud::launch::Failure,
    ) -> Result<Next, ActError> {
        if claims.is_empty() {
            self.open().remove(token);
            return Ok(Next::Wait);
        }
        self.set_state(token, State::Refused(Instant::now() + REFUSED));
        for claim in claims {
            self.act.run_all(outcome::failed(claim, &failure, Timestamp::now())).await?;
            if matches!(failure, cloud::launch::Failure::InsufficientCapacity { .. }) {
                self.metrics.add(&crate::metrics::CLAIMS_DISRUPTED, &["insufficient_capacity", pool(claim)], 1.0);
            }
        }
        Ok(Next::After(REFUSED))
    }

    /// The old token is done with: the claims go back to those that want one.
    async fn choose_anew(&self, token: &str, claims: &[Arc<NodeClaim>]) -> Result<Next, ActError> {
        let patch = json!({"metadata": {"annotations": {annotation::LAUNCH_TOKEN: null}}});
        for claim in claims {
            self.act.run(Step::Patch(Target::Claim(id(claim).name), patch.clone())).await?;
        }
        self.open().remove(token);
        Ok(Next::Wait)
    }

    /// A launch that another life of this program began: was anything bought?
    async fn resume(&self, claims: &[Arc<NodeClaim>]) -> Result<Next, ActError> {
        let instances = self.market.own_instances().await?;
        let held: Vec<Held> = claims.iter().map(|claim| hold(claim)).collect();
        let now = Timestamp::now();
        let mut next = Next::Wait;
        for answer in cloud::launch::resume(&held, &instances, now) {
            match answer {
                Resume::Adopt(assignment) => {
                    if let Some(instance) = instances.iter().find(|instance| instance.id == assignment.instance) {
                        self.adopt(&assignment.claim, instance).await?;
                    }
                }
                Resume::Wait { until, .. } => {
                    let left = Duration::try_from(until.duration_since(now)).unwrap_or_default();
                    next = Next::After(left.min(NOT_YET));
                }
                Resume::LaunchAnew(claim) => {
                    let patch = json!({"metadata": {"annotations": {annotation::LAUNCH_TOKEN: null}}});
                    self.act.run(Step::Patch(Target::Claim(claim.name), patch)).await?;
                }
            }
        }
        Ok(next)
    }

    fn set_state(&self, token: &str, state: State) {
        if let Some(open) = self.open().get_mut(token) {
            open.state = state;
        }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<String, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_waiting(claim: &NodeClaim) -> bool {
    let ours = patch::has_finalizer(&claim.metadata, finalizer::TERMINATION);
    ours && !claim.is_true(condition::LAUNCHED) && claim.metadata.deletion_timestamp.is_none()
}

/// Whether the claim is to be put into a fleet.
#[must_use]
pub fn wants_token(claim: &NodeClaim) -> bool {
    is_waiting(claim) && launch_token(claim).is_none()
}

fn waiting(index: &Index, token: &str) -> Vec<Arc<NodeClaim>> {
    index.claims_of_launch(token).filter(|claim| is_waiting(claim)).cloned().collect()
}

fn id(claim: &NodeClaim) -> ClaimId {
    ClaimId {
        name: claim.metadata.name.clone().unwrap_or_default(),
        uid: claim.metadata.uid.clone().unwrap_or_default(),
    }
}

fn hold(claim: &NodeClaim) -> Held {
    Held {
        claim: id(claim),
        token: Token::read(launch_token(claim).unwrap_or_default()),
        instance: provider_id(claim).and_then(cloud::claim::instance_id).map(str::to_owned),
    }
}

/// Whether the claim carries a switch that is on.
fn says(claim: &NodeClaim, key: &str) -> bool {
    let annotations = claim.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(key)).is_some_and(|value| value == annotation::TRUE)
}

/// What the claim asks for, in the words of the shop.
fn ask(claim: &NodeClaim) -> Ask {
    let requests: Resources = claim
        .spec
        .resources
        .requests
        .iter()
        .map(|(name, amount)| (name.clone(), amount.amount(name).unwrap_or(0)))
        .collect();
    let requirements: Requirements = cloud::types::requirements(&claim.spec.requirements);
    Ask {
        pool: pool(claim).to_owned(),
        requirements,
        requests,
        labels: claim.metadata.labels.clone().unwrap_or_default(),
        taints: claim.spec.taints.clone().unwrap_or_default(),
        startup_taints: claim.spec.startup_taints.clone().unwrap_or_default(),
        overlay_priced: says(claim, annotation::PRICE_OVERLAY_APPLIED),
        min_values_relaxed: says(claim, annotation::MIN_VALUES_RELAXED),
    }
}
