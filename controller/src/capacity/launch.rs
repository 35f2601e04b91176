//! Launch of NodeClaims by the protocol of `cloud::launch`. NodeClaims with the same launch choice share one CreateFleet call.
//! Every NodeClaim carries the client token before the call. Instances are assigned deterministically, so a repeated reconcile
//! gives the same assignment. A NodeClaim that received no instance because an offering is unavailable chooses again at once,
//! without that offering.

mod choose;
mod nodeclaims;
mod outcome;
mod request;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::{NodeClaim, annotation};
use cloud::launch::{
    ClaimId, CreateFleetError, HeldInstance, LaunchChoice, LaunchFailure, LaunchRefusal, LaunchRequest, MAX_TARGET,
    Resume, SETTLE, Token,
};
use cloud::tags::NODE_CLAIM_UID_TAG;
use cloud::{FleetRequest, Instance};
use daemon::backoff::doubled;
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
use crate::state::index::Index;
use crate::write::writer::{Operation, Target, WriteError, Writer};
use nodeclaims::{chosen_patch, hold, id, unclaimed, waiting, wants_token};
use request::ask;

/// Delay before the retry of a launch whose EC2NodeClass or offerings are not loaded yet.
const NOT_YET: Duration = Duration::from_secs(1);
/// First delay before the retry of a launch that EC2 refused for a temporary reason. The delay doubles up to `REFUSED_OFTEN`.
const REFUSED: Duration = Duration::from_secs(5);
const REFUSED_OFTEN: Duration = Duration::from_secs(60);
/// Maximum number of concurrent writes to the API server for one launch.
const WRITES: usize = 16;

/// Launcher of NodeClaims.
pub struct Launcher {
    cluster: Arc<Cluster>,
    offerings: Arc<Offerings>,
    writer: Writer,
    metrics: Arc<Metrics>,
    /// Start of this process. An earlier process may have called CreateFleet up to this moment, even for an old token.
    began: Timestamp,
    open: Mutex<BTreeMap<String, OpenLaunch>>,
}

/// Launch that this process began.
#[derive(Clone)]
struct OpenLaunch {
    choice: Arc<LaunchChoice>,
    request: Arc<FleetRequest>,
    state: LaunchState,
    /// Number of consecutive refusals by EC2 for reasons other than insufficient capacity.
    refusals: u32,
    /// Time of the last call with an unknown outcome.
    doubt: Option<Timestamp>,
    /// Time of the choice.
    chosen: Instant,
}

#[derive(Clone)]
enum LaunchState {
    /// Launch whose token is being written to its NodeClaims.
    Preparing,
    /// Launch that may call CreateFleet, also again with the same token: its outcome is unknown.
    Ready,
    /// Instances that EC2 launched and that are being assigned. NodeClaims without an instance receive the outcome as their
    /// reason.
    Bought(Arc<Vec<Instance>>, LaunchOutcome),
    /// Launch that EC2 refused. Its NodeClaims choose again, but not before this moment.
    Refused(Instant),
    /// Launch that EC2 refused after a call with an unknown outcome, the last one at this moment. The list of instances in EC2
    /// decides.
    Doubtful(Timestamp),
}

/// Reason why NodeClaims of a launch have no instance.
#[derive(Clone)]
struct LaunchOutcome {
    failure: LaunchFailure,
    /// True if an offering of this choice became unavailable, so that the next choice differs.
    learned: bool,
}

/// NodeClaims with the same launch choice.
struct LaunchGroup {
    class: String,
    ask: LaunchRequest,
    choice: Result<LaunchChoice, LaunchRefusal>,
    members: Vec<Arc<NodeClaim>>,
}

impl Launcher {
    /// Creates a launcher without launches.
    #[must_use]
    pub fn new(cluster: Arc<Cluster>, offerings: Arc<Offerings>, writer: Writer, metrics: Arc<Metrics>) -> Self {
        let began = cluster.now();
        Self { cluster, offerings, writer, metrics, began, open: Mutex::default() }
    }

    /// Groups NodeClaims without a token into fleets and writes the tokens.
    ///
    /// # Errors
    /// Returns an error if the API server does not store a token.
    pub async fn gather(&self) -> Result<QueueAction, WriteError> {
        let claims: Vec<Arc<NodeClaim>> =
            self.cluster.read(|index| index.claims.values().filter(|claim| wants_token(claim)).cloned().collect());
        self.choose_for(&claims, 0).await
    }

    /// Reports whether EC2 has an instance for a NodeClaim whose status does not name it yet: one that is being assigned, or the
    /// possible one of an earlier process.
    #[must_use]
    pub fn awaits_adoption(&self, claim: &NodeClaim) -> bool {
        let Some(token) = claim.launch_token().filter(|_| claim.provider_id().is_none()) else { return false };
        match self.open().get(token).map(|open| &open.state) {
            None => true,
            Some(LaunchState::Bought(instances, _)) => {
                instances.iter().any(|instance| instance.tags.get(NODE_CLAIM_UID_TAG) == claim.metadata.uid.as_ref())
            }
            Some(_) => false,
        }
    }

