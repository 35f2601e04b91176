//! A cloud that behaves like EC2 where Kerf can tell the difference: pools run dry, tokens are remembered, instances
//! live and die with the clock, answers get lost. Fresh for each test, deterministic by seed, no globals.
//!
//! Time passes only when somebody looks: every call first lets happen what is due. Whoever must react without calling
//! (a machine room) runs [`FakeCloud::tick`] at [`FakeCloud::next_change`] and waits on [`FakeCloud::changes`].

mod builder;
mod clock;
mod faults;
mod find;
mod fleet;
mod world;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use tokio::sync::watch;

use crate::calls::{
    Call, Cloud, Filter, FleetAnswer, FleetRequest, Image, Instance, InstanceTypeInfo, LaunchTemplate,
    LaunchTemplateRequest, SecurityGroup, SpotPrice, Subnet, Tags, TypeOffering,
};
use crate::error::{CloudError, Kind};

pub use builder::{Builder, IMAGE_VERSION, own_image};
pub use clock::{Clock, ManualClock, SystemClock};
pub use faults::{Fault, Input, Logged};
pub use find::{ACCOUNT, AMAZON};
pub use world::{Drought, Machine, Pool, Timing};

use faults::{no_answer, refuse};
use world::World;

/// What EC2 takes as user data before base64, in bytes.
const USER_DATA_LIMIT: usize = 16_384;

/// The fake; clones share one world.
#[derive(Clone)]
pub struct FakeCloud {
    world: Arc<Mutex<World>>,
    clock: Arc<dyn Clock>,
    revision: watch::Sender<u64>,
}

impl FakeCloud {
    /// Describes a cloud in `region` (us-west-2, us-east-1 or eu-west-2).
    #[must_use]
    pub fn builder(region: &str) -> Builder {
        Builder::new(region)
    }

    fn new(world: World, clock: Arc<dyn Clock>) -> Self {
        Self { world: Arc::new(Mutex::new(world)), clock, revision: watch::Sender::new(0) }
    }

    /// Counts every change of an instance; wait on it, then read [`Self::machines`].
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Lets happen what is due.
    pub fn tick(&self) {
        drop(self.at_present());
    }

    /// The next moment at which something happens by itself.
    #[must_use]
    pub fn next_change(&self) -> Option<Timestamp> {
        self.at_present().0.next_change()
    }

    /// The fake's present.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The region's name.
    #[must_use]
    pub fn region(&self) -> String {
        self.at_present().0.region.clone()
    }

    /// Every instance that EC2 remembers, in the order of the ids, the invisible and the terminated ones included.
    #[must_use]
    pub fn machines(&self) -> Vec<Machine> {
        self.at_present().0.machines.values().cloned().collect()
    }

    /// One instance, whatever its state.
    #[must_use]
    pub fn machine(&self, id: &str) -> Option<Machine> {
        self.at_present().0.machines.get(id).cloned()
    }

    /// Names of the launch templates that exist.
    #[must_use]
    pub fn template_names(&self) -> Vec<String> {
        self.at_present().0.templates.keys().cloned().collect()
    }

    /// A subnet as it is now.
    #[must_use]
    pub fn subnet(&self, id: &str) -> Option<Subnet> {
        self.at_present().0.subnets.iter().find(|subnet| subnet.id == id).cloned()
    }

    /// Publishes a spot interruption: notice now, end at `deadline`. False when there is no such running instance.
    pub fn interrupt(&self, id: &str, deadline: Timestamp) -> bool {
        self.notice(id, |machine, _| machine.interruption = Some(deadline))
    }

    /// Publishes a rebalance recommendation. False when there is no such running instance.
    pub fn recommend_rebalance(&self, id: &str) -> bool {
        self.notice(id, |machine, now| machine.rebalance = Some(now))
    }

    /// Ends an instance as a person or the hardware would, without any call of ours. False when it has ended before.
    pub fn kill(&self, id: &str) -> bool {
        let (mut world, now) = self.at_present();
        let ended = world.shut_down(id, now);
        drop(world);
        self.announce(ended);
        ended
    }

    /// Gives a pool a finite number of instances; `None` makes it unbounded again.
    pub fn set_stock(&self, pool: Pool, left: Option<u32>) {
        let (mut world, _) = self.at_present();
        match left {
            Some(left) => world.stock.insert(pool, left),
            None => world.stock.remove(&pool),
        };
    }

    /// Makes pools dry until [`Self::end_droughts`].
    pub fn dry_up(&self, drought: Drought) {
        self.at_present().0.droughts.push(drought);
    }

    /// Ends every drought; finite stocks stay.
    pub fn end_droughts(&self) {
        self.at_present().0.droughts.clear();
    }

    /// Sets how many addresses a subnet has left.
    pub fn set_free_addresses(&self, subnet_id: &str, free: u32) {
        let (mut world, _) = self.at_present();
        if let Some(subnet) = world.subnets.iter_mut().find(|subnet| subnet.id == subnet_id) {
            subnet.free_addresses = free;
        }
    }

