//! Parser of a scenario: converts its text into a snapshot.
//!
//! Each line is one statement; indented lines continue the statement above; `#` starts a comment. A statement has a subject, a
//! name, and clauses that each begin with a keyword. `[xN]` creates N objects, `NAME-01` and so on:
//!
//! ```text
//! include FILE                statements of another file of tests/scenarios, such as standard.types
//! catalogue NAME              begins another catalogue for the types that follow
//! type NAME [xN] capacity AMOUNTS reserved AMOUNTS labels LABELS offerings OFFERINGS performance THOUSANDTHS
//!           attach-limits DRIVER=N price-step DOLLARS (additional price of each of the N types)
//! pool NAME weight N requires R [and R] labels L taints T limits AMOUNTS max-cost DOLLARS consolidate-after DURATION|never
//!           budget[-REASON] N replicas N node-fee DOLLARS preference-premium P catalogue CATALOGUE consolidates [balanced]
//!           replacements one|awaiting CLAIM|failed N DURATION launches-paused-for DURATION (after attempts that failed)
//!           inactive (outside of its active times)
//!           min-savings THOUSANDTHS DOLLARS warm-up DURATION utilization observed|ignored|packed packing MARGIN FLOOR HOURS
//! node NAME [xN] of POOL is TYPE at spot@a labels L taints T attach-limits DRIVER=N quiet DURATION age DURATION
//!           requires R [and R] (open requirements of an in-flight NodeClaim)
//!           usage AMOUNTS [pressed [memory|disk|killed]] usage-limits AMOUNTS (limit of the joint usage, and sum of the limits)
//!           recent-pods AMOUNTS (additional usage of pods that are too new to show in the report)
//!           runs POD [xN] AMOUNTS daemon-pod DAEMON AMOUNTS, and single words:
//!           in-flight registered deleting interrupted cordoned do-not-disrupt nominated
//!           expired [SINCE] drifted REASON [SINCE] termination-grace DURATION unhealthy CONDITION [SINCE]
//! pod [NAMESPACE/]NAME [xN] requests AMOUNTS labels L node-selector LABELS requires R [and R] [or R]
//!           prefers R [and R] weight N tolerates T priority N ports 80 53/UDP 10.0.0.1:80 pending-for DURATION nominated NODE
//!           spread over KEY by at most N among SELECTOR min-domains N softly ignoring-affinity honouring-taints
//!           near|apart SELECTOR over KEY [in NAMESPACES] [in-namespaces LABELS] [in-every-namespace]
//!           prefers-near|prefers-apart SELECTOR over KEY .. weight N
//!           paused-in POOL N DURATION (launches for the pod failed N times; time until the next one)
//!           group NAME least N running N    (pods that get places together; number of its pods that run already)
//!           mix WORKLOAD base N share N     (number of pods on demand, and percentage on spot of the other pods)
//!           claims|shares VOLUME from DRIVER where R [and R] [or R]     (one per pod, or one for all)
//!           on NODE (a running pod), and then: do-not-disrupt do-not-disrupt-for DURATION works-for DURATION terminating
//!           eviction-blocked (its budget permits no eviction) not-rescheduled budget NAME (that blocks its eviction)
//!           deletion-cost N surges protected-for DURATION [of WORKLOAD] (disrupt-at-most-once-per; 0s: no longer protected)
//!           usage AMOUNTS after HOURS [pressed] lowered-from AMOUNTS (its original requests)
//!           restored N DURATION (number of raises, and time since the last) not-resizable REASON
//! daemon, buffer, request     as pod: the pod of a DaemonSet, the virtual pods of a CapacityBuffer, those of a ProvisioningRequest
//! namespace NAME labels L
//! read-write-once-pod NAMESPACE/NAME    a volume claim with access mode ReadWriteOncePod
//! preferences ignored         preference-premium P          min-values best-effort        max-instance-types N        min-spot-types N
//! spot-to-spot allowed        max-steps N           max-cost DOLLARS (of all nodes per hour)
//! spend-policy NAME max-cost DOLLARS pools POOL ..      (per hour, of the nodes of these NodePools together)
//! commitment NAME amount N uses TYPE=N .. zone ZONE     (Savings Plan or Reserved Instances that pay for on-demand nodes)
//! ```
//!
//! A SELECTOR is `app=web and tier In a,b`, `all-pods` or `no-pods`. `expected.rs` reads the `expect` lines.

