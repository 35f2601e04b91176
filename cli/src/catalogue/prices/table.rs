//! Table of on-demand prices, which `kerf prices` writes and `kerf plan` reads.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use cloud::data::{self, Facts};

use crate::failure::Failure;
use crate::output::money;

/// Region whose prices are embedded.
const EMBEDDED: &str = "us-east-1";
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
    estimated: bool,
}

impl PriceTable {
    /// Reads the given file, else the file at the default path, else the embedded prices. Types that a file does not contain
    /// keep their embedded price.
    ///
    /// # Errors
    /// Returns an error if the given file cannot be read, or if any file is invalid or of another region.
    pub fn find(given: Option<&Path>, region: &str, facts: &Facts) -> Result<Self, Failure> {
        let default = default_path(region).filter(|path| given.is_none() && path.exists());
        let mut on_demand = facts.on_demand.clone();
        let Some(path) = given.map(Path::to_owned).or(default) else {
            let source = format!("embedded on-demand prices of {EMBEDDED}");
            return Ok(Self { on_demand, source, estimated: region != EMBEDDED });
        };
        on_demand.extend(read(&path, region)?);
        Ok(Self { on_demand, source: format!("on-demand prices from {}", path.display()), estimated: false })
    }

    /// Returns a warning if the prices are estimates.
    #[must_use]
    pub fn warning(&self, region: &str) -> Option<String> {
        self.estimated.then(|| {
            format!(
                "prices in {region} are estimates, taken from {EMBEDDED}; `kerf prices --region {region}` fetches \
                 real ones"
            )
        })
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
