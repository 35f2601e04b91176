//! Runs one scenario with one controller, on a control plane of its own, so that earlier runs have no effect.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use futures::future::try_join_all;
use kube::Client;
use serde_json::Value;
use testbed::controlplane::{Component, ControlPlane, Options};
use testbed::eventually;
use testbed::process::Process;
use testbed::process::usage::{mebibytes, most_resident, processor_time};

use crate::ec2::{BOOT, Ec2};
use crate::figures::{After, Course, Figures, Ran, waves};
use crate::observation::{Observation, Seen};
use crate::scenarios::{Change, STAYING, Scenario};
use crate::subject::{Fixtures, Side, Subject};
use crate::timeline::Timeline;
use crate::workload::Workload;
use crate::{kubelets, pool, recording};

/// Time limit of every wait.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// Time after which a result counts as missing.
const NEVER: Duration = Duration::from_secs(20 * 60);
/// Time without a change after which a fleet is final. The time is longer than any pause of either controller, its validation,
/// and the time until its next command.
const QUIET: Duration = Duration::from_secs(120);
const STOP: Duration = Duration::from_secs(30);
/// A replaced fleet keeps its size, so each wave is a tenth of it.
const TENTHS: usize = 10;

/// Cluster with a controller.
pub struct Benchmark {
    pub control_plane: ControlPlane,
    pub client: Client,
    pub observation: Observation,
    pub class: Value,
    command: Option<Command>,
    controller: Option<Process>,
    /// Name of the timeline and of the table of stages, if they are requested.
    recorded: Option<String>,
    timeline: Option<Timeline>,
    _ec2: Option<Ec2>,
}

/// Runs the scenario; keeps the logs when it fails, or on request.
pub async fn run(scenario: &Scenario, side: Side, fixtures: &Fixtures, keep_logs: bool) -> Result<Figures> {
    let mut benchmark = Benchmark::open(side, fixtures).await?;
    let kind = if scenario.is_sample { "-sample" } else { "" };
    let name = format!("{}-{}{kind}", scenario.name, side.name().to_lowercase());
    let recording = match side {
        Side::Kerf => recording::begin(&benchmark.control_plane, &name)?,
        Side::Karpenter | Side::KarpenterOnEc2 => None,
    };
    benchmark.recorded = Some(name);
    let figures = benchmark.run(scenario).await;
    recording::end(recording).await?;
    if figures.is_err() || keep_logs {
        benchmark.control_plane.keep_logs();
        println!("    logs are in {}", benchmark.control_plane.folder().display());
    }
    let figures = figures?;
    benchmark.close().await?;
    Ok(figures)
}

impl Benchmark {
    /// Starts everything except the controller.
    pub async fn open(side: Side, fixtures: &Fixtures) -> Result<Self> {
        // The simulated kubelets never die and renew no lease.
        let options = Options::full("live").with_flag(Component::ControllerManager, "--node-monitor-grace-period=24h");
        let control_plane = ControlPlane::start(options).await?;
        let Subject { command, class, ec2 } = side.furnish(&control_plane, &fixtures.catalogue).await?;
        let client = control_plane.admin().await?;
        testbed::apply(&client, class.clone()).await?;
        testbed::apply(&client, pool::object(&class, 1)?).await?;
        let observation = Observation::open(&client, &fixtures.catalogue);
        Ok(Self {
            control_plane,
            client,
            observation,
            class,
            command: Some(command),
            controller: None,
            recorded: None,
            timeline: None,
            _ec2: ec2,
        })
    }