#[path = "format/cluster.rs"]
mod cluster;
#[path = "format/pods.rs"]
mod pods;
#[path = "format/statement.rs"]
mod statement;
#[path = "format/turned.rs"]
pub mod turned;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use planner::{
    BoundPod, CapacityHolder, Catalogue, Daemon, InstanceType, Leaving, MicroDollars, Millis, MinValuesPolicy, Node,
    Pod, PodShape, PreferencePolicy, Resources, Snapshot, SpendLimit,
};

use crate::values;
use statement::Statement;

/// Moment of every scenario.
pub const NOW: i64 = 1_800_000_000_000;

/// Scenario: the cluster, and the expectations for every plan, which hold for any transcript.
pub struct Scenario {
    pub snapshot: Snapshot,
    pub expected: Vec<String>,
}

/// Parses a scenario; `include` reads from `folder`.
pub fn read(text: &str, folder: &Path) -> Result<Scenario, String> {
    let mut reader = Reader::default();
    reader.snapshot.now = Millis(NOW);
    reader.snapshot.policy.well_known = values::well_known().collect();
    reader.read(text, folder)?;
    Ok(reader.finish())
}

#[derive(Default)]
struct Reader {
    snapshot: Snapshot,
    /// Zones that a zonal shift excludes.
    shifted_zones: BTreeSet<String>,
    catalogues: Vec<Catalogue>,
    /// Maximum hourly cost of all nodes.
    cost_limit: Option<MicroDollars>,
    expected: Vec<String>,
}

impl Reader {
    fn read(&mut self, text: &str, folder: &Path) -> Result<(), String> {
        for line in statement::lines(text) {
            match line.split_once(' ') {
                Some(("include", file)) => {
                    let file = folder.join(file.trim());
                    let text = fs::read_to_string(&file).map_err(|it| format!("{}: {it}", file.display()))?;
                    self.read(&text, folder)?;
                }
                Some(("expect", rest)) => self.expected.push(rest.to_owned()),
                _ => self.statement(&line).map_err(|why| format!("{line:?}: {why}"))?,
            }
        }
        Ok(())
    }

    fn statement(&mut self, line: &str) -> Result<(), String> {
        if self.setting(line)? {
            return Ok(());
        }
        let statement = Statement::of(line)?;
        match statement.subject.as_str() {
            "catalogue" => {
                self.catalogues.push(Catalogue { name: statement.name, types: Vec::new(), ..Catalogue::default() })
            }
            "type" => self.types(&statement)?,
            "pool" => self.pool(&statement)?,
            "commitment" => self.snapshot.commitments.push(cluster::commitment(&statement)?),
            "spend-policy" => self.snapshot.spend_limits.push(cluster::spend_limit(&statement)?),
            "daemon" => self.daemon(&statement)?,
            "namespace" => drop(self.snapshot.namespaces.insert(statement.name.clone(), statement.labels("labels")?)),
            "node" => {
                for name in statement.names() {
                    self.node(&statement, &name)?;
                }
            }
            _ => self.pods(&statement)?,
        }
        Ok(())
    }