    /// Sets one spot price, millionths of a dollar per hour.
    pub fn set_spot_price(&self, instance_type: &str, zone: &str, micro_dollars: i64) {
        let (mut world, _) = self.at_present();
        world.spot_prices.retain(|price| price.instance_type != instance_type || price.zone != zone);
        world.spot_prices.push(SpotPrice {
            instance_type: instance_type.to_owned(),
            zone: zone.to_owned(),
            micro_dollars,
        });
    }

    /// Removes a launch template behind Kerf's back.
    pub fn remove_template(&self, name: &str) {
        self.at_present().0.templates.remove(name);
    }

    /// Orders a fault for the `nth` call of this action from now on; 1 is the next.
    pub fn fail(&self, call: &str, nth: u64, fault: Fault) {
        self.at_present().0.script.order(call, nth, fault);
    }

    /// How many faults still wait for their call.
    #[must_use]
    pub fn faults_waiting(&self) -> usize {
        self.at_present().0.script.waiting()
    }

    /// Every call so far.
    #[must_use]
    pub fn log(&self) -> Vec<Logged> {
        self.at_present().0.log.clone()
    }

    /// How many calls of one action there were.
    #[must_use]
    pub fn count(&self, call: &str) -> usize {
        self.at_present().0.log.iter().filter(|logged| logged.call == call).count()
    }

    /// The inputs of every CreateFleet so far.
    #[must_use]
    pub fn fleets(&self) -> Vec<FleetRequest> {
        let fleet = |logged: &Logged| match &logged.input {
            Input::Fleet(request) => Some((**request).clone()),
            _ => None,
        };
        self.at_present().0.log.iter().filter_map(fleet).collect()
    }

    /// The world as of now.
    fn at_present(&self) -> (MutexGuard<'_, World>, Timestamp) {
        let now = self.clock.now();
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = world.advance(now);
        self.announce(changed);
        (world, now)
    }

    fn announce(&self, changed: bool) {
        if changed {
            self.revision.send_modify(|revision| *revision += 1);
        }
    }

    fn notice(&self, id: &str, publish: impl FnOnce(&mut Machine, Timestamp)) -> bool {
        let (mut world, now) = self.at_present();
        let machine = world.machines.get_mut(id).filter(|machine| !machine.instance.is_ending());
        let found = machine.map(|machine| publish(machine, now)).is_some();
        drop(world);
        self.announce(found);
        found
    }

    /// A call that happens when it is awaited, as a real one would.
    fn call<'a, T: Send + 'a>(
        &'a self,
        call: &'static str,
        input: Input,
        serve: impl FnOnce(&mut World, Timestamp) -> Result<T, CloudError> + Send + 'a,
    ) -> Call<'a, T> {
        Box::pin(async move { self.serve(call, input, serve) })
    }

    /// One call: logged, then served unless a fault is due. What `serve` did stays done when the answer is lost.
    fn serve<T>(
        &self,
        call: &'static str,
        input: Input,
        serve: impl FnOnce(&mut World, Timestamp) -> Result<T, CloudError>,
    ) -> Result<T, CloudError> {
        let (mut world, now) = self.at_present();
        let fault = world.script.strike(call);
        world.log.push(Logged { call, at: now, input, fault: fault.clone() });
        let before = world.changes;
        let answer = match fault {
            None => serve(&mut world, now),
            Some(Fault::Lost) => serve(&mut world, now).and(Err(no_answer(call))),
            Some(Fault::Dropped) => Err(no_answer(call)),
            Some(Fault::Error { kind, code, message }) => Err(CloudError { call, kind, code, message }),
        };
        let changed = before != world.changes;
        drop(world);
        self.announce(changed);
        answer
    }
}

