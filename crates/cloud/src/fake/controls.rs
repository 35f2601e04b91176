//! The hands of a test on what is not an instance: prices, reservations, groups, roles, health, the cluster.

use super::FakeCloud;
use crate::calls::{
    CapacityReservation, ClusterDescription, InstanceProfile, InstanceStatus, OnDemandPrice, PlacementGroup,
};

impl FakeCloud {
    /// Sets one on-demand price, millionths of a dollar per hour; `None` takes the type out of the price list.
    pub fn set_on_demand_price(&self, instance_type: &str, micro_dollars: Option<i64>) {
        let (mut world, _) = self.at_present();
        match micro_dollars {
            Some(price) => world.on_demand.insert(instance_type.to_owned(), price),
            None => world.on_demand.remove(instance_type),
        };
    }

    /// The prices of the list.
    #[must_use]
    pub fn on_demand_list(&self) -> Vec<OnDemandPrice> {
        self.at_present().0.on_demand()
    }

    /// Puts a reservation in place of the one with its id, or beside the others.
    pub fn set_reservation(&self, reservation: CapacityReservation) {
        let (mut world, _) = self.at_present();
        world.reservations.retain(|one| one.id != reservation.id);
        world.reservations.push(reservation);
    }

    /// A reservation as it is now, whatever its state.
    #[must_use]
    pub fn reservation(&self, id: &str) -> Option<CapacityReservation> {
        self.at_present().0.reservations.iter().find(|one| one.id == id).cloned()
    }

    /// Puts a placement group in place of the one with its id, or beside the others.
    pub fn set_placement_group(&self, group: PlacementGroup) {
        let (mut world, _) = self.at_present();
        world.placement_groups.retain(|one| one.id != group.id);
        world.placement_groups.push(group);
    }

    /// Makes a role, so that profiles can take it.
    pub fn add_role(&self, name: &str) {
        self.at_present().0.profiles.roles.insert(name.to_owned());
    }

    /// Takes a role away; profiles keep its name.
    pub fn remove_role(&self, name: &str) {
        self.at_present().0.profiles.roles.remove(name);
    }

    /// An account that never bought spot, and in which only others may make the role for it.
    pub fn take_spot_role_away(&self) {
        self.at_present().0.without_spot_role = true;
    }

    /// Every instance profile of the account, without tags.
    #[must_use]
    pub fn profiles(&self) -> Vec<InstanceProfile> {
        self.at_present().0.profiles.under("/")
    }

    /// What DescribeInstanceStatus says of an instance from now on, as long as it runs.
    pub fn set_status(&self, status: InstanceStatus) {
        self.at_present().0.statuses.insert(status.instance.clone(), status);
    }

    /// The instance is well again.
    pub fn clear_status(&self, instance: &str) {
        self.at_present().0.statuses.remove(instance);
    }

    /// What EKS says of a cluster from now on.
    pub fn set_cluster(&self, name: &str, cluster: ClusterDescription) {
        self.at_present().0.clusters.insert(name.to_owned(), cluster);
    }
}