    /// Applies the line if it is a setting of the planner; returns whether it was one.
    fn setting(&mut self, line: &str) -> Result<bool, String> {
        let policy = &mut self.snapshot.policy;
        let Some((name, value)) = line.split_once(' ') else { return Ok(false) };
        let number = || value.trim().parse::<usize>().map_err(|_| format!("{name} wants a number"));
        match (name, value.trim()) {
            ("preferences", "ignored") => policy.preferences = PreferencePolicy::Ignore,
            ("max-cost", dollars) => self.cost_limit = Some(values::dollars(dollars)?),
            ("preference-premium", premium) => policy.preference_premium = values::premium(premium)?,
            ("min-values", "best-effort") => policy.min_values = MinValuesPolicy::BestEffort,
            ("max-instance-types", _) => policy.max_instance_types = number()?,
            ("max-steps", _) => policy.max_steps = number()? as u64,
            ("zonal-shift", zone) => drop(self.shifted_zones.insert(zone.to_owned())),
            ("read-write-once-pod", claim) => drop(self.snapshot.single_claims.insert(claim.to_owned())),
            ("spot-to-spot", "allowed") => policy.spot_to_spot = true,
            ("min-spot-types", _) => policy.least_spot_types = number()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn types(&mut self, statement: &Statement) -> Result<(), String> {
        if self.catalogues.is_empty() {
            self.catalogues.push(Catalogue { name: "default".to_owned(), types: Vec::new(), ..Catalogue::default() });
        }
        let types = cluster::instance_types(statement)?;
        self.catalogues.last_mut().ok_or("no catalogue")?.types.extend(types);
        Ok(())
    }

    fn pool(&mut self, statement: &Statement) -> Result<(), String> {
        let catalogue = match statement.word("catalogue") {
            None => 0,
            Some(name) => {
                let known = self.catalogues.iter().position(|it| it.name == name);
                known.ok_or_else(|| format!("no catalogue {name}"))?
            }
        };
        self.snapshot.pools.push(cluster::pool(statement, catalogue)?);
        Ok(())
    }

    fn daemon(&mut self, statement: &Statement) -> Result<(), String> {
        let (namespace, _) = namespaced(&statement.name);
        let shape = pods::shape(statement, namespace)?;
        self.snapshot.daemons.push(Daemon { name: statement.name.clone(), shape });
        Ok(())
    }

    fn intern(&mut self, shape: &PodShape) -> usize {
        let known = self.snapshot.shapes.iter().position(|it| **it == *shape);
        known.unwrap_or_else(|| {
            self.snapshot.shapes.push(Arc::new(shape.clone()));
            self.snapshot.shapes.len() - 1
        })
    }

    fn pods(&mut self, statement: &Statement) -> Result<(), String> {
        let (namespace, plain) = namespaced(&statement.name);
        let mut shape = pods::shape(statement, namespace)?;
        let full_name = || format!("{namespace}/{plain}");
        let holder = match statement.subject.as_str() {
            "buffer" => Some(CapacityHolder::Buffer(full_name())),
            "request" => Some(CapacityHolder::Request(full_name())),
            _ => None,
        };
        if statement.subject == "buffer" {
            shape.priority = i32::MIN;
        }
        let since = statement.word("pending-for").map(values::duration).transpose()?.unwrap_or(0);
        for name in statement.names() {
            let claims = pods::claims(statement, namespace, &name);
            if let Some(node) = statement.word("on") {
                self.bind(statement, node, &name, &shape, claims)?;
                continue;
            }
            let shape = self.intern(&shape);
            self.snapshot.pods.push(Pod {
                uid: name.clone(),
                name,
                shape,
                created: Millis(NOW - since),
                leaving_node: None,
                nominated: statement.word("nominated").map(str::to_owned),
                nominated_after: 0,
                claims,
                holder: holder.clone(),
                mix: pods::mix(statement, namespace)?,
                group: pods::group(statement)?,
            });
        }
        Ok(())
    }

    /// Binds a pod to a node. If the node is leaving and the pod can be evicted, the pod becomes pending as well.
    fn bind(
        &mut self,
        statement: &Statement,
        node: &str,
        name: &str,
        shape: &PodShape,
        claims: Vec<String>,
    ) -> Result<(), String> {
        let found = self.snapshot.nodes.iter_mut().find(|it| it.name == node);
        let node = Arc::make_mut(found.ok_or_else(|| format!("no node {node}"))?);
        node.used.add(&shape.requests);
        let mut shape = shape.clone();
        if statement.has("lowered-from") {
            // A new pod would have the original requests.
            statement.resources("lowered-from")?.iter().for_each(|(name, amount)| shape.requests.set(name, amount));
        }
        let shape = &shape;
        let (mix, sizing) = (pods::mix(statement, &shape.namespace)?, pods::sizing(statement)?);
        let workload = pods::rest(statement, name)?.map(|(workload, until)| {
            let known = self.snapshot.resting.entry(workload.clone()).or_insert(until);
            *known = until.max(*known);
            workload.into()
        });
        node.pods.push(BoundPod {
            uid: name.to_owned(),
            name: name.to_owned(),
            reschedulable: !statement.has("not-rescheduled"),
            do_not_disrupt: statement.has("do-not-disrupt") || statement.has("do-not-disrupt-for"),
            protected_until: statement
                .word("do-not-disrupt-for")
                .map(values::duration)
                .transpose()?
                .map(|it| Millis(NOW + it)),
            shape: Arc::new(shape.clone()),
            claims: claims.clone(),
            mix: mix.clone(),
            ending: statement.has("terminating"),
            held_by: statement.get("budget").unwrap_or_default().to_vec(),
            cost: BoundPod::cost_of(statement.number("deletion-cost")?.unwrap_or(0), shape.priority),
            works_since: statement.word("works-for").map(values::duration).transpose()?.map(|it| Millis(NOW - it)),
            workload,
            used: sizing.as_ref().and_then(|sizing| sizing.used).map(|used| used.p95),
            sizing: sizing.map(Box::new),
            surges: statement.has("surges"),
            holder: None,
        });
        let forced = matches!(node.leaving, Some(Leaving::Interrupted { .. }));
        let stays = ["do-not-disrupt", "do-not-disrupt-for", "eviction-blocked"].iter().any(|word| statement.has(word));
        if node.leaving.is_some() && (forced || !stays) && !statement.has("not-rescheduled") {
            let leaving_node = Some(node.name.clone());
            let shape = self.intern(shape);
            let uid = name.to_owned();
            let created = Millis(NOW);
            self.snapshot.pods.push(Pod {
                name: name.to_owned(),
                uid,
                shape,
                created,
                leaving_node,
                claims,
                mix,
                ..Pod::default()
            });
        }
        Ok(())
    }

    fn kind(&self, name: &str) -> Result<InstanceType, String> {
        let mut all = self.catalogues.iter().flat_map(|it| &it.types);
        all.find(|it| it.name == name).cloned().ok_or_else(|| format!("no type {name}"))
    }

    fn node(&mut self, statement: &Statement, name: &str) -> Result<(), String> {
        let kind = self.kind(statement.word("is").ok_or("a node is of a type")?)?;
        let mut node = cluster::node(statement, name, &kind)?;
        for hosted in statement.all("daemon-pod") {
            let (daemon, amounts) = hosted.split_first().ok_or("daemon-pod of which DaemonSet?")?;
            let mut requests = values::resources(amounts)?;
            requests.set(Resources::PODS, 1);
            node.used.add(&requests);
            node.daemon_used.entry(daemon.clone()).or_default().add(&requests);
        }
        self.join_pool(&mut node, &kind);
        self.snapshot.nodes.push(Arc::new(node));
        for running in statement.all("runs") {
            self.runs(name, statement.count.is_some(), running)?;
        }
        Ok(())
    }

    /// Adds the labels of the NodePool to the node and counts the node for the NodePool. A leaving node counts only for the
    /// limits of a static NodePool.
    fn join_pool(&mut self, node: &mut Node, kind: &InstanceType) {
        let Some(pool) = self.snapshot.pools.iter_mut().find(|it| Some(&it.name) == node.pool.as_ref()) else { return };
        let own = std::mem::replace(&mut node.labels, pool.labels.clone());
        node.labels.extend(own);
        if node.claim.is_some() {
            pool.cost.0 += node.price.unwrap_or_default().0 + pool.node_fee.0;
        }
        if node.leaving.is_none() || pool.replicas.is_some() {
            pool.usage.add(&kind.capacity);
            pool.usage.add(&Resources::from_iter([(Resources::NODES, 1)]));
        }
        pool.running += u32::from(node.leaving.is_none());
    }

    /// Adds the pods of `runs NAME [xN] AMOUNTS`, without constraints. With several nodes, the names of the pods contain the
    /// name of their node.
    fn runs(&mut self, node: &str, several: bool, rest: &[String]) -> Result<(), String> {
        let (name, rest) = rest.split_first().ok_or("runs what?")?;
        let name = if several { format!("{node}-{name}") } else { name.clone() };
        let count = rest.first().and_then(|word| statement::times(word));
        let amounts = rest[usize::from(count.is_some())..].join(" ");
        self.statement(&match count {
            Some(count) => format!("pod {name} x{count} requests {amounts} on {node}"),
            None => format!("pod {name} requests {amounts} on {node}"),
        })
    }

    fn finish(mut self) -> Scenario {
        for catalogue in &mut self.catalogues {
            catalogue.types.sort_by(|one, other| one.name.cmp(&other.name));
            catalogue.shifted_zones.clone_from(&self.shifted_zones);
            let offerings = catalogue.types.iter_mut().flat_map(|kind| &mut kind.offerings);
            offerings.for_each(|offering| offering.available &= !self.shifted_zones.contains(&offering.zone));
        }
        if self.catalogues.is_empty() {
            self.catalogues.push(Catalogue::default());
        }
        self.snapshot.catalogues = self.catalogues.into_iter().map(Arc::new).collect();
        let pools = || self.snapshot.pools.iter();
        let of_all = self.cost_limit.map(|limit| SpendLimit {
            name: SpendLimit::OF_ALL_NODES.to_owned(),
            limit,
            pools: pools().map(|pool| pool.name.clone()).collect(),
            ..SpendLimit::default()
        });
        self.snapshot.spend_limits.extend(of_all);
        for limit in &mut self.snapshot.spend_limits {
            let own = self.snapshot.pools.iter().filter(|pool| limit.pools.contains(&pool.name));
            limit.cost = MicroDollars(own.map(|pool| pool.cost.0).sum());
        }
        self.snapshot.pay_for_nodes();
        Scenario { snapshot: self.snapshot, expected: self.expected }
    }
}

/// Splits `namespace/name` into the namespace and the plain name.
fn namespaced(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or(("default", name))
}
