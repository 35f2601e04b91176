//! Launches: every listed type is available as required and holds all pods together with the DaemonSet overhead.

mod flexibility;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::{InstanceType, Launch, Plan, PodShape, Pool, Purpose, Requirement, Resources, Snapshot, label};

use super::in_flight_node::{InFlightNode, UNMENTIONED};
use super::labels::{first_untolerated, missing_resources, satisfied};
use super::shared_resources::NodePods;
use super::{Findings, InFlightNodes};
use flexibility::Offered;

pub(super) fn check(snapshot: &Snapshot, plan: &Plan, in_flight_nodes: &InFlightNodes<'_>, findings: &mut Findings) {
    for (position, launch) in plan.launches.iter().enumerate() {
        let subject = format!("launch {position}");
        let pool = snapshot.pools.iter().find(|pool| pool.name == launch.pool);
        match pool.zip(in_flight_nodes.get(position)) {
            None => findings.add(subject, format!("pool {} is not in the snapshot", launch.pool)),
            Some((pool, in_flight_node)) => {
                let shapes: BTreeSet<usize> = launch.pods.iter().map(|pod| snapshot.pods[*pod].shape).collect();
                let suited = shapes.iter().map(|shape| (*shape, in_flight_node.compatible_types(*shape))).collect();
                CheckedLaunch { snapshot, pool, launch, in_flight_node, shapes, suited, subject }.check(findings);
            }
        }
    }
}

struct CheckedLaunch<'a> {
    snapshot: &'a Snapshot,
    pool: &'a Pool,
    launch: &'a Launch,
    in_flight_node: &'a InFlightNode<'a>,
    /// Distinct shapes of its pods.
    shapes: BTreeSet<usize>,
    /// For each of these shapes, the types where its pods fit.
    suited: Vec<(usize, Rc<[bool]>)>,
    subject: String,
}

impl<'a> CheckedLaunch<'a> {
    fn check(&self, findings: &mut Findings) {
        self.form(findings);
        self.pauses(findings);
        self.contradictions(findings);
        self.taints(findings);
        let listed = self.listed(findings);
        let mut pods = Resources::default();
        for pod in &self.launch.pods {
            pods.add(&self.snapshot.shapes[self.snapshot.pods[*pod].shape].requests);
        }
        findings.expect(missing_resources(&pods, &self.launch.requests).is_empty(), &self.subject, || {
            "requests less than its pods".to_owned()
        });
        let mut wanted: BTreeMap<&[usize], Resources> = BTreeMap::new();
        for kind in &listed {
            let daemons = self.in_flight_node.daemons()[*kind].as_slice();
            let wanted = wanted.entry(daemons).or_insert_with(|| self.wanted(*kind, &pods));
            self.kind(*kind, wanted, findings);
        }
        self.sharing(&listed, findings);
        Offered::new(self, &listed).check(findings);
    }

    /// Returns the positions of the listed types among those of the in-flight node.
    fn listed(&self, findings: &mut Findings) -> Vec<usize> {
        let listed = self.in_flight_node.positions(&self.launch.instance_types);
        if listed.len() < self.launch.instance_types.len() {
            let known =
                |name: &String| listed.iter().any(|position| self.in_flight_node.kinds[*position].0.name == *name);
            for name in self.launch.instance_types.iter().filter(|name| !known(name)) {
                findings.add(&self.subject, format!("type {name} is not in the pool's catalogue"));
            }
        }
        listed
    }

    /// Checks that the launch respects the pauses of its pods, and that of its static NodePool.
    fn pauses(&self, findings: &mut Findings) {
        let mut shapes = self.shapes.iter().map(|shape| &self.snapshot.shapes[*shape]);
        let paused = shapes.any(|shape| shape.pause_in(&self.pool.name).is_some());
        findings.expect(!paused, &self.subject, || "is made for pods whose launches are paused".to_owned());
        let replica = self.launch.purpose == Purpose::Static && self.pool.paused_until.is_some();
        findings.expect(!replica, &self.subject, || "is made for a static pool whose launches are paused".to_owned());
    }

    fn form(&self, findings: &mut Findings) {
        let (launch, subject) = (self.launch, &self.subject);
        let distinct: BTreeSet<&String> = launch.instance_types.iter().collect();
        let most = self.snapshot.policy.max_instance_types;
        let is_successor = launch.purpose == Purpose::Replacement && self.pool.replicas.is_some();
        let asked_for = launch.purpose == Purpose::Static || is_successor || !launch.pods.is_empty();
        findings.expect(asked_for, subject, || "carries no pod".to_owned());
        findings.expect(!distinct.is_empty(), subject, || "lists no types".to_owned());
        findings.expect(distinct.len() == launch.instance_types.len(), subject, || "lists a type twice".to_owned());
        findings.expect(distinct.len() <= most, subject, || format!("lists more than {most} types"));
        let hidden = |it: &Requirement| it.key == label::HOSTNAME || it.key == label::INSTANCE_TYPE;
        findings.expect(!launch.requirements.iter().any(hidden), subject, || "names a host or types".to_owned());
    }

    /// Checks that the launch's requirements leave a possibility for every label: a named value, an adjacent or other value, or
    /// the absence of the label.
    fn contradictions(&self, findings: &mut Findings) {
        for asked in &self.launch.requirements {
            let own: Vec<&Requirement> = self.launch.requirements.iter().filter(|own| own.key == asked.key).collect();
            let named = own.iter().flat_map(|own| &own.values);
            let beside = named.clone().filter_map(|value| value.parse::<i64>().ok());
            let beside = beside.flat_map(|it| [it.saturating_sub(1), it.saturating_add(1)]).map(|it| it.to_string());
            let some = named.cloned().chain(beside).chain([UNMENTIONED.to_owned()]);
            let possible = some.map(Some).chain([None]).any(|it| own.iter().all(|own| satisfied(own, it.as_deref())));
            findings.expect(possible, &self.subject, || format!("allows no value of {}", asked.key));
        }
    }

