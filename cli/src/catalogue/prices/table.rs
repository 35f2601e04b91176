//! Table of on-demand prices, which `kerf prices` writes and `kerf plan` reads.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use cloud::data::{self, Facts};

use crate::failure::Failure;
use crate::output::money;

/// Start of a table's first line; the region follows.
const TITLE: &str = "# Linux on-demand prices of ";
const HEADING: &str = "instance_type,usd_per_hour";

/// On-demand prices of one region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriceTable {
    /// Millionths of a dollar per hour, by instance type.
    pub on_demand: BTreeMap<String, i64>,
    /// Source of the prices, for people.
    pub source: String,
    /// Region of the embedded prices that stand for those of the region.
    estimated_from: Option<&'static str>,
}

impl PriceTable {
    /// Reads the given file, else the file at the default path, else the embedded prices. Types that a file does not contain
    /// keep their embedded price.
    ///
    /// # Errors
    /// Returns an error if the given file cannot be read, or if any file is invalid or of another region.
    pub fn find(given: Option<&Path>, region: &str, facts: &Facts) -> Result<Self, Failure> {
        let default = default_path(region).filter(|path| given.is_none() && path.exists());
        let mut on_demand = facts.on_demand_in(region).clone();
        let Some(path) = given.map(Path::to_owned).or(default) else {
            let embedded = facts.price_region(region);
            let source = format!("embedded on-demand prices of {embedded}");
            return Ok(Self { on_demand, source, estimated_from: (region != embedded).then_some(embedded) });
        };
        on_demand.extend(read(&path, region)?);
        Ok(Self { on_demand, source: format!("on-demand prices from {}", path.display()), estimated_from: None })
    }

    /// Returns warnings if the prices are estimates, or not in dollars.
    #[must_use]
    pub fn warnings(&self, region: &str) -> Vec<String> {
        let estimate = self.estimated_from.map(|embedded| {
            format!(
                "prices in {region} are estimates, taken from {embedded}; `kerf prices --region {region}` fetches \
                 real ones"
            )
        });
        let currency = region.starts_with("cn-").then(|| format!("prices in {region} are in yuan, shown with $"));
        estimate.into_iter().chain(currency).collect()
    }
}

/// Returns the default path of a region's table: in `$XDG_DATA_HOME/kerf`, else in `~/.local/share/kerf`.
#[must_use]
pub fn default_path(region: &str) -> Option<PathBuf> {
    let folder = |key: &str| std::env::var_os(key).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = folder("XDG_DATA_HOME").or_else(|| Some(folder("HOME")?.join(".local/share")))?;
    Some(data.join("kerf").join(format!("prices-{region}.csv")))
}

/// Returns the text of a table.
#[must_use]
pub fn text(region: &str, prices: &BTreeMap<String, i64>) -> String {
    let mut text = format!("{TITLE}{region}, dollars per hour\n{HEADING}\n");
    for (name, price) in prices {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name},{}", money::dollars(*price));
    }
    text
}

fn read(path: &Path, region: &str) -> Result<BTreeMap<String, i64>, Failure> {
    let wrong = |problem: String| {
        let cure = format!("fetch it again with `kerf prices --region {region} --out FILE`");
        Failure::usage(format!("{}: {problem}; {cure}", path.display()))
    };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let mut lines = text.lines();
    let title = lines.next().and_then(|line| line.strip_prefix(TITLE)?.split(',').next());
    match title {
        Some(own) if own == region => {}
        Some(own) => return Err(wrong(format!("these are the prices of {own}, not of {region}"))),
        None => return Err(wrong("not a table of prices".to_owned())),
    }
    if lines.next() != Some(HEADING) {
        return Err(wrong(format!("line 2 is not {HEADING:?}")));
    }
    let mut prices = BTreeMap::new();
    for (index, line) in lines.enumerate() {
        let row = line.split_once(',').and_then(|(name, price)| Some((name, data::scaled(price, 6)?)));
        let Some((name, price)) = row.filter(|(name, price)| !name.is_empty() && *price > 0) else {
            return Err(wrong(format!("line {}: {line:?} is not a type and a price", index + 3)));
        };
        prices.insert(name.to_owned(), price);
    }
    Ok(prices)
}
