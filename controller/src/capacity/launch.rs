//! Carries launches out by the protocol of `cloud::launch`: claims that want the same share one CreateFleet, the
//! token is on every claim before the call, and what was bought is dealt out the same way however often we look. Who gets
//! nothing because something was out of stock chooses again at once, now that this is known.

mod nodeclaims;
mod outcome;
mod request;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::{NodeClaim, annotation};
use cloud::launch::{
    BuyError, ClaimId, HeldInstance, LaunchChoice, LaunchFailure, LaunchOffer, LaunchRefusal, LaunchRequest,
    MAX_TARGET, Resume, SETTLE, Token,
};
use cloud::{FleetRequest, Instance};
use daemon::metric::Metrics;
use futures::future::join_all;
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;
use tokio::time::Instant;

use crate::capacity::offerings::Offerings;
use crate::metrics::{self, counters};
use crate::reconcile::queue::QueueAction;
use crate::reconcile::work::WorkItem;
use crate::state::cluster::Cluster;
use crate::state::index::{Index, launch_token};
use crate::write::writer::{Operation, Target, WriteError, Writer};
use nodeclaims::{hold, id, unclaimed, waiting, wants_token};
use request::ask;

/// A class or a market that is not known yet is looked for again after this long.
const NOT_YET: Duration = Duration::from_secs(1);
/// A launch that EC2 refused for a reason that waiting may cure is tried again after this long, then after twice as long.
const REFUSED: Duration = Duration::from_secs(5);
const REFUSED_OFTEN: Duration = Duration::from_secs(60);
/// Writes to the API server that one launch has under way at once.
const WRITES: usize = 16;

/// Launches claims.
pub struct Launcher {
    cluster: Arc<Cluster>,
    market: Arc<Offerings>,
    act: Writer,
    metrics: Arc<Metrics>,
    /// When this life began: until then another one may have called, however old its token is.
    began: Timestamp,
    open: Mutex<BTreeMap<String, OpenLaunch>>,
}

/// A launch that this process began.
#[derive(Clone)]
struct OpenLaunch {
    choice: Arc<LaunchChoice>,
    request: Arc<FleetRequest>,
    state: LaunchState,
    /// How often in a row EC2 refused these claims for a reason other than stock.
    refusals: u32,
    /// When a call last ended without telling what became of it.
    doubt: Option<Timestamp>,
}

#[derive(Clone)]
enum LaunchState {
    /// Its token is being written on its claims.
    Preparing,
    /// The call may go out, or go out again: its outcome is not known.
    Ready,
    /// EC2 launched these; they are being dealt out. Claims that get none learn why.
    Bought(Arc<Vec<Instance>>, LaunchOutcome),
    /// EC2 refused: the claims are to choose anew, but not before this moment.
    Refused(Instant),
    /// EC2 refuses, but a call before that may have bought something, the last one at this moment: the instances will tell.
    Doubtful(Timestamp),
}

/// Why claims of a launch stay without an instance.
#[derive(Clone)]
struct LaunchOutcome {
    failure: LaunchFailure,
    /// Whether something is out of stock that this choice wanted, so that the next one is another.
    learned: bool,
}

/// Claims that want the same.
struct LaunchGroup {
    class: String,
    ask: LaunchRequest,
    choice: Result<LaunchChoice, LaunchRefusal>,
    members: Vec<Arc<NodeClaim>>,
}

impl Launcher {
    /// A launcher with no launches under way.
    #[must_use]
    pub fn new(cluster: Arc<Cluster>, market: Arc<Offerings>, act: Writer, metrics: Arc<Metrics>) -> Self {
        let began = cluster.now();
        Self { cluster, market, act, metrics, began, open: Mutex::default() }
    }

