//! Every type that a launch lists can be had as required and holds all its pods with the daemons that come along.

use std::collections::BTreeSet;

use crate::{
    Daemon, InstanceType, Launch, MicroDollars, Offering, Plan, Pool, Requirement, Resources, Snapshot, label,
};

use super::Findings;
use super::labels::{alternatives, lacking, possible, satisfied, unborne};

pub(super) fn check(snapshot: &Snapshot, plan: &Plan, findings: &mut Findings) {
    for (position, launch) in plan.launches.iter().enumerate() {
        let subject = format!("launch {position}");
        match snapshot.pools.iter().find(|pool| pool.name == launch.pool) {
            None => findings.add(subject, format!("pool {} is not in the snapshot", launch.pool)),
            Some(pool) => {
                let shapes = launch.pods.iter().map(|pod| snapshot.pods[*pod].shape).collect();
                Checked { snapshot, pool, launch, shapes, subject }.check(findings);
            }
        }
    }
}

struct Checked<'a> {
    snapshot: &'a Snapshot,
    pool: &'a Pool,
    launch: &'a Launch,
    /// The distinct shapes of its pods.
    shapes: BTreeSet<usize>,
    subject: String,
}

/// A listed type with the offerings that can be had as the launch requires.
type Listed<'a> = (&'a InstanceType, Vec<&'a Offering>);

impl<'a> Checked<'a> {
    fn check(&self, findings: &mut Findings) {
        self.shape(findings);
        self.contradictions(findings);
        self.taints(findings);
        let types = self.snapshot.catalogues.get(self.pool.catalogue).map_or(&[][..], |it| &it.types);
        let mut listed = Vec::new();
        for name in &self.launch.instance_types {
            match types.iter().find(|kind| kind.name == *name) {
                None => findings.add(&self.subject, format!("type {name} is not in the pool's catalogue")),
                Some(kind) => listed.push((kind, self.offerings(kind))),
            }
        }
        let mut pods = Resources::default();
        for pod in &self.launch.pods {
            pods.add(&self.snapshot.shapes[self.snapshot.pods[*pod].shape].requests);
        }
        for (kind, offerings) in &listed {
            self.kind(kind, offerings, &pods, findings);
        }
        self.prices(&listed, findings);
        self.min_values(&listed, findings);
    }

    fn shape(&self, findings: &mut Findings) {
        let (launch, subject) = (self.launch, &self.subject);
        let distinct: BTreeSet<&String> = launch.instance_types.iter().collect();
        let most = self.snapshot.policy.max_instance_types;
        findings.expect(!launch.pods.is_empty(), subject, || "carries no pod".to_owned());
        findings.expect(!distinct.is_empty(), subject, || "lists no types".to_owned());
        findings.expect(distinct.len() == launch.instance_types.len(), subject, || "lists a type twice".to_owned());
        findings.expect(distinct.len() <= most, subject, || format!("lists more than {most} types"));
        let hidden = |it: &Requirement| it.key == label::HOSTNAME || it.key == label::INSTANCE_TYPE;
        findings.expect(!launch.requirements.iter().any(hidden), subject, || "names a host or types".to_owned());
    }

    /// The launch's own requirements leave something for every label: a value that they name or one beside it, one that
    /// nobody names, or none at all.
    fn contradictions(&self, findings: &mut Findings) {
        for asked in &self.launch.requirements {
            let own: Vec<&Requirement> = self.launch.requirements.iter().filter(|own| own.key == asked.key).collect();
            let named = own.iter().flat_map(|own| &own.values);
            let beside = named.clone().filter_map(|value| value.parse::<i64>().ok());
            let beside = beside.flat_map(|it| [it.saturating_sub(1), it.saturating_add(1)]).map(|it| it.to_string());
            let unmentioned = "a value that nobody mentions".to_owned();
            let some = named.cloned().chain(beside).chain([unmentioned]);
            let possible = some.map(Some).chain([None]).any(|it| own.iter().all(|own| satisfied(own, it.as_deref())));
            findings.expect(possible, &self.subject, || format!("allows no value of {}", asked.key));
        }
    }

