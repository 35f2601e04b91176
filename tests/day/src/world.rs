//! Simulated cluster: the state of an API server, with Kubernetes' controllers that create, bind, start and stop pods. The code
//! has no knowledge of Kerf.

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

/// Pod with its real state.
#[derive(Clone, Debug)]
pub struct Running {
    /// Pod as the API server shows it.
    pub object: Arc<Pod>,
    /// Name of its workload.
    pub app: String,
    /// Number of the pod in its workload. The replacement of a pod takes over the number.
    pub ordinal: usize,
    /// Node that the pod is bound to.
    pub node: Option<String>,
    /// Node that the pod is nominated for, until kube-scheduler has tried to bind the pod.
    pub expected: Option<String>,
    /// Moment since which the pod is ready.
    pub ready: Option<Moment>,
    /// Moment of its creation.
    pub created: Moment,
    /// Moment of the request to end the pod.
    pub ending: Option<Moment>,
    /// Current requests of the pod.
    pub asks: Size,
    /// Amounts that kubelet has allocated to the pod.
    pub kept: Size,
}

impl Running {
    /// Returns the amounts that kube-scheduler counts for the pod on its node.
    #[must_use]
    pub fn takes(&self) -> Size {
        self.asks.max(self.kept)
    }
}

/// Simulated cluster and its EC2 account.
pub struct World {
    /// Current moment.
    pub now: Moment,
    /// Simulated EC2.
    pub market: Market,
    /// Workloads by name.
    pub apps: BTreeMap<String, App>,
    templates: BTreeMap<String, Arc<Pod>>,
    /// Pods by name.
    pub pods: BTreeMap<String, Running>,
    /// Names of pods by the node that they are bound to.
    on: BTreeMap<String, BTreeSet<String>>,
    /// Nodes by name, which is the id of their instance.
    pub nodes: BTreeMap<String, Arc<Node>>,
    /// NodeClaims by name.
    pub claims: BTreeMap<String, Arc<NodeClaim>>,
    /// NodePools.
    pub pools: Vec<Arc<NodePool>>,
    /// PodDisruptionBudgets by name.
    pub budgets: BTreeMap<String, Arc<PodDisruptionBudget>>,
    /// Events of pods, by moment.
    pub due: BTreeSet<(Moment, String)>,
    /// Resized pods, by the moment at which kubelet processes them.
    resizes: BTreeSet<(Moment, String)>,
    /// Number of accepted evictions.
    pub evicted: usize,
    /// Usage reports of the agents, by node.
    pub reports: BTreeMap<String, Arc<NodeReport>>,
    /// Moment of the last unplanned change: an object was created, removed, failed or got another specification. The moment
    /// lies in the future while offerings are marked as unavailable.
    pub changed: Moment,
    /// True if pods were created or nodes were removed since the last plan request.
    pub news: bool,
    /// End of an API server outage.
    pub stalled_until: Moment,
    /// True if an object changed that Kubernetes' controllers watch.
    stirred: bool,
    made: usize,
}

impl World {
    /// Creates a cluster without nodes and pods.
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

    /// Adds a workload.
    ///
    /// # Errors
    /// Returns an error if its objects cannot be generated.
    pub fn add(&mut self, app: App) -> anyhow::Result<()> {
        self.templates.insert(app.name.clone(), app.template()?);
        self.apps.insert(app.name.clone(), app);
        self.stirred = true;
        Ok(())
    }

    /// Sets the usage of a workload's pods, in percent of their requests.
    pub fn uses(&mut self, app: &str, percent: i64) {
        self.apps.entry(app.to_owned()).and_modify(|app| app.uses = percent);
    }

    /// Sets the number of replicas of a workload.
    pub fn scale(&mut self, app: &str, wanted: usize) {
        if let Some(app) = self.apps.get_mut(app) {
            app.wanted = wanted;
            self.stirred = true;
        }
    }

    /// Marks a change that concerns pods or their nodes.
    pub fn stir(&mut self) {
        self.stirred = true;
    }

    /// Reports whether the API server is down.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.stalled_until > self.now
    }

    /// Runs Kubernetes' controllers for this moment: pods start and stop, and are created, deleted and bound.
    ///
    /// # Errors
    /// Returns an error if an object cannot be generated.
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

    /// Returns the moment of the next event of a pod.
    #[must_use]
    pub fn next(&self) -> Option<Moment> {
        self.due.first().into_iter().chain(self.resizes.first()).map(|(at, _)| *at).min()
    }

    /// Returns the pods on a node that have not ended.
    pub fn pods_on<'a>(&'a self, node: &str) -> impl Iterator<Item = (&'a String, &'a Running)> {
        self.on.get(node).into_iter().flatten().filter_map(|name| self.pods.get_key_value(name))
    }

    /// Returns the number of pods of a workload that are ready and not ending.
    #[must_use]
    pub fn healthy(&self, app: &str) -> usize {
        self.pods.values().filter(|pod| pod.app == app && pod.ready.is_some() && pod.ending.is_none()).count()
    }

    /// Requests the end of a pod. The pod stops after its own stop time, at most `grace` seconds.
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

    /// Removes a node and all its pods.
    pub fn lose_node(&mut self, name: &str) {
        self.nodes.remove(name);
        self.reports.remove(name);
        self.news = true;
        for pod in self.on.remove(name).unwrap_or_default() {
            self.pods.remove(&pod);
        }
        self.stirred = true;
    }

    /// Returns the instance of a NodeClaim, by the tag of its launch.
    #[must_use]
    pub fn instance_of(&self, claim: &str) -> Option<&Instance> {
        self.market.of_claim(claim)
    }

    /// Changes a NodeClaim; existing references keep the old object.
    pub fn edit_claim(&mut self, name: &str, change: impl FnOnce(&mut NodeClaim)) {
        if let Some(claim) = self.claims.get_mut(name) {
            change(Arc::make_mut(claim));
        }
    }

    /// Changes a Node as [`Self::edit_claim`] does.
    pub fn edit_node(&mut self, name: &str, change: impl FnOnce(&mut Node)) {
        if let Some(node) = self.nodes.get_mut(name) {
            change(Arc::make_mut(node));
            self.stirred = true;
        }
    }

    /// Changes a Pod as [`Self::edit_claim`] does.
    pub fn edit_pod(&mut self, name: &str, change: impl FnOnce(&mut Pod)) {
        if let Some(pod) = self.pods.get_mut(name) {
            change(Arc::make_mut(&mut pod.object));
        }
    }

    /// Sets or clears `status.nominatedNodeName` of a pending pod.
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
            // A pod of a Job has completed.
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

    /// Records in the NodeClaim that a pod was bound to its node or left it.
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
                // Pods that are not ready are removed first, then the youngest.
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