    /// Gathers claims without a token into fleets and writes the tokens.
    ///
    /// # Errors
    /// When the API server does not take a token.
    pub async fn gather(&self) -> Result<QueueAction, WriteError> {
        let claims: Vec<Arc<NodeClaim>> =
            self.cluster.read(|index| index.claims.values().filter(|claim| wants_token(claim)).cloned().collect());
        self.choose_for(&claims, 0).await
    }

    /// Has claims choose, those that want the same together, and begins their launches. A claim without a choice that
    /// carried a token gives it back, so that it is gathered later.
    async fn choose_for(&self, claims: &[Arc<NodeClaim>], refusals: u32) -> Result<QueueAction, WriteError> {
        let now = self.cluster.now();
        let mut next = QueueAction::Wait;
        let mut groups: Vec<LaunchGroup> = Vec::new();
        for claim in claims {
            let (class, ask) = (&claim.spec.node_class_ref.name, ask(claim));
            if let Some(known) = groups.iter_mut().find(|group| group.class == *class && group.ask == ask) {
                known.members.push(Arc::clone(claim));
                continue;
            }
            let Some(choice) = self.choose(claim, &ask, now) else {
                self.give_token_back(claim).await?;
                next = QueueAction::After(NOT_YET);
                continue;
            };
            if let Ok(choice) = &choice {
                self.market.try_out(choice, now);
            }
            // Who asks for something else may still be offered the same.
            let alike =
                |group: &&mut LaunchGroup| matches!((&group.choice, &choice), (Ok(known), Ok(own)) if known == own);
            if let Some(known) = groups.iter_mut().find(alike) {
                known.members.push(Arc::clone(claim));
                continue;
            }
            groups.push(LaunchGroup { class: class.clone(), ask, choice, members: vec![Arc::clone(claim)] });
        }
        for LaunchGroup { choice, members, .. } in groups {
            match choice {
                Ok(choice) => {
                    for members in members.chunks(MAX_TARGET) {
                        self.begin(choice.clone(), members, refusals, now).await?;
                    }
                }
                Err(refusal) => {
                    for claim in &members {
                        self.give_token_back(claim).await?;
                        self.act.run_all(outcome::refused(claim, &refusal, now)).await?;
                        self.count_given_up(claim, matches!(refusal, LaunchRefusal::InsufficientCapacity(_)));
                    }
                    next = QueueAction::After(REFUSED);
                }
            }
        }
        Ok(next)
    }

    /// `None` while the class or the market is not known.
    fn choose(
        &self,
        claim: &NodeClaim,
        ask: &LaunchRequest,
        now: Timestamp,
    ) -> Option<Result<LaunchChoice, LaunchRefusal>> {
        let class = self.market.class(&claim.spec.node_class_ref.name)?;
        let catalogue = self.market.catalogue_of(claim, now)?;
        let (shortages, in_flight) = self.market.knowledge(now);
        let offer = LaunchOffer {
            class: &class,
            catalogue: &catalogue,
            shortages: &shortages,
            in_flight: &in_flight,
            settings: self.market.settings(),
            now,
        };
        Some(cloud::launch::choose(ask, &offer))
    }

    async fn give_token_back(&self, claim: &NodeClaim) -> Result<(), WriteError> {
        if launch_token(claim).is_none() {
            return Ok(());
        }
        let patch = json!({"metadata": {"annotations": {annotation::LAUNCH_TOKEN: null}}});
        self.act.run(Operation::Patch(Target::Claim(id(claim).name), patch)).await
    }