    fn taints(&self, findings: &mut Findings) {
        for pod in &self.launch.pods {
            let pod = &self.snapshot.pods[*pod];
            if let Some(taint) = unborne(&self.pool.taints, &self.snapshot.shapes[pod.shape].tolerations) {
                findings.add(&self.subject, format!("pod {} does not bear taint {taint}", pod.name));
            }
        }
    }

    /// Whether a label that the pool gives to all its nodes is as asked.
    fn given_agrees(&self, asked: &Requirement) -> bool {
        self.pool.labels.get(&asked.key).is_none_or(|value| satisfied(asked, Some(value)))
    }

    /// A label that the cloud does not decide: absent unless the pool's requirements name it; then every value that the
    /// launch still allows must please the pod, one that nobody mentions included.
    fn custom_agrees(&self, asked: &Requirement) -> bool {
        let key = &asked.key;
        let known = self.snapshot.policy.well_known.contains(key) || self.pool.labels.contains_key(key);
        if known || key == label::HOSTNAME {
            return true;
        }
        if !self.pool.requirements.iter().any(|own| own.key == *key) {
            return satisfied(asked, None);
        }
        let unmentioned = "a value that nobody mentions".to_owned();
        let own: Vec<&Requirement> = self.launch.requirements.iter().filter(|own| own.key == *key).collect();
        let values = own.iter().flat_map(|own| &own.values).chain(&asked.values).chain([&unmentioned]);
        let all = values.map(|value| Some(value.as_str())).chain([None]);
        let mut allowed = all.filter(|value| own.iter().all(|own| satisfied(own, *value))).peekable();
        allowed.peek().is_some() && allowed.all(|value| satisfied(asked, value))
    }

    /// One type: an offering can be had for which every requirement of launch, pool and pods can hold, and all fit.
    fn kind(&self, kind: &InstanceType, offerings: &[&Offering], pods: &Resources, findings: &mut Findings) {
        let name = &kind.name;
        findings.expect(!offerings.is_empty(), &self.subject, || format!("type {name} cannot be had as required"));
        let mut wanted = self.overhead(kind, offerings);
        wanted.add(pods);
        let lacking = lacking(&wanted, &kind.allocatable);
        findings.expect(lacking.is_empty(), &self.subject, || format!("type {name} lacks {}", lacking.join(", ")));
        let above: Vec<&str> =
            self.launch.requests.iter().filter(|it| it.1 > wanted.get(it.0)).map(|it| it.0).collect();
        // The least overhead is reserved by the pool's own reckoning, which may count more daemons than this one.
        let daemons: Resources = self.all_daemons();
        let explained = above.iter().all(|name| self.launch.requests.get(name) <= wanted.get(name) + daemons.get(name));
        findings.expect(explained, &self.subject, || format!("requests too much: {}", above.join(", ")));
    }

    fn all_daemons(&self) -> Resources {
        let mut all = Resources::default();
        self.snapshot.daemons.iter().for_each(|daemon| all.add(&daemon.shape.requests));
        all
    }

