//! Execution of one command line: reads input, plans, prints.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use api::EC2NodeClass;
use api::decisions::storage;
use clap::{CommandFactory, Parser};
use clap_complete::Shell;
use jiff::Timestamp;
use serde_json::Value;

use crate::adopt::RolePolicies;
use crate::args::{
    Adopt, Command, Convert, ExplainedObject, Format, LiveCluster, Origin, Plan, Settings, Subject, Top,
    USUAL_NAMESPACE, Ui, Verb,
};
use crate::catalogue::{self, CatalogueOptions, PublishedMarket, prices};
use crate::convert::NodeIdentity;
use crate::failure::{Failure, PLACED, UNPLACED, UNREADABLE};
use crate::input::{Change, InputError, InputErrors, Manifests};
use crate::instance::{types, userdata};
use crate::live::{self, LiveKinds};
use crate::output::{self, Progress, counted};
use crate::plan::report::PlanReport;
use crate::plan::top::{self, ExtraColumns, ShownNodes, TopOptions};
use crate::plan::ui::{self, UiPlace, UiSources};
use crate::plan::what_if::WhatIf;
use crate::plan::{self, Conditions, PlanAnswer, explain, table};
use crate::{adopt, convert, history, input};

/// Maximum number of notes that are printed.
const NOTES: usize = 20;
/// Warning about a cluster in which neither Karpenter nor Kerf is installed.
const NO_CONTROLLER: &str = "the cluster has no Deployment of the controller: using default settings";

/// Runs the command line and returns the exit code:
///
/// - 0: every pod that is not ignored has a place
/// - 3: a pod is unschedulable
/// - 2: input cannot be read
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let command = match Command::try_parse_from(arguments) {
        Ok(command) => command,
        Err(error) => {
            // Help and version are not errors. A failure to print them cannot be reported.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { UNREADABLE } else { PLACED });
        }
    };
    match execute(command.verb) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            for line in failure.to_string().lines() {
                eprintln!("kerf: error: {line}");
            }
            ExitCode::from(failure.code())
        }
    }
}

fn execute(verb: Verb) -> Result<u8, Failure> {
    match verb {
        Verb::Plan(plan) => show_plan(&plan),
        Verb::Why(why) => {
            let (text, code) = explained(&why.object)?;
            print(&text)?;
            Ok(code)
        }
        Verb::Top(top) => {
            show_nodes(top)?;
            Ok(PLACED)
        }
        Verb::Ui(args) => {
            serve_page(args)?;
            Ok(PLACED)
        }
        Verb::Log(args) => {
            print(&history::log(&args, &mut io::stdin().lock(), Timestamp::now(), colours())?)?;
            Ok(PLACED)
        }
        Verb::Report(args) => {
            print(&history::report(&args, &mut io::stdin().lock(), Timestamp::now(), colours())?)?;
            Ok(PLACED)
        }
        Verb::Compare(args) => {
            print(&history::compare(&args, &mut io::stdin().lock(), Timestamp::now())?)?;
            Ok(PLACED)
        }
        Verb::Record(args) => {
            print(&history::record(&args, &mut |sentence| eprintln!("kerf: note: {sentence}"))?)?;
            Ok(PLACED)
        }
        Verb::Replay(args) => {
            let mut progress = Progress::new("replaying");
            let note = &mut |sentence: &str| eprintln!("kerf: note: {sentence}");
            let text = history::replay(&args, note, &mut |done| progress.show(done))?;
            drop(progress);
            print(&text)?;
            Ok(PLACED)
        }
        Verb::Costs(args) => {
            print(&history::costs(&args, &mut |sentence| eprintln!("kerf: note: {sentence}"))?)?;
            Ok(PLACED)
        }
        Verb::Types(args) => {
            let class = args.class.as_deref().map(read_class).transpose()?;
            print(&types::text(&args, class, Timestamp::now(), colours())?)?;
            Ok(PLACED)
        }
        Verb::UserData(args) => {
            let rendered = userdata::render(&args, &mut io::stdin().lock())?;
            print_notes(&rendered.notes);
            print(&rendered.text)?;
            Ok(PLACED)
        }
        Verb::Convert(args) => {
            convert_objects(&args)?;
            Ok(PLACED)
        }
        Verb::Adopt(args) => {
            let role = role_policies(&args)?;
            let objects = match args.paths.as_slice() {
                [] => live::read(LiveKinds::Everything, &args.live)?,
                paths => adopt::read(paths, &mut io::stdin().lock())?,
            };
            let report = adopt::report(&objects, role.as_ref(), Timestamp::now())?;
            print(&report.to_string())?;
            Ok(if report.is_clear() { PLACED } else { UNPLACED })
        }
        Verb::Prices(args) => {
            print(&prices::refresh(&args.endpoint, &args.region, args.out.as_deref())?)?;
            Ok(PLACED)
        }
        Verb::Commitments(args) => print_commitments(&args.region),
        Verb::Completions(args) => {
            print(&completions(args.shell))?;
            Ok(PLACED)
        }
    }
}

