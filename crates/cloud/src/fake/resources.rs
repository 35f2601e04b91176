//! Resources that other clients of the account create, change and delete.

mod trials;

use jiff::{SignedDuration, Timestamp};

use super::queue::FakeEvent;
use super::state::FakeState;
use super::{ACCOUNT, FakeCloud, fleet};
use crate::calls::{
    CapacityReservation, FleetError, Image, LaunchTemplateRequest, PlacementGroup, SecurityGroup, Tags,
};

pub(super) use trials::{parameter, selected_by};

/// Time from the notice of an interruption to the termination.
const NOTICE: SignedDuration = SignedDuration::from_mins(2);

/// Calls that Kerf never makes.
#[derive(Clone, Copy)]
pub struct Account<'c> {
    cloud: &'c FakeCloud,
}

impl<'c> Account<'c> {
    pub(super) fn new(cloud: &'c FakeCloud) -> Self {
        Self { cloud }
    }

    /// Creates a security group and returns its id; `None` if the name is taken.
    pub fn create_security_group(&self, name: &str, tags: Tags) -> Option<String> {
        let (mut state, _) = self.cloud.at_present();
        if state.security_groups.iter().any(|group| group.name == name) {
            return None;
        }
        let id = state.new_id("sg");
        state.security_groups.push(SecurityGroup { id: id.clone(), name: name.to_owned(), tags });
        Some(id)
    }

    /// Deletes a security group. Returns false if it does not exist.
    pub fn delete_security_group(&self, id: &str) -> bool {
        let (mut state, _) = self.cloud.at_present();
        let before = state.security_groups.len();
        state.security_groups.retain(|group| group.id != id);
        state.security_groups.len() < before
    }

    /// Removes tags by their keys. Returns the first unknown id as error.
    ///
    /// # Errors
    /// Returns an id without a resource.
    pub fn delete_tags(&self, ids: &[String], keys: &[String]) -> Result<(), String> {
        let (mut state, _) = self.cloud.at_present();
        for id in ids {
            let tags = state.tags_of(id).ok_or_else(|| id.clone())?;
            tags.retain(|key, _| !keys.contains(key));
        }
        Ok(())
    }

    /// Launches an on-demand instance in a subnet with the template's image, as RunInstances does for a managed node group.
    /// Returns its id.
    ///
    /// # Errors
    /// Returns EC2's error.
    pub fn run_instance(
        &self,
        instance_type: &str,
        subnet: &str,
        template: LaunchTemplateRequest,
        tags: Tags,
    ) -> Result<String, Box<FleetError>> {
        let (mut state, now) = self.cloud.at_present();
        let launched = fleet::run(&mut state, instance_type, subnet, template, tags, now);
        drop(state);
        self.cloud.announce(launched.is_ok());
        launched
    }

    /// Names the future instances of a subnet by their ids, or by their addresses. Returns false if the subnet does not exist.
    pub fn name_by_resource(&self, subnet: &str, enabled: bool) -> bool {
        let (mut state, _) = self.cloud.at_present();
        if enabled {
            state.resource_names.insert(subnet.to_owned());
        } else {
            state.resource_names.remove(subnet);
        }
        state.subnets.iter().any(|one| one.id == subnet)
    }

    /// Stops an instance. Returns false if no such instance runs.
    pub fn stop(&self, id: &str) -> bool {
        let (mut state, now) = self.cloud.at_present();
        let running = state.machines.get_mut(id).filter(|machine| machine.instance.state == "running");
        let found = running.map(|machine| {
            "stopping".clone_into(&mut machine.instance.state);
            machine.stopped = Some(now);
        });
        if found.is_some() {
            state.send_event(id, FakeEvent::State("stopping"), now);
        }
        drop(state);
        self.cloud.announce(found.is_some());
        found.is_some()
    }

