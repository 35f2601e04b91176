//! Resource amounts as short vectors: each resource that some pod requests is a dimension, and so are the volume attachments of
//! each CSI driver.

use std::collections::{BTreeMap, BTreeSet};

use crate::{HostPort, PodShape, Resources, Snapshot};

/// One amount per dimension.
pub(in crate::provision) type Amounts = Box<[i64]>;

/// Amount above every capacity that is still small enough for additions.
const UNBOUNDED: i64 = i64::MAX / 4;

/// Requests and host ports of the pods of a launch.
#[derive(Clone, Copy, Default)]
pub(in crate::provision) struct Load<'l> {
    pub(in crate::provision) used: &'l [i64],
    pub(in crate::provision) ports: &'l [HostPort],
    /// Amounts that the launch has reserved from its NodePool's limits.
    pub(in crate::provision) held: &'l [i64],
}

/// Dimensions in the order of their names.
pub(in crate::provision) struct Dimensions {
    resources: Vec<String>,
    drivers: Vec<String>,
}

impl Dimensions {
    pub(in crate::provision) fn new(snapshot: &Snapshot) -> Self {
        let daemons = snapshot.daemons.iter().map(|daemon| &daemon.shape);
        let shapes: Vec<&PodShape> = snapshot.shapes.iter().map(AsRef::as_ref).chain(daemons).collect();
        let asked = shapes.iter().flat_map(|shape| shape.requests.iter());
        let resources: BTreeSet<&str> = asked.filter(|(_, amount)| *amount > 0).map(|(name, _)| name).collect();
        let drivers: BTreeSet<&str> =
            shapes.iter().flat_map(|shape| &shape.volumes).filter_map(|volume| volume.driver.as_deref()).collect();
        Self {
            resources: resources.into_iter().map(str::to_owned).collect(),
            drivers: drivers.into_iter().map(str::to_owned).collect(),
        }
    }

    /// Returns the amounts of resources, without attachments.
    pub(in crate::provision) fn amounts(&self, resources: &Resources) -> Amounts {
        self.with_attachments(resources, |_| 0)
    }

    /// Subtracts resources from free amounts.
    pub(in crate::provision) fn subtract(&self, left: &mut Amounts, resources: &Resources) {
        left.iter_mut().zip(&self.resources).for_each(|(left, name)| *left -= resources.get(name));
    }

    /// Returns a pod's requests, with one attachment for each of its volumes.
    pub(in crate::provision) fn requests(&self, shape: &PodShape) -> Amounts {
        let mut amounts = self.amounts(&shape.requests);
        for driver in shape.volumes.iter().filter_map(|volume| volume.driver.as_deref()) {
            self.add_attachments(&mut amounts, driver, 1);
        }
        amounts
    }

    /// Returns the amounts of a node. Attachments without a limit are unbounded.
    pub(in crate::provision) fn node_amounts(
        &self,
        resources: &Resources,
        attach_limits: &BTreeMap<String, i64>,
    ) -> Amounts {
        self.with_attachments(resources, |driver| attach_limits.get(driver).copied().unwrap_or(UNBOUNDED))
    }

    fn with_attachments(&self, resources: &Resources, attachments: impl Fn(&String) -> i64) -> Amounts {
        let mut amounts = Vec::with_capacity(self.resources.len() + self.drivers.len());
        amounts.extend(self.resources.iter().map(|name| resources.get(name)));
        amounts.extend(self.drivers.iter().map(attachments));
        amounts.into()
    }

    /// Adds attachments of one driver; drivers that no pending pod uses have no dimension.
    pub(in crate::provision) fn add_attachments(&self, amounts: &mut Amounts, driver: &str, count: i64) {
        if let Some(dimension) = self.of_driver(driver) {
            amounts[dimension] += count;
        }
    }

    /// Returns the dimension of a resource, if some pod requests it.
    pub(in crate::provision) fn of_resource(&self, name: &str) -> Option<usize> {
        self.resources.binary_search_by(|it| it.as_str().cmp(name)).ok()
    }

    fn of_driver(&self, driver: &str) -> Option<usize> {
        self.drivers.binary_search_by(|it| it.as_str().cmp(driver)).ok().map(|it| self.resources.len() + it)
    }

    /// Returns the volumes of a shape whose attachments are counted: position and dimension.
    pub(in crate::provision) fn attachments(&self, shape: &PodShape) -> Vec<(usize, usize)> {
        let volumes = shape.volumes.iter().enumerate();
        volumes.filter_map(|(position, it)| Some((position, self.of_driver(it.driver.as_deref()?)?))).collect()
    }

    /// Returns the display name of a dimension.
    pub(in crate::provision) fn name(&self, dimension: usize) -> String {
        match self.resources.get(dimension) {
            Some(resource) => resource.clone(),
            None => format!("attachments of {}", self.drivers[dimension - self.resources.len()]),
        }
    }
}

/// Reports whether every request above zero fits.
pub(in crate::provision) fn fits(asked: &[i64], free: &[i64]) -> bool {
    asked.iter().zip(free).all(|(asked, free)| *asked <= 0 || asked <= free)
}

/// Returns the first dimension in which the request exceeds the available amount.
pub(in crate::provision) fn first_lacking(asked: &[i64], free: &[i64]) -> Option<usize> {
    asked.iter().zip(free).position(|(asked, free)| *asked > 0 && asked > free)
}

/// Returns how many more times `one` fits beside `used`.
pub(in crate::provision) fn times(one: &[i64], used: &[i64], free: &[i64]) -> usize {
    let each = one.iter().zip(used).zip(free).filter(|((one, _), _)| **one > 0);
    let fewest = each.map(|((one, used), free)| (free - used).max(0) / one).min();
    fewest.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(0))
}

/// Adds `one` the given number of times.
pub(in crate::provision) fn add(sum: &mut [i64], one: &[i64], count: usize) {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    sum.iter_mut().zip(one).for_each(|(sum, one)| *sum = sum.saturating_add(one.saturating_mul(count)));
}