    /// Available offerings of the type for which every requirement of the launch and one alternative of each pod can hold.
    fn offerings<'k>(&self, kind: &'k InstanceType) -> Vec<&'k Offering> {
        kind.offerings.iter().filter(|offering| offering.available && self.can_be(kind, offering)).collect()
    }

    fn can_be(&self, kind: &InstanceType, offering: &Offering) -> bool {
        let own = self.launch.requirements.iter().chain(&self.pool.requirements);
        let mut shapes = self.shapes.iter().map(|shape| &self.snapshot.shapes[*shape]);
        let suits =
            |it: &&Requirement| self.given_agrees(it) && self.custom_agrees(it) && self.holds(kind, offering, it);
        own.into_iter().all(|it| self.holds(kind, offering, it))
            && shapes.all(|shape| alternatives(shape).iter().any(|all| all.iter().all(suits)))
    }

    /// Whether a node of this type and offering can be as required; labels that the pool gives or that are the claim's own
    /// business are judged elsewhere.
    fn holds(&self, kind: &InstanceType, offering: &Offering, asked: &Requirement) -> bool {
        let key = &asked.key;
        let carried = kind.labels.contains_key(key) || offering.labels.contains_key(key);
        let decided = carried || key == label::ZONE || key == label::CAPACITY_TYPE || key == label::INSTANCE_TYPE;
        let known = self.snapshot.policy.well_known.contains(key);
        if !decided && (self.pool.labels.contains_key(key) || !known) {
            return true;
        }
        possible(kind, offering, key).into_iter().any(|value| satisfied(asked, value))
    }

    /// Requests of the daemons that are sure to come with a node of this type, wherever it is launched.
    fn overhead(&self, kind: &InstanceType, offerings: &[&Offering]) -> Resources {
        let mut overhead = Resources::default();
        for daemon in &self.snapshot.daemons {
            let bears = unborne(&self.pool.taints, &daemon.shape.tolerations).is_none();
            if bears && offerings.iter().any(|offering| self.attracts(daemon, kind, offering)) {
                overhead.add(&daemon.shape.requests);
            }
        }
        overhead
    }

    fn attracts(&self, daemon: &Daemon, kind: &InstanceType, offering: &Offering) -> bool {
        let meets = |it: &&Requirement| {
            let given = self.pool.labels.get(&it.key);
            let own: Vec<&Requirement> = self.launch.requirements.iter().filter(|own| own.key == it.key).collect();
            if let Some(value) = given {
                satisfied(it, Some(value))
            } else if self.snapshot.policy.well_known.contains(&it.key) {
                possible(kind, offering, &it.key)
                    .into_iter()
                    .any(|value| satisfied(it, value) && own.iter().all(|own| satisfied(own, value)))
            } else {
                // A claim's own label: present where the launch names values, absent where it names nothing.
                let allowed = |value: &&String| own.iter().all(|own| satisfied(own, Some(value)));
                let mut values = own.iter().flat_map(|own| &own.values).filter(allowed);
                if own.is_empty() { satisfied(it, None) } else { values.any(|value| satisfied(it, Some(value))) }
            }
        };
        alternatives(&daemon.shape).iter().any(|all| all.iter().all(&meets))
    }

    /// The price is the cheapest offering's, and types stand in the order of theirs.
    fn prices(&self, listed: &[Listed<'_>], findings: &mut Findings) {
        let price = |offerings: &[&Offering]| offerings.iter().map(|offering| offering.price).min();
        let prices: Vec<(Option<MicroDollars>, &str)> =
            listed.iter().map(|(kind, offerings)| (price(offerings), kind.name.as_str())).collect();
        findings.expect(prices.is_sorted(), &self.subject, || format!("types are not cheapest first: {prices:?}"));
        let cheapest = prices.iter().filter_map(|(price, _)| *price).min();
        let said = self.launch.price;
        findings
            .expect(cheapest == Some(said), &self.subject, || format!("says {said:?}, the cheapest is {cheapest:?}"));
    }

    /// Flexibility that the pool asks for is still there.
    fn min_values(&self, listed: &[Listed<'_>], findings: &mut Findings) {
        for asked in self.pool.requirements.iter().filter(|it| it.min_values.is_some()) {
            let mut values = BTreeSet::new();
            for (kind, offerings) in listed {
                for offering in offerings {
                    values.extend(possible(kind, offering, &asked.key).into_iter().flatten());
                }
            }
            let own: Vec<&Requirement> = self.launch.requirements.iter().filter(|own| own.key == asked.key).collect();
            values.retain(|value| satisfied(asked, Some(value)) && own.iter().all(|own| satisfied(own, Some(value))));
            let enough = values.len() >= asked.min_values.unwrap_or_default() as usize;
            findings.expect(enough, &self.subject, || format!("leaves only {} values of {}", values.len(), asked.key));
        }
    }
}
