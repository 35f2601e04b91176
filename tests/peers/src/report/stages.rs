//! Stages on the way to running pods, which `tests/live` records for each pod, NodeClaim and Node: as a table with the time at
//! which half of the objects and all of them had reached each stage, and as a chart.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::{Context, ensure};
use day::chart::{LEFT, LEGEND, Scale, Ticks, put, text, whole};

/// Stages in their usual order, with the colour of the chart; stages without a colour are not drawn.
const STAGES: [(&str, &str); 9] = [
    ("created", ""),
    ("unschedulable", "#888"),
    ("nodeclaim", "#8e5bb5"),
    ("launched", ""),
    ("registered", "#c44e52"),
    ("nominated", ""),
    ("schedulable", "#d9722c"),
    ("bound", "#2a9d5c"),
    ("running", RUNNING),
];
const RUNNING: &str = "#1f77b4";
/// Pattern of Karpenter's line.
const DASHES: &str = "5 3";
/// Horizontal distance of the entries of the legend.
const ENTRY: f64 = 118.0;
/// Most ticks of the time axis.
const TICKS: usize = 12;

/// Stages of both sides in one scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Stages {
    scenario: String,
    ours: Side,
    peer: Side,
}

/// Sorted milliseconds of each stage.
type Side = BTreeMap<String, Vec<i64>>;

impl Stages {
    /// Reads the files of a scenario; returns `None` unless both sides were recorded.
    ///
    /// # Errors
    /// Returns an error with the file and line that cannot be used.
    pub fn read(folder: &Path, scenario: &str) -> anyhow::Result<Option<Self>> {
        let side = |name: &str| {
            let file = folder.join(format!("live-{scenario}-{name}-stages.csv"));
            let Ok(content) = std::fs::read_to_string(&file) else { return Ok(None) };
            parse(&content).with_context(|| file.display().to_string()).map(Some)
        };
        let sides = side("kerf")?.zip(side("karpenter")?);
        Ok(sides.map(|(ours, peer)| Self { scenario: scenario.to_owned(), ours, peer }))
    }

    /// Writes the rows of the scenario.
    ///
    /// # Errors
    /// Returns the errors of the formatter.
    pub fn rows(&self, page: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (stage, _) in STAGES.iter().filter(|(stage, _)| self.ours.contains_key(*stage)) {
            let [half, all] = moments(&self.ours, stage);
            let [peer_half, peer_all] = moments(&self.peer, stage);
            writeln!(page, "| {}/{stage} | {half} | {all} | {peer_half} | {peer_all} |", self.scenario)?;
        }
        Ok(())
    }

    /// Draws the share of the objects that had reached each stage, with Karpenter's running pods beside it.
    #[must_use]
    pub fn chart(&self) -> String {
        let all = self.ours.values().chain(self.peer.get("running")).flatten();
        let (from, until) = all.fold((0, 1), |(from, until), at| (from.min(*at), until.max(*at)));
        let scale = Scale { from, until };
        let seconds = usize::try_from((until - from) / 1_000).unwrap_or_default();
        let ticks = Ticks { unit: 1_000, name: "s", every: round(seconds.div_ceil(TICKS)) };
        let heading = format!("{}: share of pods and nodes that reached each stage", self.scenario);
        let mut body = scale.frame(&heading, ticks);
        let drawn = STAGES.iter().filter(|(stage, colour)| !colour.is_empty() && self.ours.contains_key(*stage));
        let ours = drawn.map(|(stage, colour)| (*stage, &self.ours[*stage], *colour, ""));
        let peer = self.peer.get("running").map(|moments| ("running, Karpenter", moments, RUNNING, DASHES));
        for (number, (name, moments, colour, dashes)) in ours.chain(peer).enumerate() {
            let all = moments.len() as f64;
            let points = (1..).zip(moments).map(|(count, at)| (*at, f64::from(count) / all));
            put(&mut body, format_args!("{}", scale.line(points, colour, dashes)));
            let x = LEFT + ENTRY * number as f64;
            put(&mut body, format_args!("{}", text(x, LEGEND, "start", colour, name)));
        }
        whole(&body, &heading)
    }