/// Prints the commitments of the AWS account for a region.
fn print_commitments(region: &str) -> Result<u8, Failure> {
    let found = catalogue::commitments(region)?;
    print_notes(&found.notes);
    print(&found.text)?;
    Ok(PLACED)
}

/// Converts objects, and prints them with notes about what changed.
fn convert_objects(args: &Convert) -> Result<(), Failure> {
    let stdin = &mut io::stdin().lock();
    let converted = match args.from {
        Some(Origin::ClusterAutoscaler) => {
            let options = convert::GroupOptions { identity: identity(args), cluster: args.cluster_name.clone() };
            convert::from_cluster_autoscaler(&args.paths, &options, stdin)?
        }
        None if args.cluster.is_named() => {
            let text = live::manifests(&args.cluster)?;
            convert::convert_text("cluster", &text, identity(args).as_ref())?
        }
        None => convert::convert(&args.paths, identity(args).as_ref(), stdin)?,
    };
    converted.notes.iter().for_each(|text| eprintln!("kerf: note: {text}"));
    converted.changed.iter().for_each(|text| eprintln!("kerf: changed: {text}"));
    converted.lost.iter().for_each(|text| eprintln!("kerf: lost: {text}"));
    print(&converted.text)
}

/// Reads the policies of the controller's role, if they are to be checked.
fn role_policies(args: &Adopt) -> Result<Option<RolePolicies>, Failure> {
    if args.iam_policy.is_empty() {
        let missing =
            "--iam needs --iam-policy FILE: the end of `kerf adopt --help` has the commands that write the file";
        return if args.iam { Err(Failure::usage(missing)) } else { Ok(None) };
    }
    let mut policies = adopt::read_policies(&args.iam_policy, &mut io::stdin().lock())?;
    adopt::add_limits(&mut policies, &args.iam_limit, &mut io::stdin().lock())?;
    Ok(Some(RolePolicies { policies, cluster_name: args.cluster_name.clone() }))
}

/// Returns the identity of nodes that the command line names.
fn identity(args: &Convert) -> Option<NodeIdentity> {
    let profile = args.instance_profile.clone().map(NodeIdentity::InstanceProfile);
    args.role.clone().map(NodeIdentity::Role).or(profile)
}

/// Returns the completion script for a shell.
fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Command::command(), "kerf", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

fn exit_code(report: &PlanReport) -> u8 {
    if report.unschedulable.is_empty() { PLACED } else { UNPLACED }
}

/// Returns the explanation of one object, or of the cost, with the exit code.
fn explained(object: &ExplainedObject) -> Result<(String, u8), Failure> {
    match object {
        ExplainedObject::Pod(pod) => {
            let (text, code) = explain::pod(&answer(&pod.subject)?, &pod.name, colours())?;
            let name = explain::full_name(&pod.name);
            let (namespace, name) = name.split_once('/').unwrap_or_default();
            Ok((text + &events_of(&pod.subject.cluster, "Pod", namespace, name), code))
        }
        ExplainedObject::Node(node) => {
            let (text, code) = explain::node(&answer(&node.subject)?, &node.name, colours())?;
            Ok((text + &events_of(&node.subject.cluster, "Node", "default", &node.name), code))
        }
        ExplainedObject::Not(pool) => explain::why_not(&answer(&pool.subject)?, &pool.name, &pool.pod, colours()),
        ExplainedObject::Cost(cost) => {
            Ok((explain::cost_of_cluster(&answer(&cost.subject)?, cost.by.as_deref(), colours()), PLACED))
        }
        ExplainedObject::NodeClaim(claim) => {
            let (text, code) = explain::node_claim(&answer(&claim.subject)?, &claim.name, colours())?;
            Ok((text + &events_of(&claim.subject.cluster, "NodeClaim", "default", &claim.name), code))
        }
    }
}

