//! Alibaba's trace of a GPU cluster (openb): one line is one pod with its requests, its creation and its deletion. Each pod is a
//! workload of its own, because the trace does not name owners.
//!
//! In the trace pods share GPUs. Device plugins give a pod whole GPUs, so a pod with a share of a GPU requests one.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use day::app::App;
use day::clock::{HOUR, Moment, SECOND, START};
use day::trace::Event;

use super::{Part, Trace};

const PODS: &str = "alibaba-openb-2023.csv";
/// Begin of the trace as it is played, in seconds: the cluster is in use from day 115 on. Pods that run then are created at the begin.
const BEGIN: i64 = 115 * 24 * 3_600;

/// Pod of the trace; moments in seconds.
struct Line {
    app: App,
    created: i64,
    deleted: i64,
}

/// Reads a part of the trace.
///
/// # Errors
/// Returns an error with the file and line that cannot be used.
pub fn read(folder: &Path, part: Part) -> Result<Trace> {
    let file = folder.join(PODS);
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut trace = Trace { name: "trace-openb".to_owned(), hours: part.hours, pods: 0, events: Vec::new() };
    let mut lines = text.lines();
    let columns = Columns::new(lines.next().unwrap_or_default());
    for (number, line) in lines.enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let pod = columns.pod(line).with_context(|| format!("{PODS}:{}", number + 2))?;
        let (created, deleted) = (moment(pod.created.max(BEGIN)), moment(pod.deleted));
        let is_played = deleted > created && created < START + part.hours * HOUR;
        if is_played && number % part.every == part.first {
            trace.pods += 1;
            trace.events.push((deleted, Event::Scale(pod.app.name.clone(), 0)));
            trace.events.push((created, Event::Come(pod.app)));
        }
    }
    trace.events.sort_by_key(|(at, _)| *at);
    Ok(trace)
}

/// Returns the moment in the simulation of a moment of the trace.
fn moment(seconds: i64) -> Moment {
    START + (seconds - BEGIN) * SECOND
}

/// Positions of the columns by their names.
struct Columns<'t>(BTreeMap<&'t str, usize>);

impl<'t> Columns<'t> {
    fn new(header: &'t str) -> Self {
        Self(header.split(',').enumerate().map(|(position, name)| (name.trim(), position)).collect())
    }

    fn pod(&self, line: &str) -> Result<Line> {
        let values: Vec<&str> = line.split(',').map(str::trim).collect();
        let text = |name: &str| {
            let value = self.0.get(name).and_then(|position| values.get(*position));
            value.copied().with_context(|| format!("no column {name}"))
        };
        let number = |name: &str| {
            let value = text(name)?;
            value.parse::<i64>().with_context(|| format!("{name}: {value:?} is no number"))
        };
        let app = App {
            name: text("name")?.to_owned(),
            wanted: 1,
            cpu: number("cpu_milli")?,
            memory: number("memory_mib")? << 20,
            gpus: number("num_gpu")?,
            ..App::default()
        };
        let (created, deleted) = (number("creation_time")?, number("deletion_time")?);
        ensure!(created <= deleted, "{} is deleted at {deleted}, before its creation at {created}", app.name);
        Ok(Line { app, created, deleted })
    }
}

#[cfg(test)]
mod tests {
    use day::clock::{SECOND, START};
    use day::trace::Event;

    use super::{BEGIN, PODS, Part, read};
    use crate::traces::{Origin, play};

    const HEADER: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time";
    const WHOLE: Part = Part { hours: 3, every: 1, first: 0 };

    fn folder(pods: &[String]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(PODS), format!("{HEADER}\n{}\n", pods.join("\n"))).unwrap();
        folder
    }

    fn pod(name: &str, gpus: i64, from: i64, to: i64) -> String {
        format!("{name},4000,8192,{gpus},500,{},{}", BEGIN + from, BEGIN + to)
    }

    #[test]
    fn read_creates_running_pods_at_the_begin() {
        let pods = [
            pod("over", 1, -90, -5),
            pod("runs", 1, -90, 60),
            pod("comes", 0, 30, 20_000),
            pod("late", 1, 11_000, 12_000),
        ];
        let trace = read(folder(&pods).path(), WHOLE).unwrap();
        let describe = |(at, event): &(i64, Event)| match event {
            Event::Come(app) => {
                format!("{} {} {}m {} {}", (at - START) / SECOND, app.name, app.cpu, app.memory >> 20, app.gpus)
            }
            Event::Scale(name, left) => format!("{} {name} {left}", (at - START) / SECOND),
            other => format!("{other:?}"),
        };
        let events: Vec<String> = trace.events.iter().map(describe).collect();
        assert_eq!(events, ["0 runs 4000m 8192 1", "30 comes 4000m 8192 0", "60 runs 0", "20000 comes 0"]);
        assert_eq!(trace.pods, 2);
        let every_third = read(folder(&pods).path(), Part { every: 3, first: 2, ..WHOLE }).unwrap();
        assert_eq!(every_third.pods, 1);
    }

    #[test]
    fn read_names_the_line_that_it_cannot_use() {
        let error =
            |line: String| format!("{:#}", read(folder(&[pod("good", 1, 0, 9), line]).path(), WHOLE).err().unwrap());
        for (line, expected) in [
            ("short,1".to_owned(), "no column memory_mib"),
            (pod("back", 1, 9, 3), "back is deleted at "),
            (pod("odd", 1, 0, 9).replace("4000", "many"), "cpu_milli: \"many\" is no number: "),
        ] {
            let error = error(line);
            assert!(error.starts_with(&format!("{PODS}:3: {expected}")), "{error}");
        }
    }

    /// The audit of the simulation checks that no node has pods with more GPUs than it has.
    #[test]
    fn play_gives_whole_gpus_to_pods() {
        let pods: Vec<String> = (0..6).map(|number| pod(&format!("gpu-{number}"), 1 + number % 2, 0, 20_000)).collect();
        let plain = (0..4).map(|number| pod(&format!("plain-{number}"), 0, 600, 20_000));
        let trace = read(folder(&pods.into_iter().chain(plain).collect::<Vec<_>>()).path(), WHOLE).unwrap();
        for peer in [false, true] {
            let found = play(&trace, &Origin::Openb.setup(), peer).unwrap();
            assert_eq!(found.waits.len() - found.evicted, 10, "{found}");
            assert!(found.bounded.cost() > 0.0 && found.bounded.least <= found.bounded.cost(), "{found}");
        }
    }
}