    /// Creates a reservation with a new id, which it returns.
    pub fn create_reservation(&self, reservation: CapacityReservation) -> CapacityReservation {
        let (mut state, _) = self.cloud.at_present();
        let id = state.new_id("cr");
        let created = CapacityReservation {
            id,
            owner: ACCOUNT.to_owned(),
            state: "active".to_owned(),
            available: reservation.total,
            ..reservation
        };
        state.reservations.push(created.clone());
        created
    }

    /// Cancels a reservation, perhaps again. Its instances continue without it. Returns false if it does not exist.
    pub fn cancel_reservation(&self, id: &str) -> bool {
        let (mut state, _) = self.cloud.at_present();
        let Some(reservation) = state.reservations.iter_mut().find(|one| one.id == id) else { return false };
        "cancelled".clone_into(&mut reservation.state);
        reservation.available = 0;
        for machine in state.machines.values_mut() {
            machine.instance.capacity_reservation_id.take_if(|own| own == id);
        }
        drop(state);
        self.cloud.announce(true);
        true
    }

    /// Makes a part of a reservation's capacity interruptible: a reservation of its own, whose id is the result.
    pub fn allocate_interruptible(&self, source: &str, count: u32, tags: Tags) -> Option<String> {
        let (mut state, _) = self.cloud.at_present();
        let id = state.new_id("cr");
        let lender = state.reservations.iter_mut().find(|one| one.id == source && one.available >= count)?;
        lender.total -= count;
        lender.available -= count;
        let lent = CapacityReservation {
            id: id.clone(),
            interruptible: true,
            total: count,
            available: count,
            tags,
            ..lender.clone()
        };
        state.reservations.push(lent);
        state.interruptible.insert(source.to_owned(), id.clone());
        Some(id)
    }

    /// Returns the id of the interruptible reservation that uses capacity of this one.
    #[must_use]
    pub fn interruptible_of(&self, source: &str) -> Option<String> {
        self.cloud.at_present().0.interruptible.get(source).cloned()
    }

    /// Takes all interruptible capacity back: its instances get a notice and end. Returns false without such capacity.
    pub fn reclaim_interruptible(&self, source: &str) -> bool {
        let (mut state, now) = self.cloud.at_present();
        let Some(id) = state.interruptible.get(source).cloned() else { return false };
        let reclaimed = state.reclaim(source, &id, now);
        drop(state);
        self.cloud.announce(reclaimed);
        reclaimed
    }

    /// Creates a placement group and returns it.
    pub fn create_placement_group(&self, name: &str, strategy: &str, partitions: u32) -> PlacementGroup {
        let (mut state, _) = self.cloud.at_present();
        let group = PlacementGroup {
            id: state.new_id("pg"),
            name: name.to_owned(),
            strategy: strategy.to_owned(),
            state: "available".to_owned(),
            partitions,
        };
        state.placement_groups.push(group.clone());
        group
    }

    /// Returns the placement group of this id.
    #[must_use]
    pub fn placement_group_of(&self, id: &str) -> Option<PlacementGroup> {
        self.cloud.at_present().0.placement_groups.iter().find(|group| group.id == id).cloned()
    }

    /// Deletes a placement group. Returns false if it does not exist.
    pub fn delete_placement_group(&self, name: &str) -> bool {
        let (mut state, _) = self.cloud.at_present();
        let before = state.placement_groups.len();
        state.placement_groups.retain(|group| group.name != name);
        state.placement_groups.len() < before
    }

    /// Copies an image into this account; returns the id of the copy, or `None` without such an image.
    pub fn copy_image(&self, source: &str, name: &str, tags: Tags) -> Option<String> {
        let (mut state, now) = self.cloud.at_present();
        let original = state.images.iter().find(|image| image.id == source)?.clone();
        let id = format!("ami-0{:016x}", 0xc0_0000 + state.images.len());
        let created = now.strftime("%Y-%m-%dT%H:%M:%S.000Z").to_string();
        let copy =
            Image { id: id.clone(), name: name.to_owned(), owner: ACCOUNT.to_owned(), created, tags, ..original };
        state.images.push(copy);
        Some(id)
    }