/// Returns the section about the newest events of an object, for a live cluster.
fn events_of(cluster: &LiveCluster, kind: &str, namespace: &str, name: &str) -> String {
    if !cluster.is_named() {
        return String::new();
    }
    explain::events(live::events(cluster, kind, namespace, name), Timestamp::now(), colours())
}

/// Shows the terminal view, or prints its figures once.
fn show_nodes(args: Top) -> Result<(), Failure> {
    let options = TopOptions {
        shown: ShownNodes {
            selected: args.selector.requirements(),
            sort: args.sort,
            columns: ExtraColumns { labels: args.label_columns, resources: args.resources },
        },
        interval: args.subject.cluster.is_named().then(|| Duration::from_secs(args.interval)),
        colours: colours(),
    };
    let reads_keys = !args.subject.paths.iter().any(|path| path.as_os_str() == "-");
    if args.once || !io::stdout().is_terminal() || !reads_keys {
        return print(&top::text(&answer(&args.subject)?, &options, top::width()));
    }
    let subject = args.subject;
    top::show(&options, move || answer(&subject))
}

/// Serves the page until Ctrl-C.
fn serve_page(args: Ui) -> Result<(), Failure> {
    let Ui { subject, port, listen, namespace, interval } = args;
    let place = listen.map_or(UiPlace::Loopback { port }, UiPlace::Network);
    let cluster = subject.cluster.clone();
    let decisions = move || match cluster.is_named() {
        true => history::decisions(&cluster, &namespace),
        false => Err(Failure::usage("files have no decisions")),
    };
    let interval = subject.cluster.is_named().then(|| Duration::from_secs(interval));
    let read = move || {
        let (reading, fixed) = (Reading::new(&subject)?, subject.changes.clone());
        let planner: ui::Planner = Box::new(move |more| reading.answer(&[fixed.as_slice(), more].concat()));
        Ok(planner)
    };
    ui::serve(place, UiSources { read, decisions, interval })
}

/// Reads the objects and plans.
fn answer(subject: &Subject) -> Result<PlanAnswer, Failure> {
    let answer = Reading::new(subject)?.into_answer(&subject.changes)?;
    print_notes(&answer.cluster.changes);
    Ok(answer)
}

/// Objects that were read once, for plans with and without changes.
struct Reading {
    objects: ReadObjects,
    /// Warnings of the settings.
    warnings: Vec<String>,
    conditions: Conditions,
}

/// Objects without a check.
#[derive(Clone)]
enum ReadObjects {
    /// Texts of files, and errors of those that cannot be read.
    Files { files: Vec<input::File>, errors: Vec<InputError> },
    /// Objects of a cluster.
    Cluster(Vec<Value>),
}

impl Reading {
    fn new(subject: &Subject) -> Result<Self, Failure> {
        if subject.cluster.is_named() {
            return Self::of_cluster(subject);
        }
        let (files, errors) = input::files(&subject.paths, &mut io::stdin().lock());
        let warnings = subject.settings.warnings();
        let conditions = conditions(subject, &subject.settings);
        Ok(Self { objects: ReadObjects::Files { files, errors }, warnings, conditions })
    }

    /// Reads the objects from the cluster. Settings that are not given are those of the controller's Deployment.
    fn of_cluster(subject: &Subject) -> Result<Self, Failure> {
        let objects = live::read(LiveKinds::Plan, &subject.cluster)?;
        let all: Vec<_> = objects.iter().collect();
        let settings = adopt::settings(&all).map_err(Failure::usage)?;
        let (published, unpublished) = published_market(&all, &subject.cluster)?;
        let without_controller = settings.is_none().then(|| NO_CONTROLLER.to_owned());
        let settings = subject.settings.clone().or(settings.unwrap_or_default());
        let warnings = settings.warnings().into_iter().chain(without_controller).chain(unpublished).collect();
        let conditions = conditions(subject, &settings);
        let catalogue = CatalogueOptions { published, ..conditions.catalogue };
        let conditions = Conditions { live: true, catalogue, ..conditions };
        Ok(Self { objects: ReadObjects::Cluster(objects), warnings, conditions })
    }