    /// Chooses offerings for NodeClaims, groups NodeClaims with the same choice, and begins their launches. A NodeClaim without
    /// a choice loses its token, so that `gather` includes the NodeClaim later.
    async fn choose_for(&self, claims: &[Arc<NodeClaim>], refusals: u32) -> Result<QueueAction, WriteError> {
        let now = self.cluster.now();
        let mut next = QueueAction::Wait;
        let mut groups: Vec<LaunchGroup> = Vec::new();
        for claim in claims {
            if self.is_refused_by_class(claim).await? {
                continue;
            }
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
                self.offerings.try_out(choice, now);
            }
            // NodeClaims with different requests may still have the same choice.
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
                        self.writer.run_all(outcome::refused(claim, &refusal, now)).await?;
                        self.count_given_up(claim, matches!(refusal, LaunchRefusal::InsufficientCapacity(_)));
                    }
                    next = QueueAction::After(REFUSED);
                }
            }
        }
        Ok(next)
    }

    /// Writes the token to every NodeClaim and enables the call only then. The call covers the NodeClaims that carry the token.
    /// A deleted NodeClaim or a failed write does not delay the others.
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
        self.offerings.begin_launch(&token, &choice, all.len(), now);
        let chosen = Instant::now();
        let open = |request: FleetRequest, state| OpenLaunch {
            choice: Arc::new(choice.clone()),
            request: Arc::new(request),
            state,
            refusals,
            doubt: None,
            chosen,
        };
        self.open().insert(key.clone(), open(choice.request(&token, &all), LaunchState::Preparing));
        let patch = chosen_patch(&key, &choice);
        let (mut carriers, mut failed) = (Vec::new(), None);
        for chunk in all.chunks(WRITES) {
            let write = async |member: &ClaimId| {
                self.writer.run(Operation::Patch(Target::Claim(member.name.clone()), patch.clone())).await
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
            self.offerings.give_up_launch(&token);
        } else {
            self.open().insert(key.clone(), open(choice.request(&token, &carriers), LaunchState::Ready));
            self.cluster.queue.add(WorkItem::Launch(key));
        }
        failed.map_or(Ok(()), Err)
    }

    /// Advances one launch by one step.
    ///
    /// # Errors
    /// Returns an error if the API server or EC2 does not answer. A repeated call is safe.
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
                left if left.is_zero() || self.is_class_unusable(&claims) => {
                    self.choose_anew(token, &claims, open.refusals).await
                }
                // The status change of the NodeClaims themselves enqueued this launch.
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
        let (cloud, templates) = (self.offerings.cloud(), self.offerings.templates());
        let batched = open.chosen.elapsed();
        match cloud::launch::create_fleet(cloud, templates, &open.choice, &open.request, now).await {
            Ok(answer) => {
                let verdict = cloud::launch::interpret(&answer, &open.choice.within());
                self.cluster.read(|index| outcome::count_errors(&self.metrics, index, &answer));
                let batcher = metrics::ByBatcher { batcher: "create_fleet" };
                self.metrics.observe(&metrics::BATCH_SIZE, batcher, f64::from(open.request.target));
                self.metrics.observe(&metrics::BATCH_TIME, batcher, batched.as_secs_f64());
                let scopes = open.choice.scopes();
                let learned = verdict.shortages.iter().any(|scope| scopes.contains(scope));
                let served = cloud::launch::served(&answer, &open.choice.within());
                self.offerings.end_launch(&Token::read(token), &answer, &served, verdict.shortages, now);
                tracing::info!(
                    asked = open.request.target,
                    launched = answer.instances.len(),
                    refused = answer.errors.len(),
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

    /// Handles a call that launched nothing or whose outcome is unknown. The call took time, so the NodeClaims are read again.
    async fn refused(&self, token: &str, error: &CreateFleetError, now: Timestamp) -> Result<QueueAction, WriteError> {
        let claims = self.cluster.read(|index| waiting(index, token));
        let failure = cloud::launch::interpret_error(error.cause());
        let doubt = self.doubt(token, error);
        if error.may_have_launched() || error.cause().kind == cloud::ErrorKind::Throttled {
            let text = daemon::error::chain(error);
            tracing::warn!(error = text.as_str(), "CreateFleet did not return, retrying with the same client token");
            for claim in &claims {
                self.writer.run_all(outcome::failed(claim, &failure, now)).await?;
            }
            return Ok(QueueAction::Retry);
        }
        self.offerings.give_up_launch(&Token::read(token));
        if let Some(since) = doubt {
            self.set_state(token, LaunchState::Doubtful(since));
            return Ok(QueueAction::After(NOT_YET));
        }
        self.fail(token, &claims, &failure).await
    }

    /// Returns the time of the last call with an unknown outcome, if there is one. A refusal gives no information about earlier
    /// calls. An `IdempotencyMismatch` proves that an earlier call used the token.
    fn doubt(&self, token: &str, error: &CreateFleetError) -> Option<Timestamp> {
        let used = error.may_have_launched() || error.cause().kind == cloud::ErrorKind::IdempotencyMismatch;
        let mut open = self.open();
        let doubt = &mut open.get_mut(token)?.doubt;
        if used {
            *doubt = Some(self.cluster.now());
        }
        *doubt
    }

    /// Assigns the launched instances to NodeClaims. The reason for missing instances decides the next step of the other
    /// NodeClaims.
    async fn settle(
        &self,
        token: &str,
        instances: &[Instance],
        outcome: &LaunchOutcome,
    ) -> Result<QueueAction, WriteError> {
        let claims = self.cluster.read(|index| waiting(index, token));
        let held: Vec<HeldInstance> = claims.iter().map(|claim| hold(claim)).collect();
        let free = self.cluster.read(|index| unclaimed(index, instances));
        let assigned = cloud::launch::assign(&held, &free);
        // A failed write repeats this, and by then the first NodeClaims may be deleted: their instances must not go to others.
        let owned = Arc::new(cloud::launch::with_owners(instances, &assigned));
        self.set_state(token, LaunchState::Bought(owned, outcome.clone()));
        for chunk in assigned.chunks(WRITES) {
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
                    self.writer.run(outcome::out_of_stock(claim, message)).await?;
                }
                self.choose_anew(token, &left, 0).await
            }
            failure => self.fail(token, &left, failure).await,
        }
    }

    /// Writes the instance to its NodeClaim: first the labels, then the status with condition Launched.
    async fn adopt(&self, claim: &ClaimId, instance: &Instance) -> Result<(), WriteError> {
        let find = |index: &Index| index.claims.get(&claim.name).cloned();
        let Some(before) = self.cluster.read(find) else { return Ok(()) };
        let catalogue = self.offerings.catalogue_of(&before, self.cluster.now());
        let kinds = catalogue.as_ref().map(|catalogue| catalogue.types.as_slice()).unwrap_or_default();
        let kind = kinds.iter().find(|kind| kind.name == instance.instance_type);
        let requirements = cloud::requirements(&before.spec.requirements);
        let parts = cloud::launch::claim::describe(instance, kind, &requirements, self.offerings.settings());
        let class = self.offerings.class(&before.spec.node_class_ref.name);
        let parts = if request::got_efa(&before, class.as_deref().map(|class| &class.spec)) {
            parts
        } else {
            parts.without_efa()
        };
        self.writer.run(outcome::metadata(&before, &parts, &self.profile(&before))).await?;
        let Some(labelled) = self.cluster.read(find) else { return Ok(()) };
        self.writer.run(outcome::launched(&labelled, &parts, self.cluster.now())).await?;
        self.cluster.log.record(outcome::launched_record(&before, instance, &parts, self.cluster.now()));
        Ok(())
    }

    /// Returns the instance profile of the NodeClaim's instance: from the launch choice, or after a crash from the
    /// EC2NodeClass.
    fn profile(&self, claim: &NodeClaim) -> String {
        let token = claim.launch_token().unwrap_or_default();
        let chosen = self.open().get(token).and_then(|open| open.choice.templates.first().cloned());
        let class = || self.offerings.class(&claim.spec.node_class_ref.name);
        chosen
            .map(|template| template.instance_profile)
            .or_else(|| class().map(|class| class.instance_profile.clone()))
            .unwrap_or_default()
    }

    /// Reports the failure on NodeClaims without an instance and delays their next choice.
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
        let pause = doubled(REFUSED, refusals, REFUSED_OFTEN);
        if let Some(open) = self.open().get_mut(token) {
            open.state = LaunchState::Refused(Instant::now() + pause);
            open.refusals = refusals.saturating_add(1);
        }
        for claim in claims {
            self.writer.run_all(outcome::failed(claim, failure, self.cluster.now())).await?;
            self.count_given_up(claim, matches!(failure, LaunchFailure::InsufficientCapacity { .. }));
        }
        Ok(QueueAction::After(pause))
    }

    fn count_given_up(&self, claim: &NodeClaim, given_up: bool) {
        if given_up {
            counters::disrupted(&self.metrics, claim, "insufficient_capacity");
        }
    }

    /// Chooses again for NodeClaims and forgets the old token. The new token replaces the old one on each NodeClaim at once.
    async fn choose_anew(
        &self,
        token: &str,
        claims: &[Arc<NodeClaim>],
        refusals: u32,
    ) -> Result<QueueAction, WriteError> {
        let next = self.choose_for(claims, refusals).await?;
        self.open().remove(token);
        if next != QueueAction::Wait {
            // NodeClaims without a choice no longer belong to this launch.
            self.cluster.queue.add(WorkItem::Gather);
        }
        Ok(QueueAction::Wait)
    }

    /// Resumes a launch with an unknown outcome, or one of an earlier process, from the instances in EC2. The last call was not
    /// after `since`.
    async fn resume(&self, claims: &[Arc<NodeClaim>], since: Timestamp) -> Result<QueueAction, WriteError> {
        let instances = self.offerings.own_instances().await?;
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
                    self.writer.run(Operation::Patch(Target::Claim(claim.name), patch)).await?;
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
