//! The cluster as an API server would show it, with Kubernetes' own controllers: pods are made and bound, start and stop.
//! Nothing here knows of Kerf.

mod kubelet;
mod objects;
mod scheduler;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::Context;
use api::objects::{Node, NodeReport, Pod, PodDisruptionBudget};
use api::{NodeClaim, NodePool};
use planner::Size;

use crate::app::App;
use crate::clock::{Moment, SECOND, timestamp};
use crate::market::{Instance, Market};

pub use objects::{amounts, node, pool, provider_id};

/// A pod with what really goes on in it.
#[derive(Clone, Debug)]
pub struct Running {
    /// What the API server shows.
    pub object: Arc<Pod>,
    /// Whose it is.
    pub app: String,
    /// Which of its workload's pods it is: one that comes for another takes over its number.
    pub ordinal: usize,
    /// Where it is bound.
    pub node: Option<String>,
    /// Where kube-scheduler has been told that it is expected, until it has tried.
    pub expected: Option<String>,
    /// Since when it works.
    pub ready: Option<Moment>,
    /// When it was made.
    pub created: Moment,
    /// Since when somebody has asked for its end.
    pub ending: Option<Moment>,
    /// What it requests now.
    pub asks: Size,
    /// What kubelet keeps for it.
    pub kept: Size,
}

impl Running {
    /// What it takes of its node as the scheduler counts.
    #[must_use]
    pub fn takes(&self) -> Size {
        self.asks.max(self.kept)
    }
}

/// The cluster.
pub struct World {
    /// The moment.
    pub now: Moment,
    /// EC2.
    pub market: Market,
    /// Workloads by name.
    pub apps: BTreeMap<String, App>,
    templates: BTreeMap<String, Arc<Pod>>,
    /// Pods by name.
    pub pods: BTreeMap<String, Running>,
    /// Names of pods by the node that they are bound to.
    on: BTreeMap<String, BTreeSet<String>>,
    /// Nodes by name, which is that of their instance.
    pub nodes: BTreeMap<String, Arc<Node>>,
    /// NodeClaims by name.
    pub claims: BTreeMap<String, Arc<NodeClaim>>,
    /// NodePools.
    pub pools: Vec<Arc<NodePool>>,
    /// PodDisruptionBudgets by name.
    pub budgets: BTreeMap<String, Arc<PodDisruptionBudget>>,
    /// What happens to pods, by moment.
    pub due: BTreeSet<(Moment, String)>,
    /// Pods whose requests have changed, by the moment at which kubelet looks at them.
    resizes: BTreeSet<(Moment, String)>,
    /// Evictions that were granted so far.
    pub evicted: usize,
    /// What agents say of their nodes' use, by node.
    pub reports: BTreeMap<String, Arc<NodeReport>>,
    /// When something last came, went, failed or was wished otherwise that nobody planned; ahead of `now` while EC2's shortages are believed.
    pub changed: Moment,
    /// Whether pods have come or nodes have gone since somebody asked.
    pub news: bool,
    /// Until when the API server answers nobody.
    pub stalled_until: Moment,
    /// Whether anything has changed that the controllers of Kubernetes look at.
    stirred: bool,
    made: usize,
}

impl World {
    /// A cluster without nodes and pods.
    #[must_use]
    pub fn new(now: Moment, market: Market, pools: Vec<Arc<NodePool>>) -> Self {
        Self {
            now,
            market,
            apps: BTreeMap::new(),
            templates: BTreeMap::new(),
            pods: BTreeMap::new(),
            on: BTreeMap::new(),
            nodes: BTreeMap::new(),
            claims: BTreeMap::new(),
            pools,
            budgets: BTreeMap::new(),
            due: BTreeSet::new(),
            resizes: BTreeSet::new(),
            evicted: 0,
            reports: BTreeMap::new(),
            changed: now,
            news: true,
            stalled_until: now,
            stirred: true,
            made: 0,
        }
    }

    /// Takes in a workload.
    ///
    /// # Errors
    /// When its objects cannot be made.
    pub fn add(&mut self, app: App) -> anyhow::Result<()> {
        self.templates.insert(app.name.clone(), app.template()?);
        self.apps.insert(app.name.clone(), app);
        self.stirred = true;
        Ok(())
    }

    /// Pods of a workload use so much of their request from now on, in percent.
    pub fn uses(&mut self, app: &str, percent: i64) {
        self.apps.entry(app.to_owned()).and_modify(|app| app.uses = percent);
    }

