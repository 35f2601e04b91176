//! One NodeClaim and one controller on a scripted EC2, for single cases of the soak test.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use api::label;
use cloud::Cloud;
use cloud::fake::FakeCloud;
use jiff::{SignedDuration, Timestamp};

use simulator::api_server::{ApiServer, CLAIMS};
use simulator::chance::Chance;
use simulator::clock::{OfTokio, of_tokio};
use simulator::controller_run::ControllerRun;

use super::trouble;
use super::{TYPES, check, claim, one_of, settle};

/// EC2 and an API server without random faults.
pub struct Fixture {
    pub ec2: FakeCloud,
    server: Arc<ApiServer>,
    chance: Arc<Chance>,
}

impl Fixture {
    /// Creates a cluster with one pending NodeClaim. EC2 lists an instance `invisible` after its launch.
    pub fn set(invisible: SignedDuration) -> Self {
        let ec2 = FakeCloud::builder("us-west-2").only_types(&TYPES).clock(OfTokio);
        let ec2 = ec2.invisible_for(invisible).build().unwrap();
        let (server, chance) = (Arc::new(ApiServer::new(of_tokio)), Arc::new(Chance::new(1)));
        chance.calm_down();
        let fixture = Self { ec2, server, chance };
        fixture.wants(0);
        fixture
    }

    /// Creates a NodeClaim with this number, for spot or on-demand.
    pub fn wants(&self, number: u64) {
        let requirements = [one_of(label::INSTANCE_TYPE, &TYPES), one_of(label::CAPACITY_TYPE, &["spot", "on-demand"])];
        self.server.create(CLAIMS, claim(number, &requirements));
    }

    pub async fn begin(&self) -> ControllerRun {
        trouble::begin(&self.ec2, &self.server, &self.chance).await
    }

    /// Starts a run of the controller with another clock.
    pub async fn begin_at(&self, now: fn() -> Timestamp) -> ControllerRun {
        let cloud: Arc<dyn Cloud> = Arc::new(self.ec2.clone());
        let alive = Arc::new(AtomicBool::new(true));
        trouble::on((cloud, &self.ec2), (&self.server, &self.chance), now, alive).await
    }

    /// Asserts that the NodeClaim has an instance, and that EC2 launched no other.
    pub async fn bought_once(&self) {
        self.bought_in_all(1).await;
    }

    /// Asserts that every NodeClaim has an instance, and that EC2 launched `machines` instances.
    pub async fn bought_in_all(&self, machines: usize) {
        settle(&self.server).await;
        check(&self.ec2, &self.server);
        assert_eq!(self.ec2.machines().len(), machines);
    }
}