    /// Deprecates an image; returns false without such an image.
    pub fn deprecate_image(&self, id: &str) -> bool {
        let (mut state, _) = self.cloud.at_present();
        let image = state.images.iter_mut().find(|image| image.id == id);
        image.map(|image| image.deprecated = true).is_some()
    }

    /// Returns names and values of the SSM parameters below a path.
    #[must_use]
    pub fn parameters_below(&self, path: &str) -> Vec<(String, String)> {
        let folder = format!("{}/", path.trim_end_matches('/'));
        let (state, _) = self.cloud.at_present();
        let below = state.parameters.iter().filter(|(name, _)| name.starts_with(&folder));
        below.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Reports whether the role exists.
    #[must_use]
    pub fn has_role(&self, name: &str) -> bool {
        self.cloud.at_present().0.profiles.roles.contains(name)
    }

    /// Returns the name of an image.
    #[must_use]
    pub fn image_name(&self, id: &str) -> Option<String> {
        self.cloud.at_present().0.images.iter().find(|image| image.id == id).map(|image| image.name.clone())
    }

    /// Returns the name of a security group.
    #[must_use]
    pub fn security_group_name(&self, id: &str) -> Option<String> {
        self.cloud.at_present().0.security_groups.iter().find(|group| group.id == id).map(|group| group.name.clone())
    }
}

impl FakeState {
    /// Interrupts the instances of an interruptible reservation, and returns its unused capacity at once.
    fn reclaim(&mut self, source: &str, id: &str, now: Timestamp) -> bool {
        let Some(lent) = self.reservations.iter_mut().find(|one| one.id == id && one.total > 0) else { return false };
        let unused = std::mem::take(&mut lent.available);
        lent.total = 0;
        if let Some(lender) = self.reservations.iter_mut().find(|one| one.id == source) {
            lender.total += unused;
            lender.available += unused;
        }
        let deadline = now.saturating_add(NOTICE).unwrap_or(Timestamp::MAX);
        let uses = |machine: &&mut super::FakeInstance| {
            machine.instance.capacity_reservation_id.as_deref() == Some(id) && !machine.instance.is_ending()
        };
        let mut interrupted = Vec::new();
        for machine in self.machines.values_mut().filter(uses) {
            machine.interruption = Some(deadline);
            interrupted.push(machine.instance.id.clone());
        }
        for instance in interrupted {
            self.send_event(&instance, FakeEvent::ReservationInterruption, now);
        }
        self.end_interruptible();
        true
    }

    /// Returns the capacity of an instance to its reservation, or to the one that has taken it back.
    pub(super) fn return_to_reservation(&mut self, id: &str) {
        let lender = self.interruptible.iter().find(|(_, lent)| *lent == id).map(|(source, _)| source.clone());
        let Some(own) = self.reservations.iter_mut().find(|one| one.id == id) else { return };
        if own.available < own.total {
            own.available += 1;
        } else if let Some(lender) = self.reservations.iter_mut().find(|one| Some(&one.id) == lender.as_ref()) {
            lender.total += 1;
            lender.available += 1;
        }
        self.end_interruptible();
    }

    /// Cancels interruptible reservations that were taken back and have no instance any more.
    fn end_interruptible(&mut self) {
        let used = |id: &str| {
            let uses = |machine: &super::FakeInstance| {
                machine.instance.capacity_reservation_id.as_deref() == Some(id) && !machine.instance.is_ending()
            };
            self.machines.values().any(uses)
        };
        let over = |one: &CapacityReservation| one.interruptible && one.total == 0 && one.state == "active";
        let ended: Vec<usize> = self
            .reservations
            .iter()
            .enumerate()
            .filter(|(_, one)| over(one) && !used(&one.id))
            .map(|(position, _)| position)
            .collect();
        for position in ended {
            "cancelled".clone_into(&mut self.reservations[position].state);
            let id = self.reservations[position].id.clone();
            self.interruptible.retain(|_, lent| *lent != id);
        }
    }
}
