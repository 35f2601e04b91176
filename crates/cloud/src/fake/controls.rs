//! Test controls of everything except instances: prices, reservations, placement groups, roles, status checks, the cluster,
//! queues and their events.

use super::FakeCloud;
use crate::calls::{
    CapacityReservation, ClusterDescription, InstanceProfile, InstanceStatus, OnDemandPrice, PlacementGroup, ZonalShift,
};
use crate::policy::evaluation::PolicySet;

impl FakeCloud {
    /// Sets one on-demand price, in millionths of a dollar per hour; `None` removes the type from the price list.
    pub fn set_on_demand_price(&self, instance_type: &str, micro_dollars: Option<i64>) {
        let (mut state, _) = self.at_present();
        match micro_dollars {
            Some(price) => state.on_demand.insert(instance_type.to_owned(), price),
            None => state.on_demand.remove(instance_type),
        };
    }

    /// Returns the price list.
    #[must_use]
    pub fn on_demand_list(&self) -> Vec<OnDemandPrice> {
        self.at_present().0.on_demand()
    }

    /// Adds a reservation, or replaces the one with the same id.
    pub fn set_reservation(&self, reservation: CapacityReservation) {
        let (mut state, _) = self.at_present();
        state.reservations.retain(|one| one.id != reservation.id);
        state.reservations.push(reservation);
    }

    /// Returns the current reservation in any state.
    #[must_use]
    pub fn reservation(&self, id: &str) -> Option<CapacityReservation> {
        self.at_present().0.reservations.iter().find(|one| one.id == id).cloned()
    }

    /// Adds a placement group, or replaces the one with the same id.
    pub fn set_placement_group(&self, group: PlacementGroup) {
        let (mut state, _) = self.at_present();
        state.placement_groups.retain(|one| one.id != group.id);
        state.placement_groups.push(group);
    }

    /// Lets these policies of the controller's role authorize every call; `None` allows all calls. A refused call is in the log
    /// with the fault `Unauthorized`.
    pub fn set_policies(&self, policies: Option<PolicySet>) {
        self.at_present().0.policies = policies;
    }

    /// Creates a role, so that instance profiles can use it.
    pub fn add_role(&self, name: &str) {
        self.at_present().0.profiles.roles.insert(name.to_owned());
    }

    /// Deletes a role; instance profiles keep its name.
    pub fn remove_role(&self, name: &str) {
        self.at_present().0.profiles.roles.remove(name);
    }

    /// Removes the service-linked role for EC2 Spot and the permission to create it, as in an account that never launched spot.
    pub fn take_spot_role_away(&self) {
        self.at_present().0.without_spot_role = true;
    }

    /// Returns all instance profiles of the account, without tags.
    #[must_use]
    pub fn profiles(&self) -> Vec<InstanceProfile> {
        self.at_present().0.profiles.under("/")
    }

    /// Sets the DescribeInstanceStatus entry of an instance while it runs.
    pub fn set_status(&self, status: InstanceStatus) {
        self.at_present().0.statuses.insert(status.instance.clone(), status);
    }

    /// Removes the status entry of an instance, which is healthy again.
    pub fn clear_status(&self, instance: &str) {
        self.at_present().0.statuses.remove(instance);
    }

    /// Sets the EKS description of a cluster.
    pub fn set_cluster(&self, name: &str, cluster: ClusterDescription) {
        self.at_present().0.clusters.insert(name.to_owned(), cluster);
    }

    /// Sets the zonal shifts of an existing cluster, which is registered with ARC; `None` removes the registration.
    pub fn set_zonal_shifts(&self, cluster: &str, shifts: Option<Vec<ZonalShift>>) {
        let (mut state, _) = self.at_present();
        let Some(arn) = state.clusters.get(cluster).map(|cluster| cluster.arn.clone()) else { return };
        match shifts {
            Some(shifts) => state.zonal_shifts.insert(arn, shifts),
            None => state.zonal_shifts.remove(&arn),
        };
    }

    /// Creates a rule that sends the future events of instances to a queue; `None` removes the rule.
    pub fn events_to(&self, queue: Option<&str>) {
        self.at_present().0.event_queue = queue.map(str::to_owned);
    }

    /// Creates an empty queue if it does not exist.
    pub fn create_queue(&self, name: &str) {
        self.at_present().0.queues.create(name);
    }

    /// Deletes a queue with its messages.
    pub fn remove_queue(&self, name: &str) {
        self.at_present().0.queues.remove(name);
    }

    /// Sends a message. Returns false if the queue does not exist.
    pub fn send(&self, queue: &str, body: &str) -> bool {
        let (mut state, now) = self.at_present();
        let sent = state.queues.send(queue, body, now);
        drop(state);
        self.sent.add();
        sent
    }

    /// Returns the number of messages in a queue that are not deleted, hidden ones included.
    #[must_use]
    pub fn queue_length(&self, name: &str) -> usize {
        self.at_present().0.queues.len(name)
    }
}