    /// The token goes on every claim; only then may the call go out. It goes out for those that carry it: one that is
    /// gone, or cannot be written to now, is no reason for the others to wait.
    async fn begin(
        &self,
        choice: LaunchChoice,
        members: &[Arc<NodeClaim>],
        refusals: u32,
        now: Timestamp,
    ) -> Result<(), WriteError> {
        let all: Vec<ClaimId> = members.iter().map(|claim| id(claim)).collect();
        let token = Token::new(&choice, &all, now);
        let key = token.to_string();
        self.market.begin_launch(&token, &choice, all.len(), now);
        let open = |request: FleetRequest, state| OpenLaunch {
            choice: Arc::new(choice.clone()),
            request: Arc::new(request),
            state,
            refusals,
            doubt: None,
        };
        self.open().insert(key.clone(), open(choice.request(&token, &all), LaunchState::Preparing));
        let patch = json!({"metadata": {"annotations": {annotation::LAUNCH_TOKEN: key}}});
        let (mut carriers, mut failed) = (Vec::new(), None);
        for chunk in all.chunks(WRITES) {
            let write = async |member: &ClaimId| {
                self.act.run(Operation::Patch(Target::Claim(member.name.clone()), patch.clone())).await
            };
            for (member, written) in chunk.iter().zip(join_all(chunk.iter().map(write)).await) {
                match written {
                    Ok(()) => carriers.push(member.clone()),
                    Err(error) if error.status() == Some(404) => {}
                    Err(error) => failed = Some(error),
                }
            }
        }
        if carriers.is_empty() {
            self.open().remove(&key);
            self.market.give_up_launch(&token);
        } else {
            self.open().insert(key.clone(), open(choice.request(&token, &carriers), LaunchState::Ready));
            self.cluster.queue.add(WorkItem::Launch(key));
        }
        failed.map_or(Ok(()), Err)
    }

    /// Takes one launch a step further.
    ///
    /// # Errors
    /// When the API server or EC2 does not answer; nothing is lost by looking again.
    pub async fn launch(&self, token: &str) -> Result<QueueAction, WriteError> {
        let claims: Vec<Arc<NodeClaim>> = self.cluster.read(|index| waiting(index, token));
        let open = self.open().get(token).cloned();
        if claims.is_empty() {
            if open.is_none_or(|open| !matches!(open.state, LaunchState::Preparing)) {
                self.open().remove(token);
            }
            return Ok(QueueAction::Wait);
        }
        let Some(open) = open else { return self.resume(&claims, self.began).await };
        match &open.state {
            LaunchState::Preparing => Ok(QueueAction::Wait),
            LaunchState::Refused(until) => match until.saturating_duration_since(Instant::now()) {
                Duration::ZERO => self.choose_anew(token, &claims, open.refusals).await,
                // The claims' own change of status woke us.
                left => Ok(QueueAction::After(left)),
            },
            LaunchState::Bought(instances, outcome) => self.settle(token, instances, outcome).await,
            LaunchState::Ready => self.buy(token, &open).await,
            LaunchState::Doubtful(since) => {
                let next = self.resume(&claims, *since).await?;
                if next == QueueAction::Wait {
                    self.open().remove(token);
                }
                Ok(next)
            }
        }
    }

    async fn buy(&self, token: &str, open: &OpenLaunch) -> Result<QueueAction, WriteError> {
        let now = self.cluster.now();
        let (cloud, templates) = (self.market.cloud(), self.market.templates());
        match cloud::launch::buy(cloud, templates, &open.choice, &open.request, now).await {
            Ok(answer) => {
                let verdict = cloud::launch::judge(&answer, &open.choice.within());
                outcome::count_errors(&self.metrics, &answer);
                self.metrics.observe(&metrics::BATCH_SIZE, &["create_fleet"], f64::from(open.request.target));
                let scopes = open.choice.scopes();
                let learned = verdict.shortages.iter().any(|scope| scopes.contains(scope));
                let served = cloud::launch::served(&answer, &open.choice.within());
                self.market.end_launch(&Token::read(token), &answer, &served, verdict.shortages, now);
                log::info!(
                    token = token, asked = open.request.target, launched = answer.instances.len() as i64, refused = answer.errors.len() as i64;
                    "CreateFleet returned"
                );
                let instances = Arc::new(outcome::instances(&answer, &open.request, &open.choice));
                let outcome = LaunchOutcome { failure: verdict.failure.unwrap_or_else(outcome::too_few), learned };
                self.set_state(token, LaunchState::Bought(Arc::clone(&instances), outcome.clone()));
                self.settle(token, &instances, &outcome).await
            }
            Err(error) => self.refused(token, &error, now).await,
        }
    }

