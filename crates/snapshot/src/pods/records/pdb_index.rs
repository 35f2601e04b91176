//! Index of PodDisruptionBudgets by the pods that they select.
//!
//! All pairs of a hundred thousand pods and a thousand budgets are too many. The index sorts budgets by namespace and by one of
//! their labels, so that each pod needs one lookup. When the status of a budget changes, only its pods are evaluated again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::objects::{Pod, PodDisruptionBudget};

/// Namespace and name of a budget.
type Name = (String, String);

/// Index of all budgets.
#[derive(Default)]
pub(crate) struct PdbIndex {
    former: Vec<Arc<PodDisruptionBudget>>,
    ids: BTreeMap<Name, u32>,
    slots: Vec<Option<PdbEntry>>,
    free: Vec<u32>,
    namespaces: BTreeMap<String, NamespaceIndex>,
}

/// A budget with the records of its pods.
struct PdbEntry {
    budget: Arc<PodDisruptionBudget>,
    pods: BTreeSet<u32>,
}

/// The budgets of one namespace.
#[derive(Default)]
struct NamespaceIndex {
    /// Budgets by one label that their pods must have, key and value.
    labelled: BTreeMap<String, BTreeMap<String, Vec<u32>>>,
    /// Budgets that require no label with a value.
    others: Vec<u32>,
}

/// Effect of an update.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PdbChange {
    /// Namespaces in which pods may have other budgets.
    pub(crate) namespaces: BTreeSet<String>,
    /// Records of pods whose budgets changed their decision.
    pub(crate) pods: BTreeSet<u32>,
}

impl PdbIndex {
    /// Updates the index to a new list of budgets.
    pub(crate) fn refresh(&mut self, budgets: &[&Arc<PodDisruptionBudget>]) -> PdbChange {
        let mut change = PdbChange::default();
        let same = |(one, other): (&Arc<PodDisruptionBudget>, &&Arc<PodDisruptionBudget>)| Arc::ptr_eq(one, other);
        if self.former.len() == budgets.len() && self.former.iter().zip(budgets).all(same) {
            return change;
        }
        self.former = budgets.iter().map(|budget| Arc::clone(budget)).collect();
        let mut gone = std::mem::take(&mut self.ids);
        for budget in budgets {
            let name = name(budget);
            let id = match gone.remove(&name) {
                Some(id) => {
                    self.replace(id, budget, &mut change);
                    id
                }
                None => {
                    change.namespaces.insert(name.0.clone());
                    self.store(PdbEntry { budget: Arc::clone(budget), pods: BTreeSet::new() })
                }
            };
            self.ids.insert(name, id);
        }
        for ((namespace, _), id) in gone {
            change.namespaces.insert(namespace);
            self.slots[id as usize] = None;
            self.free.push(id);
        }
        change.namespaces.iter().for_each(|namespace| self.index_namespace(namespace));
        change
    }

    /// Returns the budgets of a pod, by name.
    pub(crate) fn budgets_of(&self, pod: &Pod) -> Vec<u32> {
        let Some(index) = self.namespaces.get(pod.namespace()) else { return Vec::new() };
        let labels = pod.metadata.labels.iter().flatten();
        let labelled = labels.filter_map(|(key, value)| index.labelled.get(key)?.get(value)).flatten();
        let named = labelled.chain(&index.others).filter_map(|id| Some((*id, self.get(*id)?)));
        let mut all: Vec<(u32, &PodDisruptionBudget)> = named.filter(|(_, budget)| budget.selects(pod)).collect();
        all.sort_by_key(|(_, budget)| budget.metadata.name.as_deref());
        all.into_iter().map(|(id, _)| id).collect()
    }

    /// Returns a budget by id.
    pub(crate) fn get(&self, id: u32) -> Option<&PodDisruptionBudget> {
        Some(&self.slots.get(id as usize)?.as_ref()?.budget)
    }

    /// Returns the budgets without pods, by name.
    pub(crate) fn idle(&self) -> impl Iterator<Item = &PodDisruptionBudget> {
        let all = self.ids.values().filter_map(|id| self.slots.get(*id as usize)?.as_ref());
        all.filter(|entry| entry.pods.is_empty()).map(|entry| entry.budget.as_ref())
    }

    /// Replaces the former budgets of a record with the present ones.
    pub(crate) fn assign(&mut self, record: u32, former: &[u32], present: &[u32]) {
        for id in former {
            if let Some(entry) = self.slots.get_mut(*id as usize).and_then(Option::as_mut) {
                entry.pods.remove(&record);
            }
        }
        for id in present {
            if let Some(entry) = self.slots.get_mut(*id as usize).and_then(Option::as_mut) {
                entry.pods.insert(record);
            }
        }
    }

    fn replace(&mut self, id: u32, budget: &Arc<PodDisruptionBudget>, change: &mut PdbChange) {
        let Some(entry) = self.slots[id as usize].as_mut() else { return };
        let former = std::mem::replace(&mut entry.budget, Arc::clone(budget));
        if former.spec.selector != budget.spec.selector {
            change.namespaces.insert(name(budget).0);
        }
        let answers = |budget: &PodDisruptionBudget| {
            let allows = (
                budget.allows_ready_eviction(),
                budget.allows_unready_eviction(),
                budget.allows_eviction_beside_copy(),
            );
            (allows, budget.never_allows_eviction(), budget.requires_all_pods().then(|| budget.blocking_setting()))
        };
        if answers(&former) != answers(budget) {
            change.pods.extend(&entry.pods);
        }
    }

    fn store(&mut self, entry: PdbEntry) -> u32 {
        if let Some(id) = self.free.pop() {
            self.slots[id as usize] = Some(entry);
            return id;
        }
        self.slots.push(Some(entry));
        u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
    }

    /// Rebuilds the index of one namespace.
    fn index_namespace(&mut self, namespace: &str) {
        let mut index = NamespaceIndex::default();
        let from = (namespace.to_owned(), String::new());
        for (_, id) in self.ids.range(from..).take_while(|((own, _), _)| own == namespace) {
            let Some(selector) = self.get(*id).and_then(|budget| budget.spec.selector.as_ref()) else { continue };
            match selector.match_labels.first_key_value() {
                Some((key, value)) => {
                    index.labelled.entry(key.clone()).or_default().entry(value.clone()).or_default().push(*id);
                }
                None => index.others.push(*id),
            }
        }
        self.namespaces.insert(namespace.to_owned(), index);
        self.namespaces.retain(|_, index| !index.labelled.is_empty() || !index.others.is_empty());
    }
}

fn name(budget: &PodDisruptionBudget) -> Name {
    (budget.metadata.namespace.clone().unwrap_or_default(), budget.metadata.name.clone().unwrap_or_default())
}
