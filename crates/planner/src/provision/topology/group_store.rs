//! Groups that copies of a plan share until one of them changes: a saved plan costs one pointer per group.

use std::ops::{Index, IndexMut};
use std::sync::Arc;

use super::{GroupId, TopologyGroup};

/// All groups, by their ids.
#[derive(Clone, Default)]
pub(super) struct GroupStore<'a>(Vec<Arc<TopologyGroup<'a>>>);

impl<'a> GroupStore<'a> {
    pub(super) fn push(&mut self, group: TopologyGroup<'a>) {
        self.0.push(Arc::new(group));
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &TopologyGroup<'a>> {
        self.0.iter().map(AsRef::as_ref)
    }

    /// Returns the ids of groups that changed.
    pub(super) fn changed_since(&self, before: &Self) -> Vec<GroupId> {
        let pairs = self.0.iter().zip(&before.0).enumerate();
        pairs.filter(|(_, (now, before))| !Arc::ptr_eq(now, before)).map(|(group, _)| group).collect()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut TopologyGroup<'a>> {
        self.0.iter_mut().map(Arc::make_mut)
    }
}

impl<'a> Index<GroupId> for GroupStore<'a> {
    type Output = TopologyGroup<'a>;

    fn index(&self, group: GroupId) -> &TopologyGroup<'a> {
        &self.0[group]
    }
}

impl<'a> IndexMut<GroupId> for GroupStore<'a> {
    fn index_mut(&mut self, group: GroupId) -> &mut TopologyGroup<'a> {
        Arc::make_mut(&mut self.0[group])
    }
}