    fn taints(&self, findings: &mut Findings) {
        for pod in &self.launch.pods {
            let pod = &self.snapshot.pods[*pod];
            if let Some(taint) = first_untolerated(&self.pool.taints, &self.snapshot.shapes[pod.shape].tolerations) {
                findings.add(&self.subject, format!("pod {} does not bear taint {taint}", pod.name));
            }
        }
    }

    /// Checks one type: it is available, every pod fits wherever it starts, and all pods fit together.
    fn kind(&self, position: usize, wanted: &Resources, findings: &mut Findings) {
        let (kind, offerings) = &self.in_flight_node.kinds[position];
        let (name, subject) = (&kind.name, &self.subject);
        let had = offerings.iter().any(|offering| offering.available);
        findings.expect(had, subject, || format!("type {name} cannot be had as required"));
        for (shape, _) in self.suited.iter().filter(|(_, suited)| !suited[position]) {
            let pod = self.launch.pods.iter().map(|pod| &self.snapshot.pods[*pod]).find(|pod| pod.shape == *shape);
            let pod = pod.map_or("", |pod| &pod.name);
            findings.add(subject, format!("type {name} may come up in a way that does not suit pod {pod}"));
        }
        let lacking = missing_resources(wanted, &kind.allocatable);
        // A static NodePool gets its nodes also where DaemonSet pods alone exceed them.
        let fits = lacking.is_empty() || self.launch.pods.is_empty();
        findings.expect(fits, subject, || format!("type {name} lacks {}", lacking.join(", ")));
        let above: Vec<&str> =
            self.launch.requests.iter().filter(|it| it.1 > wanted.get(it.0)).map(|it| it.0).collect();
        // The requests include the minimum overhead as the NodePool computes it, possibly with more DaemonSets than here.
        let explained = above.is_empty() || {
            let daemons: Resources = self.all_daemons();
            above.iter().all(|name| self.launch.requests.get(name) <= wanted.get(name) + daemons.get(name))
        };
        findings.expect(explained, subject, || format!("requests too much: {}", above.join(", ")));
    }

    /// Returns the total requests of these pods and of the DaemonSet pods of one type.
    fn wanted(&self, position: usize, pods: &Resources) -> Resources {
        let mut wanted = pods.clone();
        self.daemons(position).for_each(|daemon| wanted.add(&daemon.requests));
        wanted
    }

    fn all_daemons(&self) -> Resources {
        let mut all = Resources::default();
        self.snapshot.daemons.iter().for_each(|daemon| all.add(&daemon.shape.requests));
        all
    }

    /// Returns the DaemonSets whose pods run on a node of one type in every case.
    fn daemons(&self, position: usize) -> impl Iterator<Item = &'a PodShape> {
        let daemons =
            self.in_flight_node.daemons()[position].iter().map(|daemon| &self.snapshot.daemons[*daemon].shape);
        daemons.filter(|shape| first_untolerated(&self.pool.taints, &shape.tolerations).is_none())
    }

    /// Checks host ports and attachments, once for all types with equal limits.
    fn sharing(&self, listed: &[usize], findings: &mut Findings) {
        let assigned = NodePods { snapshot: self.snapshot, subject: &self.subject, pods: &self.launch.pods };
        let ported = |kind: &usize| self.daemons(*kind).filter(|daemon| !daemon.ports.is_empty()).collect();
        for residents in listed.iter().map(ported).collect::<BTreeSet<Vec<&PodShape>>>() {
            assigned.ports(&residents, findings);
        }
        let kinds = listed.iter().map(|kind| self.in_flight_node.kinds[*kind].0);
        let limits: BTreeMap<&BTreeMap<String, i64>, &str> =
            kinds.rev().map(|kind| (&kind.attach_limits, kind.name.as_str())).collect();
        for (limits, name) in limits {
            assigned.attachments(None, limits, &format!("type {name} "), findings);
        }
    }

    fn attaches(&self, kind: &InstanceType, shape: usize) -> bool {
        let volumes = &self.snapshot.shapes[shape].volumes;
        let of = |driver: &String| volumes.iter().filter(|volume| volume.driver.as_ref() == Some(driver)).count();
        kind.attach_limits.iter().all(|(driver, limit)| i64::try_from(of(driver)).is_ok_and(|count| count <= *limit))
    }

    /// Reports whether one pod of each shape alone could have the type now.
    fn could_list(&self, position: usize) -> bool {
        let (kind, offerings): &(&InstanceType, _) = &self.in_flight_node.kinds[position];
        // The NodePool may leave open which DaemonSet pods run: all of them count.
        let daemons = self.snapshot.daemons.iter().map(|daemon| &daemon.shape);
        let daemons: Vec<&PodShape> =
            daemons.filter(|it| first_untolerated(&self.pool.taints, &it.tolerations).is_none()).collect();
        let alone = |shape: &usize| {
            let shape = *shape;
            let mut wanted = self.snapshot.shapes[shape].requests.clone();
            daemons.iter().for_each(|daemon| wanted.add(&daemon.requests));
            let mut ports = daemons.iter().flat_map(|daemon| &daemon.ports);
            let free = ports.all(|port| !self.snapshot.shapes[shape].ports.iter().any(|it| it.clashes(port)));
            self.attaches(kind, shape)
                && free
                && self.in_flight_node.compatible_types(shape)[position]
                && missing_resources(&wanted, &kind.allocatable).is_empty()
        };
        offerings.iter().any(|offering| offering.available) && self.shapes.iter().all(alone)
    }
}
