//! Past of a cluster. `kerf log`, `kerf report` and `kerf compare` read the decision log, from the controller's ConfigMaps or from
//! files. `kerf record` writes a recording, `kerf replay` plays it again, and `kerf costs` divides its cost among teams.

mod compare;
mod costs;
mod log;
mod record;
mod recording;
mod replay;
mod report;

use std::io::{BufRead, Read as _};
use std::path::PathBuf;

use api::decisions::storage::{DECISIONS, LINES, NUMBER, Ring, SUMMARIES};
use api::decisions::{Decision, Summary};
use flate2::read::GzDecoder;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use serde::de::DeserializeOwned;

use crate::args::{Compare, History, HistoryFormat, LiveCluster, Log, Report};
use crate::failure::Failure;
use crate::live;

pub use costs::costs;
pub use record::record;
pub use replay::replay;

/// Maximum size of the lines of a ConfigMap, which has at most 1 MiB of compressed data.
const LARGEST: u64 = 64 << 20;

/// Returns the output of `kerf log`.
///
/// # Errors
/// Returns an error if the decision log cannot be read.
pub fn log(args: &Log, stdin: &mut impl BufRead, now: Timestamp, colours: bool) -> Result<String, Failure> {
    let mut decisions: Vec<Decision> = read(&args.history, DECISIONS, stdin)?;
    let since = args.history.since.map(|period| now - period);
    decisions.retain(|decision| since.is_none_or(|since| decision.time >= since) && log::is_selected(args, decision));
    decisions.sort_by_key(|decision| decision.time);
    match args.history.output {
        HistoryFormat::Table => Ok(log::text(&decisions, colours)),
        HistoryFormat::Json => lines(&decisions),
    }
}

/// Returns the output of `kerf report`.
///
/// # Errors
/// Returns an error if the decision log cannot be read.
pub fn report(args: &Report, stdin: &mut impl BufRead, now: Timestamp, colours: bool) -> Result<String, Failure> {
    let mut total = Summary::default();
    summaries(&args.history, stdin, now)?.iter().for_each(|summary| total.merge(summary));
    match args.history.output {
        HistoryFormat::Table => Ok(report::text(&total, colours)),
        HistoryFormat::Json => lines(&[total]),
    }
}

/// Returns the output of `kerf compare`.
///
/// # Errors
/// Returns an error if the decision log cannot be read.
pub fn compare(args: &Compare, stdin: &mut impl BufRead, now: Timestamp) -> Result<String, Failure> {
    let periods = compare::periods(&summaries(&args.history, stdin, now)?, args.every);
    match args.history.output {
        HistoryFormat::Table => Ok(compare::text(&periods)),
        HistoryFormat::Json => lines(&periods.into_values().collect::<Vec<_>>()),
    }
}

fn summaries(source: &History, stdin: &mut impl BufRead, now: Timestamp) -> Result<Vec<Summary>, Failure> {
    let mut summaries: Vec<Summary> = read(source, SUMMARIES, stdin)?;
    let since = source.since.map(|period| now - period);
    summaries.retain(|summary| since.is_none_or(|since| summary.from >= since));
    Ok(summaries)
}

/// Returns the decisions of the cluster's controller, in the order of their time.
///
/// # Errors
/// Returns an error if the decision log cannot be read.
pub fn decisions(cluster: &LiveCluster, namespace: &str) -> Result<Vec<Decision>, Failure> {
    let mut decisions: Vec<Decision> = read_cluster(cluster, namespace, DECISIONS)?;
    decisions.sort_by_key(|decision| decision.time);
    Ok(decisions)
}

fn lines<T: serde::Serialize>(records: &[T]) -> Result<String, Failure> {
    let mut text = String::new();
    for record in records {
        text.push_str(&serde_json::to_string(record).map_err(Failure::internal)?);
        text.push('\n');
    }
    Ok(text)
}

fn read<T: DeserializeOwned>(source: &History, ring: Ring, stdin: &mut impl BufRead) -> Result<Vec<T>, Failure> {
    if source.paths.is_empty() {
        return read_cluster(&source.cluster, &source.namespace, ring);
    }
    let mut records = Vec::new();
    for path in &source.paths {
        let (name, text) = file(path, stdin)?;
        records.extend(parse(&name, &text)?);
    }
    Ok(records)
}

fn file(path: &PathBuf, stdin: &mut impl BufRead) -> Result<(String, String), Failure> {
    let mut text = String::new();
    let (name, result) = match path.to_str() {
        Some("-") => ("standard input".to_owned(), stdin.read_to_string(&mut text).map(drop)),
        _ => (path.display().to_string(), std::fs::read_to_string(path).map(|content| text = content)),
    };
    result.map_err(|error| Failure::usage(format!("{name}: {error}")))?;
    Ok((name, text))
}

/// Reads the segments from the oldest to the newest.
fn read_cluster<T: DeserializeOwned>(cluster: &LiveCluster, namespace: &str, ring: Ring) -> Result<Vec<T>, Failure> {
    let mut segments = Vec::new();
    for value in live::config_maps(cluster, namespace, &ring.names().collect::<Vec<_>>())? {
        let map: ConfigMap = serde_json::from_value(value).map_err(Failure::internal)?;
        segments.push(segment(&map)?);
    }
    if segments.is_empty() {
        return Err(Failure::usage(format!(
            "namespace {namespace} has no ConfigMap {}: give the controller's namespace with -n; a new controller \
             writes the first decisions after 15 s, and the first summary after a minute",
            ring.name(0)
        )));
    }
    segments.sort_by_key(|(number, ..)| *number);
    let parsed = segments.iter().map(|(_, name, text)| parse(name, text));
    Ok(parsed.collect::<Result<Vec<Vec<T>>, _>>()?.into_iter().flatten().collect())
}

/// Returns number, name and lines of a segment.
fn segment(map: &ConfigMap) -> Result<(u64, String, String), Failure> {
    let name = format!("ConfigMap {}", map.metadata.name.as_deref().unwrap_or_default());
    let number = map.data.as_ref().and_then(|data| data.get(NUMBER)?.parse().ok());
    let number = number.ok_or_else(|| Failure::usage(format!("{name}: data.{NUMBER} is not a number; {CURE}")))?;
    let compressed = map.binary_data.as_ref().and_then(|data| data.get(LINES));
    let compressed =
        compressed.ok_or_else(|| Failure::usage(format!("{name}: binaryData.{LINES} is missing; {CURE}")))?;
    let mut text = String::new();
    let read = GzDecoder::new(compressed.0.as_slice()).take(LARGEST).read_to_string(&mut text);
    read.map_err(|error| Failure::usage(format!("{name}: binaryData.{LINES}: {error}; {CURE}")))?;
    Ok((number, name, text))
}

/// Cure of a damaged ConfigMap.
const CURE: &str = "delete the ConfigMap, the controller writes it again";

fn parse<T: DeserializeOwned>(name: &str, text: &str) -> Result<Vec<T>, Failure> {
    let records = serde_json::Deserializer::from_str(text).into_iter::<T>();
    records.collect::<Result<_, _>>().map_err(|error| Failure::usage(format!("{name}: {error}")))
}