    /// Returns the plan for the objects with changes, and prints notes about files.
    fn into_answer(self, changes: &[Change]) -> Result<PlanAnswer, Failure> {
        let has_positions = matches!(self.objects, ReadObjects::Files { .. });
        let mut manifests = self.objects.changed(changes)?;
        if has_positions {
            print_notes(&manifests.notes);
        }
        manifests.warnings.extend(self.warnings);
        plan::answer(manifests, &self.conditions)
    }

    /// Returns the plan for the objects with changes.
    fn answer(&self, changes: &[Change]) -> Result<PlanAnswer, Failure> {
        let mut manifests = self.objects.clone().changed(changes)?;
        manifests.warnings.extend(self.warnings.iter().cloned());
        plan::answer(manifests, &self.conditions)
    }
}

impl ReadObjects {
    fn changed(self, changes: &[Change]) -> Result<Manifests, InputErrors> {
        match self {
            Self::Files { files, errors } => input::read_changed(&files, errors, changes),
            Self::Cluster(objects) => input::read_values("cluster", objects, changes),
        }
    }
}

/// Prints the plan. With changes, it is compared with the plan without them.
fn show_plan(args: &Plan) -> Result<u8, Failure> {
    let reading = Reading::new(&args.subject)?;
    let changes = &args.subject.changes;
    let unchanged = if changes.is_empty() { None } else { Some(reading.answer(&[])?) };
    let answer = reading.into_answer(changes)?;
    let what_if = unchanged.map(|unchanged| WhatIf::new(&unchanged, &answer));
    let report = PlanReport { what_if, ..PlanReport::new(&answer) };
    print(&plan_text(&answer, &report, args.output)?)?;
    Ok(exit_code(&report))
}

/// Reads the market that the controller publishes, of a controller without a Deployment in its usual namespace. Without the
/// right to read that of a known controller, the answer has a warning.
fn published_market(
    objects: &[&Value],
    cluster: &LiveCluster,
) -> Result<(Option<PublishedMarket>, Option<String>), Failure> {
    let known = adopt::namespace(objects);
    match live::config_maps(cluster, known.unwrap_or(USUAL_NAMESPACE), &[storage::MARKET.to_owned()]) {
        Ok(maps) => Ok((maps.into_iter().next().map(catalogue::read_published).transpose()?, None)),
        Err(failure) if failure.code() == UNREADABLE && known.is_none() => Ok((None, None)),
        Err(failure) if failure.code() == UNREADABLE => {
            Ok((None, Some(format!("without the controller's prices and unavailable offerings: {failure}"))))
        }
        Err(failure) => Err(failure),
    }
}

/// Reads the one class in a file.
fn read_class(path: &Path) -> Result<EC2NodeClass, Failure> {
    let manifests = input::read(&[path.to_owned()], &mut io::stdin().lock())?;
    print_notes(&manifests.notes);
    match manifests.objects.classes.as_slice() {
        [class] => Ok(class.as_ref().clone()),
        classes => Err(Failure::usage(format!(
            "--class {}: {} objects of kind EC2NodeClass; use a file with exactly one",
            path.display(),
            counted(classes.len(), "object")
        ))),
    }
}

/// Prints notes for people, up to a limit.
fn print_notes(notes: &[String]) {
    for note in notes.iter().take(NOTES) {
        eprintln!("kerf: note: {note}");
    }
    if notes.len() > NOTES {
        eprintln!("kerf: note: and {} more", notes.len() - NOTES);
    }
}

fn conditions(subject: &Subject, settings: &Settings) -> Conditions {
    let conditions = settings.conditions(subject.now.unwrap_or_else(Timestamp::now));
    Conditions { seed: subject.seed, catalogue: subject.catalogue.options(conditions.catalogue), ..conditions }
}

/// Reports whether the output is a terminal with colours, and the user has not disabled them (no-color.org).
fn colours() -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|kind| kind == "dumb");
    io::stdout().is_terminal() && !dumb && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn plan_text(answer: &PlanAnswer, report: &PlanReport, format: Format) -> Result<String, Failure> {
    match format {
        Format::Table => Ok(table::table(answer, report, colours())),
        Format::Json => output::json(report),
        Format::Yaml => output::yaml(report),
    }
}

/// Prints to standard output; ignores a reader that closed the pipe.
fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::internal(error)),
        _ => Ok(()),
    }
}