impl Cloud for FakeCloud {
    fn instance_types(&self) -> Call<'_, Vec<InstanceTypeInfo>> {
        self.call("DescribeInstanceTypes", Input::Nothing, |world, _| Ok(world.types.values().cloned().collect()))
    }

    fn type_offerings(&self) -> Call<'_, Vec<TypeOffering>> {
        self.call("DescribeInstanceTypeOfferings", Input::Nothing, |world, _| Ok(world.offerings.clone()))
    }

    fn spot_prices(&self) -> Call<'_, Vec<SpotPrice>> {
        self.call("DescribeSpotPriceHistory", Input::Nothing, |world, _| Ok(world.spot_prices.clone()))
    }

    fn subnets<'a>(&'a self, filter: &'a Filter) -> Call<'a, Vec<Subnet>> {
        self.call("DescribeSubnets", Input::Filter(filter.clone()), |world, _| {
            Ok(world.subnets.iter().filter(|subnet| find::subnet(filter, subnet)).cloned().collect())
        })
    }

    fn security_groups<'a>(&'a self, filter: &'a Filter) -> Call<'a, Vec<SecurityGroup>> {
        self.call("DescribeSecurityGroups", Input::Filter(filter.clone()), |world, _| {
            Ok(world.security_groups.iter().filter(|group| find::security_group(filter, group)).cloned().collect())
        })
    }

    fn images<'a>(&'a self, filter: &'a Filter) -> Call<'a, Vec<Image>> {
        self.call("DescribeImages", Input::Filter(filter.clone()), |world, _| {
            Ok(world.images.iter().filter(|image| find::image(filter, image)).cloned().collect())
        })
    }

    fn parameter<'a>(&'a self, name: &'a str) -> Call<'a, Option<String>> {
        self.call("GetParameter", Input::Name(name.to_owned()), |world, _| Ok(world.parameters.get(name).cloned()))
    }

    fn launch_templates<'a>(&'a self, tags: &'a Tags) -> Call<'a, Vec<LaunchTemplate>> {
        self.call("DescribeLaunchTemplates", Input::Tags(tags.clone()), |world, _| {
            let all = world.templates.values().map(|(template, _)| template);
            Ok(all.filter(|template| find::tagged(&template.tags, tags)).cloned().collect())
        })
    }

    fn create_launch_template<'a>(&'a self, request: &'a LaunchTemplateRequest) -> Call<'a, LaunchTemplate> {
        let input = Input::LaunchTemplate(Box::new(request.clone()));
        self.call("CreateLaunchTemplate", input, |world, _| create_template(world, request))
    }

    fn delete_launch_template<'a>(&'a self, name: &'a str) -> Call<'a, ()> {
        let call = "DeleteLaunchTemplate";
        self.call(call, Input::Name(name.to_owned()), move |world, _| {
            let message = format!("The specified launch template, with template name {name}, does not exist.");
            let missing = || refuse(call, Kind::NotFound, "InvalidLaunchTemplateName.NotFoundException", message);
            world.templates.remove(name).map(|_| ()).ok_or_else(missing)
        })
    }

    fn create_fleet<'a>(&'a self, request: &'a FleetRequest) -> Call<'a, FleetAnswer> {
        let input = Input::Fleet(Box::new(request.clone()));
        self.call("CreateFleet", input, |world, now| fleet::create(world, request, now))
    }

    fn instances<'a>(&'a self, tags: &'a Tags) -> Call<'a, Vec<Instance>> {
        self.call("DescribeInstances", Input::Tags(tags.clone()), |world, now| Ok(world.instances(tags, now)))
    }

    fn instance<'a>(&'a self, id: &'a str) -> Call<'a, Option<Instance>> {
        self.call("DescribeInstances", Input::Ids(vec![id.to_owned()]), |world, now| {
            let timing = world.timing;
            let machine = world.machines.get(id).filter(|machine| machine.visible(now, timing));
            Ok(machine.map(|machine| machine.instance.clone()))
        })
    }

    fn terminate_instances<'a>(&'a self, ids: &'a [String]) -> Call<'a, ()> {
        let call = "TerminateInstances";
        self.call(call, Input::Ids(ids.to_vec()), move |world, now| {
            if let Some(unknown) = ids.iter().find(|id| !world.machines.contains_key(*id)) {
                let message = format!("The instance ID '{unknown}' does not exist");
                return Err(refuse(call, Kind::NotFound, "InvalidInstanceID.NotFound", message));
            }
            for id in ids {
                world.shut_down(id, now);
            }
            Ok(())
        })
    }

    fn create_tags<'a>(&'a self, ids: &'a [String], tags: &'a Tags) -> Call<'a, ()> {
        let call = "CreateTags";
        self.call(call, Input::CreateTags(ids.to_vec(), tags.clone()), |world, _| {
            world.tag(ids, tags).map_err(|unknown| {
                let code = if unknown.starts_with("i-") { "InvalidInstanceID.NotFound" } else { "InvalidID" };
                refuse(call, Kind::NotFound, code, format!("The ID '{unknown}' does not exist"))
            })
        })
    }
}

fn create_template(world: &mut World, request: &LaunchTemplateRequest) -> Result<LaunchTemplate, CloudError> {
    let call = "CreateLaunchTemplate";
    if world.templates.contains_key(&request.name) {
        let message = "Launch template name already in use.".to_owned();
        return Err(refuse(call, Kind::AlreadyExists, "InvalidLaunchTemplateName.AlreadyExistsException", message));
    }
    let legal = |letter: char| letter.is_ascii_alphanumeric() || "()./_-".contains(letter);
    if !(3..=128).contains(&request.name.len()) || !request.name.chars().all(legal) {
        let message = format!("The launch template name {:?} is malformed", request.name);
        return Err(refuse(call, Kind::Invalid, "InvalidLaunchTemplateName.MalformedException", message));
    }
    let problem = match STANDARD.decode(&request.user_data) {
        Err(_) => Some("Invalid BASE64 encoding of user data".to_owned()),
        Ok(raw) if raw.len() > USER_DATA_LIMIT => Some(format!("User data is limited to {USER_DATA_LIMIT} bytes")),
        Ok(_) => None,
    };
    if let Some(message) = problem {
        return Err(refuse(call, Kind::Invalid, "InvalidUserData.Malformed", message));
    }
    let template = LaunchTemplate { id: world.new_id("lt"), name: request.name.clone(), tags: request.tags.clone() };
    world.templates.insert(request.name.clone(), (template.clone(), request.clone()));
    Ok(template)
}
