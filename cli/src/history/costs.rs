//! `kerf costs`: the cost of a recording, divided among teams, namespaces or other owners of pods.

mod focus;

use std::collections::BTreeMap;

use api::decisions::money;
use api::objects::{Namespace, Pod, cost_label};
use jiff::Timestamp;
use replay::{CostShare, History, cost_shares};
use serde::Serialize;

use super::replay::PricedRecording;
use super::report::{table, with_title};
use crate::args::{CostFormat, Costs};
use crate::failure::Failure;
use crate::output::money::rounded;
use crate::output::wrap;

/// Width of the output.
const WIDTH: usize = 80;
const SECONDS_PER_HOUR: f64 = 3_600.0;
/// Key that divides the cost by namespace, in place of a label.
const NAMESPACE: &str = "namespace";
/// Explanation of the columns.
const MEANING: &str = "The cost of a node belongs to the pods that it runs, by the CPU, memory and accelerators that they request. DAEMONSETS and \
                       UNREQUESTED are their part of what DaemonSets and no pod requested. Persistent volumes and traffic are not included.";

/// Cost of an owner in a period.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OwnerCost {
    from: Timestamp,
    to: Timestamp,
    /// Label, or `namespace`.
    by: String,
    /// Value of the label; absent for pods without it, and for idle nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// True for nodes without pods.
    idle: bool,
    #[serde(with = "money::required")]
    cost: i64,
    #[serde(with = "money::required")]
    requested: i64,
    #[serde(with = "money::required")]
    daemon_sets: i64,
    #[serde(with = "money::required")]
    unrequested: i64,
    pod_seconds: i64,
}

/// Returns the output of `kerf costs`. `note` gets sentences about the recording.
///
/// # Errors
/// Returns an error if the recording cannot be read.
pub fn costs(args: &Costs, note: &mut dyn FnMut(&str)) -> Result<String, Failure> {
    let priced = PricedRecording::read(&args.paths, &args.catalogue, &args.settings, &[])?;
    priced.recording.notes.iter().chain(&priced.warnings).for_each(|sentence| note(sentence));
    let history = &priced.recording.history;
    let unpriced = replay::Figures::recorded(history, &priced.market).unpriced_nodes;
    if unpriced > 0 {
        note(&format!("{unpriced} nodes have no known price and count as free: use --account or --spot-prices"));
    }
    let namespaces = namespaces(&priced);
    let shares = cost_shares(history, &priced.market, args.every, |pod| owner(pod, &namespaces, &args.by));
    let owners: Vec<OwnerCost> = shares.into_iter().map(|share| owner_cost(share, args, history.end)).collect();
    match args.output {
        CostFormat::Table => Ok(text(&owners, args, history)),
        CostFormat::Json => super::lines(&owners),
        CostFormat::Focus => focus::table(&owners),
    }
}

/// Returns the namespaces of the recording, in their last state.
fn namespaces(priced: &PricedRecording) -> BTreeMap<String, Namespace> {
    let mut found = BTreeMap::new();
    for (_, change) in &priced.recording.history.changes {
        if let replay::Change::Objects(objects) = change {
            let own = objects.namespaces.iter().map(|it| (it.name().to_owned(), it.as_ref().clone()));
            found.extend(own);
        }
    }
    found
}

/// Returns the owner of a pod: its namespace, or the value of its label or that of its namespace. Empty if it has none.
fn owner(pod: &Pod, namespaces: &BTreeMap<String, Namespace>, by: &str) -> String {
    if by == NAMESPACE {
        return pod.namespace().to_owned();
    }
    cost_label(pod, namespaces.get(pod.namespace()), by).unwrap_or_default().to_owned()
}

fn owner_cost(share: CostShare, args: &Costs, end: Timestamp) -> OwnerCost {
    let next = share.from.as_second().div_euclid(args.every.as_secs()) + 1;
    let to = Timestamp::from_second(next.saturating_mul(args.every.as_secs())).unwrap_or(end).min(end);
    OwnerCost {
        from: share.from,
        to,
        by: args.by.clone(),
        idle: share.owner.is_none(),
        cost: share.cost(),
        owner: share.owner.filter(|owner| !owner.is_empty()),
        requested: share.requested,
        daemon_sets: share.daemons,
        unrequested: share.unrequested,
        pod_seconds: share.pod_seconds,
    }
}

impl OwnerCost {
    /// Returns the owner as people read it.
    fn name(&self) -> String {
        match &self.owner {
            Some(owner) => owner.clone(),
            None if self.idle => "idle nodes".to_owned(),
            None => format!("without {}", self.by),
        }
    }

    fn add(&mut self, other: &Self) {
        self.cost += other.cost;
        self.requested += other.requested;
        self.daemon_sets += other.daemon_sets;
        self.unrequested += other.unrequested;
        self.pod_seconds += other.pod_seconds;
    }
}

/// Returns the costs of the whole period as text, the highest first.
fn text(owners: &[OwnerCost], args: &Costs, history: &History) -> String {
    let mut sums: BTreeMap<String, OwnerCost> = BTreeMap::new();
    for owner in owners {
        let sum = sums.entry(owner.name());
        sum.and_modify(|sum| sum.add(owner)).or_insert_with(|| owner.clone());
    }
    let whole: i64 = sums.values().map(|owner| owner.cost).sum();
    let mut sorted: Vec<(&String, &OwnerCost)> = sums.iter().collect();
    sorted.sort_by_key(|(name, owner)| (std::cmp::Reverse(owner.cost), *name));
    let mut rows: Vec<Vec<String>> = sorted.into_iter().map(|(name, owner)| row(name, owner, whole)).collect();
    if let Some(mut all) = sums.values().next().cloned() {
        sums.values().skip(1).for_each(|owner| all.add(owner));
        rows.push(row("all", &all, whole));
    }
    let title = [args.by.to_uppercase(), "COST".into(), "SHARE".into(), "REQUESTED".into(), "DAEMONSETS".into()];
    let title: Vec<String> = title.into_iter().chain(["UNREQUESTED".to_owned(), "POD HOURS".to_owned()]).collect();
    let title: Vec<&str> = title.iter().map(String::as_str).collect();
    let time = |at: Timestamp| at.strftime("%Y-%m-%d %H:%M").to_string();
    let (from, to) = (history.begin, history.end);
    let hours = to.duration_since(from).as_secs_f64() / SECONDS_PER_HOUR;
    let mut lines = vec![format!("{} to {} UTC ({hours:.1} h)", time(from), time(to))];
    lines.extend(table(with_title(&title, rows)));
    lines.push(String::new());
    lines.extend(wrap(MEANING, WIDTH, ""));
    lines.join("\n") + "\n"
}

fn row(name: &str, owner: &OwnerCost, whole: i64) -> Vec<String> {
    let share = if whole > 0 { format!("{:.0} %", 100.0 * owner.cost as f64 / whole as f64) } else { "-".to_owned() };
    let parts = [owner.requested, owner.daemon_sets, owner.unrequested].map(rounded);
    let hours = format!("{:.1}", owner.pod_seconds as f64 / SECONDS_PER_HOUR);
    let mut row = vec![name.to_owned(), rounded(owner.cost), share];
    row.extend(parts);
    row.push(hours);
    row
}