    /// EC2 launched nothing, or does not say whether it did. The call took a while: the claims are read anew.
    async fn refused(&self, token: &str, error: &BuyError, now: Timestamp) -> Result<QueueAction, WriteError> {
        let claims = self.cluster.read(|index| waiting(index, token));
        let failure = cloud::launch::judge_error(error.cause());
        let doubt = self.doubt(token, error);
        if error.may_have_bought() || error.cause().kind == cloud::ErrorKind::Throttled {
            let text = daemon::error::chain(error);
            log::warn!(
                token = token, error = text.as_str();
                "CreateFleet did not return, retrying with the same client token"
            );
            for claim in &claims {
                self.act.run_all(outcome::failed(claim, &failure, now)).await?;
            }
            return Ok(QueueAction::Retry);
        }
        self.market.give_up_launch(&Token::read(token));
        if let Some(since) = doubt {
            self.set_state(token, LaunchState::Doubtful(since));
            return Ok(QueueAction::After(NOT_YET));
        }
        self.fail(token, &claims, &failure).await
    }

    /// Since when it is open whether a launch bought something, if it is: a refusal says nothing of the calls before it. A token
    /// that was used with other parameters was used.
    fn doubt(&self, token: &str, error: &BuyError) -> Option<Timestamp> {
        let used = error.may_have_bought() || error.cause().kind == cloud::ErrorKind::IdempotencyMismatch;
        let mut open = self.open();
        let doubt = &mut open.get_mut(token)?.doubt;
        if used {
            *doubt = Some(self.cluster.now());
        }
        *doubt
    }

    /// Gives what was bought to the claims; what is to become of the others depends on why there was not enough.
    async fn settle(
        &self,
        token: &str,
        instances: &[Instance],
        outcome: &LaunchOutcome,
    ) -> Result<QueueAction, WriteError> {
        let claims = self.cluster.read(|index| waiting(index, token));
        let held: Vec<HeldInstance> = claims.iter().map(|claim| hold(claim)).collect();
        let free = self.cluster.read(|index| unclaimed(index, instances));
        for chunk in cloud::launch::deal(&held, &free).chunks(WRITES) {
            let adopt = async |one: &cloud::launch::Assignment| match free.iter().find(|found| found.id == one.instance)
            {
                Some(instance) => self.adopt(&one.claim, instance).await,
                None => Ok(()),
            };
            for adopted in join_all(chunk.iter().map(adopt)).await {
                adopted?;
            }
        }
        let left = self.cluster.read(|index| waiting(index, token));
        match &outcome.failure {
            LaunchFailure::InsufficientCapacity { message } if outcome.learned && !left.is_empty() => {
                for claim in &left {
                    self.act.run(outcome::out_of_stock(claim, message)).await?;
                }
                self.choose_anew(token, &left, 0).await
            }
            failure => self.fail(token, &left, failure).await,
        }
    }

