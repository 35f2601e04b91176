//! Sampler of the machine, without any evaluation. Files that are read often remain open, and no program runs while no problem
//! exists.

use std::path::PathBuf;
use std::time::Duration;

use drain::Millis;
use jiff::Timestamp;
use machine::agent::health::HealthSettings;
use tokio::sync::mpsc::Sender;

use super::accelerators::Accelerators;
use super::disks::{self, Mounts, Speed};
use super::hung::Hung;
use super::kmsg::Kmsg;
use super::network::{self, Routes};
use super::units::{self, Unit};
use super::{CheckRun, HealthSample, check};
use crate::bootstrap::observe;
use crate::cluster::Access;
use crate::host::Host;
use crate::notices::moment;

/// Number of samples per DNS query.
const RARELY: u16 = 4;
const DNS: u16 = 53;

/// Sampler of one machine.
#[derive(Debug)]
pub struct Sampler {
    root: PathBuf,
    host: Host,
    settings: HealthSettings,
    dns: u16,
    kmsg: Kmsg,
    hung: Hung,
    mounts: Mounts,
    speed: Speed,
    routes: Routes,
    kubelet: Unit,
    runtime: Unit,
    accelerators: Accelerators,
    rounds: u16,
}

impl Sampler {
    /// Creates a sampler for the machine below `host`'s root.
    #[must_use]
    pub fn new(host: Host, settings: HealthSettings) -> Self {
        let root = host.at("/");
        Self {
            kmsg: Kmsg::new(&root),
            hung: Hung::new(&root),
            mounts: Mounts::new(&root),
            speed: Speed::new(&root),
            routes: Routes::new(&root),
            kubelet: Unit::new(&root, &settings.units.kubelet, check::KUBELET_RESTARTS),
            runtime: Unit::new(&root, &settings.units.runtime, check::RUNTIME_RESTARTS),
            accelerators: Accelerators::find(&root),
            rounds: 0,
            dns: DNS,
            root,
            host,
            settings,
        }
    }

    /// Sets the port of name servers, which is 53 except in tests.
    #[must_use]
    pub fn with_dns_port(self, port: u16) -> Self {
        Self { dns: port, ..self }
    }

    /// Takes one sample.
    pub async fn sample(&mut self, now: Millis) -> HealthSample {
        let mut sample = HealthSample { checks: Vec::new(), incidents: self.kmsg.read() };
        sample.incidents.retain(|incident| self.accelerators.have(&incident.check));
        let hung = sample.incidents.iter().filter(|incident| incident.check == check::HUNG_TASK);
        hung.for_each(|incident| self.hung.observe(&incident.text));
        sample.checks.push(self.hung.check());
        sample.checks.push(disks::full(&self.root, self.settings.disk_full_percent));
        sample.checks.extend(self.mounts.check());
        sample.checks.push(disks::shut_down(&self.root));
        sample.checks.extend(self.speed.check());
        sample.checks.extend(self.routes.check());
        sample.checks.extend(self.accelerators.check());
        self.units(&mut sample, now).await;
        if self.rounds.is_multiple_of(RARELY) {
            sample.checks.extend(self.names().await.into_iter().flatten());
        }
        self.rounds = self.rounds.wrapping_add(1);
        sample
    }

    async fn units(&mut self, sample: &mut HealthSample, now: Millis) {
        let watched = self.settings.units.clone();
        if !watched.kubelet.is_empty() {
            let (check_run, restart) = units::kubelet(&mut self.kubelet, &self.host, now).await;
            sample.checks.extend(check_run);
            sample.incidents.extend(restart);
        }
        if !watched.runtime.is_empty() {
            let (check_run, restart) = units::runtime(&mut self.runtime, &self.root, &self.host, now).await;
            sample.checks.extend(check_run);
            sample.incidents.extend(restart);
        }
    }

    /// Checks whether the API server's name can be resolved; `None` where the server is an address.
    async fn names(&self) -> Option<[CheckRun; 2]> {
        let access = Access::read(&self.root, &observe::kubeconfig(&self.root)).ok()?;
        let name = access.host.as_str();
        let is_address = name.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
        let server = network::name_server(&self.root, self.dns).filter(|_| !is_address)?;
        Some(network::resolve(server, name).await)
    }
}

/// Samples the machine periodically until the receiver is closed.
pub async fn watch(mut sampler: Sampler, samples: Sender<HealthSample>) {
    let period = sampler.settings.period.0.max(Duration::from_secs(1));
    loop {
        let sample = sampler.sample(moment(Timestamp::now())).await;
        if samples.send(sample).await.is_err() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(period) => {}
            () = samples.closed() => return,
        }
    }
}
