//! `kerf replay`: plays a recording again, and compares cost, nodes, evictions and waits.

mod chart;
mod table;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use planner::Catalogue;
use replay::{Change as RecordedChange, Figures, History, Market, Pace, Rules};
use serde::Serialize;
use snapshot::Objects;

use super::recording::read::{Recording, read};
use crate::args::{CatalogueSources, Format, Replay, Settings};
use crate::catalogue::{self, CatalogueOptions, PublishedMarket};
use crate::failure::Failure;
use crate::input::Change;
use crate::output;
use crate::plan::{Conditions, complete, gates};

/// Result of a replay.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// Begin and end of the recording.
    from: Timestamp,
    to: Timestamp,
    /// Sentences about changed objects.
    changes: Vec<String>,
    /// Figures by column: recorded, replayed, changed, karpenter.
    figures: BTreeMap<Column, Figures>,
    warnings: Vec<String>,
}

/// Column of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
enum Column {
    /// The past as it was.
    Recorded,
    /// Kerf's rules, with nothing changed.
    Replayed,
    /// The same with changed settings.
    Changed,
    /// Karpenter's rules, with nothing changed.
    Karpenter,
}

/// Returns the output of `kerf replay`, and writes the chart if there is one. `note` gets sentences on the way, `progress` the share of the
/// work that is done.
///
/// # Errors
/// Returns an error if the recording cannot be read, or if a change names no object.
pub fn replay(args: &Replay, note: &mut dyn FnMut(&str), progress: &mut dyn FnMut(f64)) -> Result<String, Failure> {
    let read = |changes| PricedRecording::read(&args.paths, &args.catalogue, &args.settings, changes);
    let plain = read(&[])?;
    plain.recording.notes.iter().for_each(|sentence| note(sentence));
    let changed = if args.changes.is_empty() { None } else { Some(read(&args.changes)?) };
    let runs = [
        Some((Column::Replayed, &plain, Rules::Kerf)),
        changed.as_ref().map(|changed| (Column::Changed, changed, Rules::Kerf)),
        args.karpenter.then_some((Column::Karpenter, &plain, Rules::Karpenter)),
    ];
    let runs: Vec<_> = runs.into_iter().flatten().collect();
    let history = &plain.recording.history;
    let mut figures = BTreeMap::from([(Column::Recorded, Figures::recorded(history, &plain.market))]);
    for (number, (column, input, rules)) in runs.iter().enumerate() {
        let mut share = |done: f64| progress((number as f64 + done) / runs.len() as f64);
        figures.insert(*column, input.run(*rules, &mut share));
    }
    let report = Report {
        from: history.begin,
        to: history.end,
        changes: changed.map(|changed| changed.recording.changes).unwrap_or_default(),
        warnings: warnings(&plain, &figures),
        figures,
    };
    if let Some(path) = &args.chart {
        std::fs::write(path, chart::svg(&report))
            .map_err(|error| Failure::usage(format!("--chart {}: {error}", path.display())))?;
    }
    match args.output {
        Format::Table => Ok(table::text(&report)),
        Format::Json => output::json(&report),
        Format::Yaml => output::yaml(&report),
    }
}

/// Recording with catalogues and settings.
pub(super) struct PricedRecording {
    pub(super) recording: Recording,
    pub(super) market: Market,
    settings: snapshot::Settings,
    pub(super) warnings: Vec<String>,
}

impl PricedRecording {
    /// Reads a recording. `settings` and `catalogue` replace those of the recorded controller.
    ///
    /// # Errors
    /// Returns an error if the recording cannot be read, or if a change names no object.
    pub(super) fn read(
        paths: &[PathBuf],
        catalogue: &CatalogueSources,
        settings: &Settings,
        changes: &[Change],
    ) -> Result<Self, Failure> {
        let mut recording = read(paths, changes)?;
        let recorded = Settings::of_controller(|name| recording.variables.get(name).map(String::as_str));
        let recorded =
            recorded.map_err(|error| Failure::usage(format!("settings of the recorded controller: {error}")))?;
        let settings = settings.clone().or(recorded);
        let mut warnings = settings.warnings();
        let conditions = settings.conditions(recording.history.begin);
        warnings.extend(prepare(&mut recording.history, &conditions));
        let options = catalogue.options(conditions.catalogue.clone());
        let market = market(&recording, &options, &mut warnings)?;
        Ok(Self { recording, market, settings: conditions.planner_settings(), warnings })
    }

    fn run(&self, rules: Rules, progress: &mut dyn FnMut(f64)) -> Figures {
        let history = &self.recording.history;
        let replay =
            replay::Replay { history, market: &self.market, settings: self.settings, rules, pace: Pace::of(history) };
        let length = history.end.duration_since(history.begin).as_secs_f64().max(1.0);
        replay.run(&mut |now| progress(now.duration_since(history.begin).as_secs_f64() / length))
    }
}

/// Removes objects whose feature gate is not open, which the controller ignores, and adds the fields that controllers would have
/// written. Returns warnings.
fn prepare(history: &mut History, conditions: &Conditions) -> Vec<String> {
    let open = conditions.gates.as_in_controller();
    let objects = history.changes.iter_mut().filter_map(|(at, change)| match change {
        RecordedChange::Objects(objects) => Some((*at, objects)),
        _ => None,
    });
    let prepared = objects.flat_map(|(at, objects)| {
        let objects = Arc::make_mut(objects);
        let mut warnings = gates(objects, &open);
        warnings.extend(complete(objects, at));
        warnings
    });
    prepared.collect()
}

/// Returns the catalogues over time: those of the controller where they were recorded.
fn market(recording: &Recording, options: &CatalogueOptions, warnings: &mut Vec<String>) -> Result<Market, Failure> {
    let objects = all_objects(&recording.history);
    let begin = recording.history.begin;
    let mut set =
        |published: Option<PublishedMarket>, at: Timestamp| -> Result<BTreeMap<String, Arc<Catalogue>>, Failure> {
            let options = CatalogueOptions { published, ..options.clone() };
            let found = catalogue::build(&objects, &options, at)?;
            warnings.extend(found.warnings);
            Ok(found.catalogues)
        };
    let mut catalogues = Vec::new();
    for (at, published) in recording.markets.iter().filter(|_| options.follows_controller()) {
        catalogues.push((*at, set(Some(published.clone()), *at)?));
    }
    if catalogues.is_empty() {
        catalogues.push((begin, set(None, begin)?));
    }
    Ok(Market { catalogues })
}

/// Returns every NodePool, EC2NodeClass and NodeClaim of a recording.
fn all_objects(history: &History) -> Objects {
    let mut all = Objects::default();
    for (_, change) in &history.changes {
        if let RecordedChange::Objects(objects) = change {
            all.merge(Objects { pools: objects.pools.clone(), classes: objects.classes.clone(), ..Objects::default() });
        }
    }
    let claims = history.nodes.iter().filter_map(|node| Some(Arc::clone(&node.at_begin.as_ref()?.0)));
    all.merge(Objects { claims: claims.collect(), ..Objects::default() });
    all
}

fn warnings(input: &PricedRecording, figures: &BTreeMap<Column, Figures>) -> Vec<String> {
    let mut warnings = input.warnings.clone();
    let unpriced = figures.get(&Column::Recorded).map_or(0, |recorded| recorded.unpriced_nodes);
    if unpriced > 0 {
        warnings.push(format!(
            "{unpriced} recorded nodes have no known price and count as free: record with the controller's prices, or use \
             --account or --spot-prices"
        ));
    }
    warnings.sort();
    warnings.dedup();
    warnings
}