    /// Runs the whole scenario.
    pub async fn run(&mut self, scenario: &Scenario) -> Result<Figures> {
        let start = self.waiting_pods(scenario).await?;
        let pods = scenario.workload.pods();
        let ran = self.in_time("all pods to run", move |seen| {
            ensure!(seen.running() == pods, "{} of {pods} pods run on {} nodes", seen.running(), seen.nodes());
            Ok(())
        });
        let ran = ran.await?.is_some();
        let mut figures = self.provisioned(start, ran)?;
        figures.after = match scenario.then {
            _ if !ran => None,
            Change::None => None,
            Change::ScaleIn => Some(self.scale_in(&scenario.workload).await?),
            Change::Drift => Some(self.drift(pods).await?),
        };
        let pid = self.controller.as_ref().context("the controller does not run")?.id();
        figures.rss_peak_mib = mebibytes(most_resident(pid)?);
        figures.cpu = processor_time(pid)?.as_secs_f64();
        Ok(figures)
    }

    /// Returns the moment from which pods wait for the controller.
    pub async fn waiting_pods(&mut self, scenario: &Scenario) -> Result<Instant> {
        if !scenario.backlog {
            self.start_controller()?;
            self.until_ready().await?;
        }
        self.apply(&scenario.workload).await?;
        let pods = scenario.workload.pods();
        let arrived = self.until("all pods to be there", move |seen| {
            ensure!(seen.pods() == pods, "{} of {pods} pods are there", seen.pods());
            seen.arrived.context("no pod came")
        });
        let arrived = arrived.await?;
        if !scenario.backlog {
            return Ok(arrived);
        }
        let start = Instant::now();
        self.start_controller()?;
        Ok(start)
    }

    fn start_controller(&mut self) -> Result<()> {
        let command = self.command.take().context("the controller was started before")?;
        let log = self.control_plane.folder().join("controller.log");
        let controller = Process::spawn("controller", command, &log)?;
        if let Some(name) = &self.recorded {
            self.timeline = Some(Timeline::begin(name, self.observation.share(), controller.id())?);
        }
        self.controller = Some(controller);
        Ok(())
    }

    async fn until_ready(&mut self) -> Result<()> {
        let client = self.client.clone();
        eventually("the pool to be ready", LIMIT, async || {
            if let Some(words) = self.exit_report()? {
                return Ok(Some(Err(anyhow!(words))));
            }
            let objection = pool::objection(&client).await?;
            objection.map_or(Ok(Some(Ok(()))), |objection| Err(anyhow!(objection)))
        })
        .await?
    }

    /// Applies all objects at once: pods that arrive one after another would be planned in several batches.
    async fn apply(&self, workload: &Workload) -> Result<()> {
        let applied = workload.objects().map(|object| testbed::apply(&self.client, object));
        try_join_all(applied).await.map(drop)
    }

    fn provisioned(&self, start: Instant, ran: bool) -> Result<Figures> {
        let seen = self.observation.seen();
        if let Some(name) = &self.recorded {
            seen.stages.write(name, start)?;
        }
        let since = |at: Option<Instant>, what| Ok::<_, anyhow::Error>(seconds(start, at.context(what)?));
        let fleet = || {
            let took = since(seen.ran, "no pod was seen to run")?;
            Ok::<_, anyhow::Error>(Ran { took, nodes: seen.nodes(), cost: seen.cost() })
        };
        let first_claim = since(seen.claimed, "no claim was seen")?;
        Ok(Figures { first_claim, ran: ran.then(fleet).transpose()?, ..Figures::default() })
    }

    async fn scale_in(&mut self, workload: &Workload) -> Result<After> {
        let (fewer, begin) = (workload.scaled(STAYING), Instant::now());
        let (before, nodes) = self.fleet();
        self.apply(&fewer).await?;
        let quiet = self.is_quiet_in_time(fewer.pods()).await?;
        let seen = self.observation.seen();
        let later = seen.costs.iter().copied().filter(|(at, _)| *at >= begin);
        let costs = std::iter::once((begin, before)).chain(later);
        let course = Course(costs.map(|(at, cost)| (seconds(begin, at), cost)).collect());
        let took = course.fallen().filter(|_| quiet);
        let bound = waves(nodes, seen.nodes()) as f64 * kubelets::STOP.as_secs_f64();
        Ok(After { took, bound, nodes: seen.nodes(), cost: seen.cost(), course })
    }