    /// The claim has its instance: labels first, then the status that says Launched.
    async fn adopt(&self, claim: &ClaimId, instance: &Instance) -> Result<(), WriteError> {
        let find = |index: &Index| index.claims.get(&claim.name).cloned();
        let Some(before) = self.cluster.read(find) else { return Ok(()) };
        let catalogue = self.market.catalogue_of(&before, self.cluster.now());
        let kinds = catalogue.as_ref().map(|catalogue| catalogue.types.as_slice()).unwrap_or_default();
        let kind = kinds.iter().find(|kind| kind.name == instance.instance_type);
        let parts = cloud::claim::describe(instance, kind, self.market.settings());
        let class = self.market.class(&before.spec.node_class_ref.name);
        let parts = if request::got_efa(&before, class.as_deref().map(|class| &class.spec)) {
            parts
        } else {
            parts.without_efa()
        };
        self.act.run(outcome::metadata(&before, &parts, &self.profile(&before))).await?;
        let Some(labelled) = self.cluster.read(find) else { return Ok(()) };
        self.act.run(outcome::launched(&labelled, &parts, self.cluster.now())).await?;
        let (name, id, kind) = (claim.name.as_str(), instance.id.as_str(), instance.instance_type.as_str());
        log::info!(nodeclaim = name, instance_id = id, instance_type = kind, zone = instance.zone.as_str(); "launched nodeclaim");
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
        failure: &LaunchFailure,
    ) -> Result<QueueAction, WriteError> {
        if claims.is_empty() {
            self.open().remove(token);
            return Ok(QueueAction::Wait);
        }
        let refusals = self.open().get(token).map_or(0, |open| open.refusals);
        let pause = REFUSED.saturating_mul(1 << refusals.min(8)).min(REFUSED_OFTEN);
        if let Some(open) = self.open().get_mut(token) {
            open.state = LaunchState::Refused(Instant::now() + pause);
            open.refusals = refusals.saturating_add(1);
        }
        for claim in claims {
            self.act.run_all(outcome::failed(claim, failure, self.cluster.now())).await?;
            self.count_given_up(claim, matches!(failure, LaunchFailure::InsufficientCapacity { .. }));
        }
        Ok(QueueAction::After(pause))
    }

    fn count_given_up(&self, claim: &NodeClaim, given_up: bool) {
        if given_up {
            counters::disrupted(&self.metrics, claim, "insufficient_capacity");
        }
    }

    /// The old token is done with. Whoever chooses again carries the new one in its place at once.
    async fn choose_anew(
        &self,
        token: &str,
        claims: &[Arc<NodeClaim>],
        refusals: u32,
    ) -> Result<QueueAction, WriteError> {
        let next = self.choose_for(claims, refusals).await?;
        self.open().remove(token);
        if next != QueueAction::Wait {
            // Claims without a choice are not this launch's any more.
            self.cluster.queue.add(WorkItem::Gather);
        }
        Ok(QueueAction::Wait)
    }

    /// A launch whose calls nobody knows the end of, or which another life of this program began: was anything bought? The last
    /// call was not after `since`.
    async fn resume(&self, claims: &[Arc<NodeClaim>], since: Timestamp) -> Result<QueueAction, WriteError> {
        let instances = self.market.own_instances().await?;
        let instances = self.cluster.read(|index| unclaimed(index, &instances));
        let held: Vec<HeldInstance> = claims.iter().map(|claim| hold(claim)).collect();
        let now = self.cluster.now();
        let mut next = QueueAction::Wait;
        for answer in cloud::launch::resume(&held, &instances, now) {
            match answer {
                Resume::Adopt(assignment) => {
                    if let Some(instance) = instances.iter().find(|instance| instance.id == assignment.instance) {
                        self.adopt(&assignment.claim, instance).await?;
                    }
                }
                Resume::Wait { until, .. } => {
                    let left = Duration::try_from(until.duration_since(now)).unwrap_or_default();
                    next = QueueAction::After(left.min(NOT_YET));
                }
                Resume::LaunchAnew(_) if now.duration_since(since) < SETTLE => next = QueueAction::After(NOT_YET),
                Resume::LaunchAnew(claim) => {
                    let patch = json!({"metadata": {"annotations": {annotation::LAUNCH_TOKEN: null}}});
                    self.act.run(Operation::Patch(Target::Claim(claim.name), patch)).await?;
                }
            }
        }
        Ok(next)
    }

    fn set_state(&self, token: &str, state: LaunchState) {
        if let Some(open) = self.open().get_mut(token) {
            open.state = state;
        }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<String, OpenLaunch>> {
        self.open.lock()
    }
}