    /// A workload wants so many pods from now on.
    pub fn scale(&mut self, app: &str, wanted: usize) {
        if let Some(app) = self.apps.get_mut(app) {
            app.wanted = wanted;
            self.stirred = true;
        }
    }

    /// Something has changed that concerns pods or where they can be.
    pub fn stir(&mut self) {
        self.stirred = true;
    }

    /// Whether the API server answers nobody.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.stalled_until > self.now
    }

    /// Lets Kubernetes' controllers do what is to be done at this moment: pods start and stop, are made, deleted and bound.
    ///
    /// # Errors
    /// When an object cannot be made.
    pub fn settle(&mut self) -> anyhow::Result<()> {
        while let Some((at, pod)) = self.due.first().cloned().filter(|(at, _)| *at <= self.now) {
            self.due.remove(&(at, pod.clone()));
            self.happen(&pod);
        }
        self.grant();
        if std::mem::take(&mut self.stirred) {
            self.replicate()?;
            scheduler::bind(self);
            self.count_budgets()?;
        }
        Ok(())
    }

    /// When something happens to a pod by itself.
    #[must_use]
    pub fn next(&self) -> Option<Moment> {
        self.due.first().into_iter().chain(self.resizes.first()).map(|(at, _)| *at).min()
    }

    /// Pods on a node that have not ended.
    pub fn pods_on<'a>(&'a self, node: &str) -> impl Iterator<Item = (&'a String, &'a Running)> {
        self.on.get(node).into_iter().flatten().filter_map(|name| self.pods.get_key_value(name))
    }

    /// How many pods of a workload work and are to go on.
    #[must_use]
    pub fn healthy(&self, app: &str) -> usize {
        self.pods.values().filter(|pod| pod.app == app && pod.ready.is_some() && pod.ending.is_none()).count()
    }

    /// Asks for a pod's end; it stops after its own time, at most `grace` seconds.
    pub fn end(&mut self, name: &str, grace: i64) {
        let now = self.now;
        let Some(pod) = self.pods.get_mut(name) else { return };
        if pod.ending.replace(now).is_some() {
            return;
        }
        objects::set_deletion(&mut pod.object, now + grace * SECOND);
        let stops = self.apps.get(&pod.app).map_or(0, |app| app.stops);
        let takes = if pod.ready.is_some() { stops.min(grace * SECOND) } else { 0 };
        self.due.insert((now + takes, name.to_owned()));
        self.stirred = true;
    }

    /// A machine is gone, and all that ran there.
    pub fn lose_node(&mut self, name: &str) {
        self.nodes.remove(name);
        self.reports.remove(name);
        self.news = true;
        for pod in self.on.remove(name).unwrap_or_default() {
            self.pods.remove(&pod);
        }
        self.stirred = true;
    }

    /// The instance behind a claim, by the tag that it was bought with.
    #[must_use]
    pub fn instance_of(&self, claim: &str) -> Option<&Instance> {
        self.market.of_claim(claim)
    }

    /// Changes an object; everybody who holds the old one keeps it.
    pub fn edit_claim(&mut self, name: &str, change: impl FnOnce(&mut NodeClaim)) {
        if let Some(claim) = self.claims.get_mut(name) {
            change(Arc::make_mut(claim));
        }
    }

    /// As [`Self::edit_claim`], for a Node.
    pub fn edit_node(&mut self, name: &str, change: impl FnOnce(&mut Node)) {
        if let Some(node) = self.nodes.get_mut(name) {
            change(Arc::make_mut(node));
            self.stirred = true;
        }
    }

    /// As [`Self::edit_claim`], for a Pod.
    pub fn edit_pod(&mut self, name: &str, change: impl FnOnce(&mut Pod)) {
        if let Some(pod) = self.pods.get_mut(name) {
            change(Arc::make_mut(&mut pod.object));
        }
    }

    /// Says where a pod is expected that waits (`status.nominatedNodeName`), or takes it back.
    pub fn expect(&mut self, name: &str, node: Option<&str>) {
        if let Some(pod) = self.pods.get_mut(name).filter(|pod| pod.node.is_none()) {
            pod.expected = node.map(str::to_owned);
            objects::set_expected(&mut pod.object, node);
        }
    }

    fn happen(&mut self, name: &str) {
        let now = self.now;
        let Some(pod) = self.pods.get_mut(name) else { return };
        let lasts = self.apps.get(&pod.app).and_then(|app| app.lasts);
        if pod.ending.is_some() {
            self.remove(name);
        } else if pod.ready.is_none() {
            pod.ready = Some(now);
            objects::set_running(&mut pod.object, now);
            if let Some(lasts) = lasts {
                self.due.insert((now + lasts, name.to_owned()));
            }
        } else if let Some(app) = self.apps.get_mut(&pod.app) {
            // A pod of a Job has done its work.
            app.wanted = app.wanted.saturating_sub(1);
            self.changed = self.changed.max(now);
            self.remove(name);
        }
        self.stirred = true;
    }

    fn remove(&mut self, name: &str) {
        let node = self.pods.remove(name).and_then(|pod| pod.node);
        if let Some(pods) = node.as_ref().and_then(|node| self.on.get_mut(node)) {
            pods.remove(name);
        }
        self.visited(node.as_deref());
    }

    /// Binds a pod to a node.
    fn bind(&mut self, name: &str, node: &str, starts: i64) {
        let Some(pod) = self.pods.get_mut(name) else { return };
        objects::set_bound(&mut pod.object, node);
        pod.node = Some(node.to_owned());
        self.on.entry(node.to_owned()).or_default().insert(name.to_owned());
        self.due.insert((self.now + starts, name.to_owned()));
        self.visited(Some(node));
    }

    /// Notes on the claim that a pod came to its node or left it.
    fn visited(&mut self, node: Option<&str>) {
        let claim = node.and_then(|node| Some(self.market.instances.get(node)?.claim.clone()));
        let at = timestamp(self.now);
        self.edit_claim(&claim.unwrap_or_default(), |claim| {
            claim.status.get_or_insert_default().last_pod_event_time = Some(api::status::Time(at));
        });
    }

    fn replicate(&mut self) -> anyhow::Result<()> {
        let mut active: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
        for (name, pod) in self.pods.iter().filter(|(_, pod)| pod.ending.is_none()) {
            active.entry(&pod.app).or_default().push(name);
        }
        let (mut more, mut fewer) = (Vec::new(), Vec::new());
        for (name, app) in &self.apps {
            let mut pods = active.remove(name.as_str()).unwrap_or_default();
            if pods.len() < app.wanted {
                let taken: BTreeSet<usize> = pods.iter().map(|pod| self.pods[*pod].ordinal).collect();
                let free = (0..app.wanted).filter(|ordinal| !taken.contains(ordinal));
                more.extend(free.take(app.wanted - pods.len()).map(|ordinal| (name.clone(), ordinal)));
            }
            if pods.len() > app.wanted {
                // Those that do not work yet go first, then the youngest.
                pods.sort_by_key(|pod| (self.pods[*pod].ready.is_some(), -self.pods[*pod].created, (*pod).clone()));
                fewer.extend(pods[..pods.len() - app.wanted].iter().map(|pod| ((*pod).clone(), app.grace)));
            }
        }
        fewer.into_iter().for_each(|(pod, grace)| self.end(&pod, grace));
        more.into_iter().try_for_each(|(app, ordinal)| self.make(&app, ordinal))
    }

    fn make(&mut self, app: &str, ordinal: usize) -> anyhow::Result<()> {
        self.made += 1;
        self.news = true;
        let name = format!("{app}-{:06}", self.made);
        let template = self.templates.get(app).context("every workload has its template")?;
        let object = objects::pod(template, &name, self.made, self.now);
        let asks = self.apps.get(app).map(App::size).unwrap_or_default();
        let (app, created) = (app.to_owned(), self.now);
        let (node, expected, ready, ending) = (None, None, None, None);
        let pod = Running { object, app, ordinal, node, expected, ready, created, ending, asks, kept: asks };
        self.pods.insert(name, pod);
        Ok(())
    }

    fn count_budgets(&mut self) -> anyhow::Result<()> {
        let mut healthy: BTreeMap<&str, usize> = BTreeMap::new();
        for pod in self.pods.values().filter(|pod| pod.ready.is_some() && pod.ending.is_none()) {
            *healthy.entry(&pod.app).or_default() += 1;
        }
        for (name, app) in self.apps.iter().filter(|(_, app)| app.may_be_away.is_some()) {
            let count = healthy.get(name.as_str()).copied().unwrap_or(0);
            let figures = (app.allowed(count), app.least_healthy(), count, app.wanted);
            let known = self.budgets.get(name).map(|budget| objects::figures(budget));
            if known != Some(figures) {
                self.budgets.extend(app.budget(count)?.map(|budget| (name.clone(), budget)));
            }
        }
        Ok(())
    }
}
