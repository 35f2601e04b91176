//! Concurrent loops of the fake kubelet: register, renew the lease, report the status, run and end pods.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::TryStreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::watcher::{self, Event, watcher};
use tokio::sync::Mutex as AsyncMutex;

use super::devices::KnownDevices;
use super::heartbeat;
use super::node::{self, Conditions};
use super::pods::{Pods, Step};
use super::{Options, Settings, network_ready};

/// Pause after a failure.
pub const PAUSE: Duration = Duration::from_secs(1);

/// CNI configuration that a running aws-node writes; from then on, the container runtime has a network.
const CNI: &str = r#"{"cniVersion": "1.0.0", "name": "aws-cni", "plugins": [{"name": "aws-cni", "type": "aws-cni"}]}"#;

/// Shared state of all loops.
pub struct Work {
    pub(super) options: Options,
    pub(super) settings: Arc<Settings>,
    pub(super) client: Client,
    log: Mutex<File>,
    devices: Mutex<KnownDevices>,
    /// True when a device was added after the last report.
    has_new_devices: AtomicBool,
}

impl Work {
    /// Opens the log; restarts append to it.
    pub fn new(options: Options, settings: Arc<Settings>, client: Client) -> Result<Self> {
        let log = OpenOptions::new().create(true).append(true).open(&options.log);
        let log = log.with_context(|| format!("cannot open {}", options.log.display()))?;
        let (log, devices, has_new_devices) = (Mutex::new(log), Mutex::default(), AtomicBool::default());
        let work = Self { options, settings, client, log, devices, has_new_devices };
        work.add_devices(&work.options.built_in_plugins);
        Ok(work)
    }

    /// Makes devices of the machine known.
    fn add_devices(&self, resources: &[&'static str]) {
        let mut known = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        if known.add(resources, &self.options.hardware.devices) {
            self.has_new_devices.store(true, Ordering::Release);
        }
    }

    /// Reports whether a device was added since the last call.
    pub(super) fn takes_new_devices(&self) -> bool {
        self.has_new_devices.swap(false, Ordering::AcqRel)
    }

    /// Returns the known devices.
    pub(super) fn devices(&self) -> BTreeMap<String, u32> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner).amounts().clone()
    }

    /// Writes a line to the kubelet's log; write errors are ignored.
    pub(super) fn log(&self, what: impl Display) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        drop(writeln!(log, "{:.3} {what}", Timestamp::now()));
    }

    pub(super) fn network_ready(&self) -> bool {
        network_ready(&self.options.root)
    }
}

/// Runs until it is aborted.
pub async fn run(work: Work) {
    let mut conditions = Conditions::default();
    while let Err(error) = register(&work, &mut conditions).await {
        work.log(format_args!("cannot register: {error:#}"));
        tokio::time::sleep(PAUSE).await;
    }
    let pods = Pods::new(&work.options, work.settings.node_ip.clone());
    let pods = AsyncMutex::new(pods);
    tokio::join!(
        heartbeat::renew_lease(&work),
        heartbeat::report_status(&work, conditions),
        watch_pods(&work, &pods),
        act_on_pods(&work, &pods)
    );
}

async fn register(work: &Work, conditions: &mut Conditions) -> Result<()> {
    let reported = conditions.report(work.network_ready(), Timestamp::now());
    let node = node::registration(&work.settings, &work.options.hardware, reported)?;
    match Api::<Node>::all(work.client.clone()).create(&PostParams::default(), &node).await {
        Ok(_) => work.log(format_args!("registered {}", work.settings.name)),
        Err(kube::Error::Api(status)) if status.code == 409 => {
            work.log(format_args!("{} is registered already", work.settings.name));
        }
        Err(error) => return Err(error).context("the API server refuses the Node"),
    }
    Ok(())
}

/// Keeps `pods` in sync with the API server, with a new watch after each interruption.
async fn watch_pods(work: &Work, pods: &AsyncMutex<Pods>) {
    let api = Api::<Pod>::all(work.client.clone());
    loop {
        let mine = watcher::Config::default().fields(&format!("spec.nodeName={}", work.settings.name));
        let watched = watcher(api.clone(), mine).try_for_each(async |event| {
            observe(&mut *pods.lock().await, event);
            Ok(())
        });
        if let Err(error) = watched.await {
            work.log(format_args!("lost the watch of pods: {error}"));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn observe(pods: &mut Pods, event: Event<Pod>) {
    match event {
        Event::Apply(pod) | Event::InitApply(pod) => pods.observe(&pod, Instant::now()),
        Event::Delete(pod) => pods.forget(pod.metadata.uid.as_deref().unwrap_or_default()),
        Event::Init => pods.begin_list(),
        Event::InitDone => pods.end_list(),
    }
}

async fn act_on_pods(work: &Work, pods: &AsyncMutex<Pods>) {
    loop {
        let due = pods.lock().await.due(work.network_ready(), Instant::now(), Timestamp::now());
        for step in due {
            match act(work, &step).await {
                Ok(()) => work.log(&step),
                Err(error) => work.log(format_args!("failed: {step}: {error:#}")),
            }
        }
        tokio::time::sleep(work.options.timing.poll).await;
    }
}

async fn act(work: &Work, step: &Step) -> Result<()> {
    let pod = step.pod();
    let api = Api::<Pod>::namespaced(work.client.clone(), &pod.namespace);
    match step {
        Step::Run { status, brings_network, devices, .. } => {
            api.patch_status(&pod.name, &PatchParams::default(), &Patch::Strategic(status)).await?;
            if *brings_network {
                write_network(work)?;
            }
            work.add_devices(devices);
        }
        Step::Resize { status, .. } => {
            api.patch_status(&pod.name, &PatchParams::default(), &Patch::Merge(status)).await?;
        }
        Step::Complete { status, .. } => {
            api.patch_status(&pod.name, &PatchParams::default(), &Patch::Strategic(status)).await?;
        }
        Step::End { .. } => {
            let preconditions = Preconditions { uid: Some(pod.uid.clone()), resource_version: None };
            let params = DeleteParams {
                grace_period_seconds: Some(0),
                preconditions: Some(preconditions),
                ..DeleteParams::default()
            };
            api.delete(&pod.name, &params).await?;
        }
    }
    Ok(())
}

fn write_network(work: &Work) -> Result<()> {
    let folder = work.options.root.join("etc/cni/net.d");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let file = folder.join("10-aws.conflist");
    std::fs::write(&file, CNI).with_context(|| format!("cannot write {}", file.display()))?;
    let plugin = work.options.root.join("opt/cni/bin/aws-cni");
    std::fs::create_dir_all(plugin.parent().unwrap_or(&plugin))?;
    std::fs::write(&plugin, "")?;
    std::fs::set_permissions(&plugin, std::fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} a program", plugin.display()))
}
