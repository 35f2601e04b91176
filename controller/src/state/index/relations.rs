//! Objects that belong together: the Node of an instance, the NodeClaim of a Node, and the NodeClaims of a disruption command.
//!
//! A Node can claim any provider id, so after registration only the Node that registered counts. Before, the name of the Node
//! decides: NodeRestriction permits each kubelet only the Node of its own name, and EC2 names the instance.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use api::objects::Node;
use api::status::Conditioned as _;
use api::{NodeClaim, condition};
use cloud::Instance;

use super::{Index, key_of};
use crate::reconcile::work::{Triggers, WorkItem};

/// Instance ids by the names that their Nodes may have; `None` for names of several instances.
#[derive(Debug, Default)]
pub(super) struct InstanceNames(BTreeMap<String, Option<String>>);

impl InstanceNames {
    /// Reads the names of running instances: the private DNS name, from the address or from the resource, and its host part.
    fn new(instances: &[Instance]) -> Self {
        let mut names: BTreeMap<String, Option<String>> = BTreeMap::new();
        for instance in instances.iter().filter(|instance| !instance.is_ending()) {
            let dns = instance.private_dns_name.as_str();
            let host = dns.split('.').next().unwrap_or_default();
            for name in [dns, host].into_iter().filter(|name| !name.is_empty()) {
                match names.entry(name.to_owned()) {
                    Entry::Vacant(entry) => drop(entry.insert(Some(instance.id.clone()))),
                    Entry::Occupied(mut entry) if entry.get().as_ref().is_some_and(|id| *id != instance.id) => {
                        entry.insert(None);
                    }
                    Entry::Occupied(_) => {}
                }
            }
        }
        Self(names)
    }

    /// Returns the instance of a Node name.
    fn instance(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_deref()
    }
}

impl Index {
    /// Stores the names of the instances that EC2 lists, and enqueues the NodeClaims whose Nodes they may decide about.
    pub fn name_instances(&mut self, instances: &[Instance]) -> Triggers {
        self.instance_names = InstanceNames::new(instances);
        let waits = |claim: &&Arc<NodeClaim>| {
            let id = claim.provider_id().unwrap_or_default();
            !claim.is_true(condition::REGISTERED) && self.nodes_by_provider.keys(id).next().is_some()
        };
        let work = self.claims.values().filter(waits).map(|claim| WorkItem::Claim(key_of(claim.as_ref())));
        Triggers { work: work.collect(), ..Triggers::default() }
    }

    /// Returns the nodes of the instance with this provider id: after registration the Node that registered, and before it the Node
    /// with the name of the instance. Without such a Node, all Nodes with the provider id count that have no name of another
    /// instance.
    #[must_use]
    pub fn nodes_of(&self, provider_id: &str) -> Vec<&Arc<Node>> {
        let mut all = self.all_nodes_of(provider_id);
        if let Some(name) = self.registered_name(provider_id) {
            all.retain(|node| node.name() == name);
            return all;
        }
        let counted: Vec<bool> = all.iter().map(|node| self.may_register(node.name(), provider_id, &all)).collect();
        let mut counted = counted.into_iter();
        all.retain(|_| counted.next().unwrap_or_default());
        all
    }

    /// Returns the nodes of a NodeClaim's instance as [`Self::nodes_of`]; none before the launch.
    #[must_use]
    pub fn nodes_of_claim(&self, claim: &NodeClaim) -> Vec<&Arc<Node>> {
        claim.provider_id().map(|id| self.nodes_of(id)).unwrap_or_default()
    }

    /// Returns the node of a NodeClaim, if one exists.
    #[must_use]
    pub fn node_of_claim(&self, claim: &NodeClaim) -> Option<&Arc<Node>> {
        self.nodes_of_claim(claim).into_iter().next()
    }

    /// Returns all nodes that carry this provider id.
    #[must_use]
    pub fn all_nodes_of(&self, provider_id: &str) -> Vec<&Arc<Node>> {
        self.nodes_by_provider.keys(provider_id).filter_map(|key| self.nodes.get(key)).collect()
    }

    /// Returns the NodeClaim with the node's provider id, if there is exactly one, and no other Node registered for it or has the
    /// name of its instance.
    #[must_use]
    pub fn claim_of(&self, node: &Node) -> Option<&Arc<NodeClaim>> {
        let provider_id = node.spec.provider_id.as_str();
        let claim = self.single_claim(provider_id)?;
        let is_own = match self.registered_name(provider_id) {
            Some(name) => name == node.name(),
            None => self.may_register(node.name(), provider_id, &self.all_nodes_of(provider_id)),
        };
        is_own.then_some(claim)
    }

    /// Reports whether a Node of this name may register for the instance, which `all` Nodes claim.
    fn may_register(&self, name: &str, provider_id: &str, all: &[&Arc<Node>]) -> bool {
        let id = provider_id.rsplit('/').next().unwrap_or_default();
        let has_id = all.iter().any(|node| node.name() == id);
        let is_own = |name: &str| name == id || !has_id && self.instance_names.instance(name) == Some(id);
        if all.iter().any(|node| is_own(node.name())) { is_own(name) } else { !self.is_of_another(name, id) }
    }

    /// Reports whether the name of a Node is that of another instance that has a NodeClaim. EC2 may give the address of an ended
    /// instance to a new one, whose NodeClaim is gone by then or is being deleted.
    fn is_of_another(&self, name: &str, id: &str) -> bool {
        let other = self.instance_names.instance(name).unwrap_or(name);
        let claim = (other != id).then(|| self.claim_of_instance(other)).flatten();
        claim.is_some_and(|claim| claim.metadata.deletion_timestamp.is_none())
    }

    /// Returns the name of the Node that registered for the NodeClaim with this provider id.
    fn registered_name(&self, provider_id: &str) -> Option<&str> {
        let claim = self.single_claim(provider_id).filter(|claim| claim.is_true(condition::REGISTERED))?;
        Some(claim.status.as_ref()?.node_name.as_str()).filter(|name| !name.is_empty())
    }

    /// Returns the NodeClaim with this provider id, if there is exactly one.
    #[must_use]
    pub fn single_claim(&self, provider_id: &str) -> Option<&Arc<NodeClaim>> {
        let mut claims = self.claims_by_provider.keys(provider_id);
        let claim = claims.next()?;
        claims.next().is_none().then(|| self.claims.get(claim)).flatten()
    }

    /// Returns the command in progress that disrupts the NodeClaim or that created it; see [`api::annotation::REPLACED_BY`].
    #[must_use]
    pub fn move_of<'a>(&'a self, claim: &'a NodeClaim) -> Option<&'a str> {
        claim.replaced_by().or_else(|| claim.replaces().find_map(|name| self.claims.get(name)?.replaced_by()))
    }

    /// Reports whether a command in progress waits for the NodeClaim.
    #[must_use]
    pub fn is_awaited(&self, claim: &NodeClaim) -> bool {
        let name = key_of(claim);
        let replaced = claim.replaces().filter_map(|replaced| self.claims.get(replaced)?.replaced_by());
        replaced.flat_map(|replacements| replacements.split(',')).any(|replacement| replacement == name)
    }
}

#[cfg(test)]
mod tests;