    async fn drift(&mut self, pods: usize) -> Result<After> {
        let (old, begin) = (self.observation.seen().claims(), Instant::now());
        let (_, nodes) = self.fleet();
        testbed::apply(&self.client, pool::object(&self.class, 2)?).await?;
        let gone = self.in_time("all drifted claims to be gone", move |seen| {
            let left = seen.claims().intersection(&old).count();
            ensure!(left == 0, "{left} of {} are left", old.len());
            ensure!(seen.running() == pods, "{} of {pods} pods run", seen.running());
            seen.changed.context("nothing has changed")
        });
        let took = gone.await?.map(|at| seconds(begin, at));
        let seen = self.observation.seen();
        let bound = nodes.min(TENTHS) as f64 * (BOOT as f64 + kubelets::STOP.as_secs_f64());
        Ok(After { took, bound, nodes: seen.nodes(), cost: seen.cost(), course: Course::default() })
    }

    /// Returns the cost of the fleet in dollars per hour, and its number of nodes.
    fn fleet(&self) -> (f64, usize) {
        let seen = self.observation.seen();
        (seen.cost(), seen.nodes())
    }

    /// Waits until the fleet is stable with `pods` running pods; returns whether it became stable.
    async fn is_quiet_in_time(&mut self, pods: usize) -> Result<bool> {
        let quiet = self.in_time("the fleet to stay as it is", move |seen| {
            let (running, leaving) = (seen.running(), seen.leaving());
            ensure!(running == pods && leaving == 0, "{running} of {pods} pods run, {leaving} leave");
            let quiet = seen.changed.is_some_and(|at| at.elapsed() >= QUIET);
            ensure!(quiet, "{} nodes cost {:.4} $/h", seen.nodes(), seen.cost());
            Ok(())
        });
        quiet.await.map(|it| it.is_some())
    }

    /// Waits until `found` succeeds or the controller ends.
    pub async fn until<T>(&mut self, what: &str, found: impl Fn(&Seen) -> Result<T>) -> Result<T> {
        self.within(LIMIT, what, found).await?
    }

    /// Waits like `until`, and returns `None` after the time limit that is the same for both sides.
    async fn in_time<T>(&mut self, what: &str, found: impl Fn(&Seen) -> Result<T>) -> Result<Option<T>> {
        match self.within(NEVER, what, found).await {
            Ok(found) => found.map(Some),
            Err(late) => {
                println!("    {late:#}");
                Ok(None)
            }
        }
    }

    /// Waits until `found` succeeds. The outer error is the time limit, the inner error is the end of the controller.
    async fn within<T>(
        &mut self,
        limit: Duration,
        what: &str,
        found: impl Fn(&Seen) -> Result<T>,
    ) -> Result<Result<T>> {
        eventually(what, limit, async || match self.exit_report()? {
            Some(words) => Ok(Some(Err(anyhow!(words)))),
            None => found(&self.observation.seen()).map(|it| Some(Ok(it))),
        })
        .await
    }

    /// Returns the exit message of the controller, if it was started and has ended.
    fn exit_report(&mut self) -> Result<Option<String>> {
        let Some(controller) = &mut self.controller else { return Ok(None) };
        Ok(controller.ended()?.is_some().then(|| controller.exit_report()))
    }

    /// Stops everything.
    pub async fn close(mut self) -> Result<()> {
        drop(self.timeline);
        if let Some(mut controller) = self.controller.take() {
            controller.stop(STOP).await?;
        }
        drop(self.observation);
        drop(self._ec2);
        self.control_plane.stop().await.map(drop)
    }
}

/// Returns the seconds between two moments, negative when the second one is earlier.
pub fn seconds(from: Instant, to: Instant) -> f64 {
    if to >= from { (to - from).as_secs_f64() } else { -(from - to).as_secs_f64() }
}