    /// Returns the name of the chart's file.
    #[must_use]
    pub fn file(&self) -> String {
        format!("live-{}.svg", self.scenario)
    }
}

/// Returns the next of 1, 2, 5, 10, 20, 50 and so on.
fn round(least: usize) -> usize {
    let steps = (0..).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_usize.pow(power)));
    steps.into_iter().find(|step| *step >= least).unwrap_or(least)
}

/// Returns the seconds after which half of the objects and all of them had reached the stage.
fn moments(side: &Side, stage: &str) -> [String; 2] {
    let Some(sorted) = side.get(stage) else { return ["–", "–"].map(str::to_owned) };
    let at = |position: usize| format!("{:.1}", sorted[position] as f64 / 1_000.0);
    [at((sorted.len() - 1) / 2), at(sorted.len() - 1)]
}

fn parse(content: &str) -> anyhow::Result<Side> {
    let mut side = Side::new();
    for (number, line) in content.lines().enumerate().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [stage, _, seconds] = fields[..] else {
            anyhow::bail!("line {}: {line:?} has no three fields", number + 1)
        };
        ensure!(STAGES.iter().any(|(known, _)| *known == stage), "line {}: stage {stage:?} is unknown", number + 1);
        let seconds: f64 = seconds.parse().with_context(|| format!("line {}: {seconds:?} is no number", number + 1))?;
        side.entry(stage.to_owned()).or_default().push((seconds * 1_000.0).round() as i64);
    }
    side.values_mut().for_each(|moments| moments.sort_unstable());
    Ok(side)
}

#[cfg(test)]
mod tests {
    use super::{Stages, parse, round};

    const OURS: &str =
        "stage,name,seconds\ncreated,a,-0.5\ncreated,b,0\nschedulable,n,4\nrunning,a,5\nrunning,b,7.25\n";
    const PEER: &str = "stage,name,seconds\ncreated,a,-0.1\ncreated,b,0\nrunning,a,20\nrunning,b,30\n";

    #[test]
    fn stages_print_when_half_and_all_objects_reached_them() {
        let folder = tempfile::tempdir().unwrap();
        let write = |side: &str, content: &str| {
            std::fs::write(folder.path().join(format!("live-wide-{side}-stages.csv")), content).unwrap();
        };
        write("kerf", OURS);
        assert_eq!(Stages::read(folder.path(), "wide").unwrap(), None);
        write("karpenter", PEER);
        let stages = Stages::read(folder.path(), "wide").unwrap().unwrap();
        let page = std::fmt::from_fn(|page| stages.rows(page)).to_string();
        let rows = [
            "| wide/created | -0.5 | 0.0 | -0.1 | 0.0 |",
            "| wide/schedulable | 4.0 | 4.0 | – | – |",
            "| wide/running | 5.0 | 7.2 | 20.0 | 30.0 |",
        ];
        assert_eq!(page.lines().collect::<Vec<_>>(), rows);
        let chart = stages.chart();
        for part in ["running, Karpenter", "stroke-dasharray=\"5 3\"", ">schedulable<", ">30 s<"] {
            assert!(chart.contains(part), "{part} in {chart}");
        }
    }

    #[test]
    fn parse_names_the_line_that_it_cannot_use() {
        let wrong = |line: &str| parse(&format!("stage,name,seconds\n{line}\n")).unwrap_err().to_string();
        assert_eq!(wrong("bound,n"), "line 2: \"bound,n\" has no three fields");
        assert_eq!(wrong("shut,n,1"), "line 2: stage \"shut\" is unknown");
        assert_eq!(wrong("bound,n,late"), "line 2: \"late\" is no number");
    }

    #[test]
    fn round_returns_steps_that_are_easy_to_read() {
        assert_eq!([0, 1, 3, 6, 11, 26, 60].map(round), [1, 1, 5, 10, 20, 50, 100]);
    }
}
