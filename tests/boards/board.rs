//! Board of Grafana: its panels, with their places and expressions.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

/// Board, as far as its picture needs it.
#[derive(Deserialize)]
pub struct Board {
    pub title: String,
    pub panels: Vec<Panel>,
}

/// Panel or heading.
#[derive(Deserialize)]
pub struct Panel {
    pub title: String,
    #[serde(rename = "type")]
    pub kind: Kind,
    #[serde(rename = "gridPos")]
    pub place: Place,
    #[serde(default)]
    pub targets: Vec<Target>,
    #[serde(default, rename = "fieldConfig")]
    fields: Fields,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Row,
    Stat,
    Table,
    Timeseries,
}

/// Place in Grafana's grid.
#[derive(Clone, Copy, Deserialize)]
pub struct Place {
    pub x: u32,
    pub y: u32,
    pub w: u32,
    pub h: u32,
}

/// Expression, and the text by which its curves are named.
#[derive(Deserialize)]
pub struct Target {
    expr: String,
    #[serde(rename = "legendFormat")]
    pub legend: String,
}

#[derive(Default, Deserialize)]
struct Fields {
    defaults: Defaults,
}

#[derive(Default, Deserialize)]
struct Defaults {
    unit: Unit,
}

/// Unit of a panel's values.
#[derive(Clone, Copy, Default, Deserialize)]
pub enum Unit {
    #[default]
    #[serde(rename = "short")]
    Number,
    #[serde(rename = "currencyUSD")]
    Dollars,
    #[serde(rename = "percentunit")]
    Share,
    #[serde(rename = "h")]
    Hours,
    #[serde(rename = "s")]
    Seconds,
    #[serde(rename = "bytes")]
    Bytes,
}

impl Board {
    /// Reads a board.
    ///
    /// # Errors
    /// Returns an error that names the file if it has another form.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{} has an unknown form", path.display()))
    }

    /// Returns the panels without the headings.
    pub fn with_data(&self) -> impl Iterator<Item = &Panel> {
        self.panels.iter().filter(|panel| panel.kind != Kind::Row)
    }
}

impl Panel {
    pub fn unit(&self) -> Unit {
        self.fields.defaults.unit
    }

    /// Returns the name of an expression: title of the panel and legend.
    pub fn name_of(&self, target: &Target) -> String {
        format!("{}: {}", self.title, target.legend)
    }
}

impl Target {
    /// Returns the expression for all NodePools.
    pub fn expression(&self) -> String {
        self.expr.replace("$nodepool", ".*")
    }
}

impl Unit {
    /// Returns a value as text.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Number => short(value),
            Self::Dollars => format!("${value:.3}"),
            Self::Share => format!("{:.0} %", value * 100.0),
            Self::Hours => format!("{} h", short(value)),
            Self::Seconds => format!("{} s", short(value)),
            Self::Bytes => format!("{:.0} MiB", value / f64::from(1 << 20)),
        }
    }
}

/// Returns a number with at most three digits behind the point, less for greater numbers.
fn short(value: f64) -> String {
    let digits = if value.abs() < 0.1 { 3 } else { 2 };
    let text = format!("{value:.digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
