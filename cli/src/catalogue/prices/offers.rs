//! AWS's offer file of EC2: selects the records with hourly prices of Linux instances.

use std::collections::BTreeMap;

use cloud::data;

/// Columns that the selection needs, by their names in the file.
const COLUMNS: [&str; 11] = [
    "TermType",
    "PricePerUnit",
    "Currency",
    "Unit",
    "Product Family",
    "Instance Type",
    "Tenancy",
    "Operating System",
    "Pre Installed S/W",
    "CapacityStatus",
    "Region Code",
];
/// Columns that some files lack, with the values of ordinary instances. Licences, extra software and capacity blocks have
/// separate rows.
const OPTIONAL: [(&str, &[&str]); 3] = [
    ("operation", &["RunInstances"]),
    ("License Model", &["No License required", "NA"]),
    ("MarketOption", &["OnDemand"]),
];
/// Required values for shared instances: one entry for each column with only one valid value.
const WANTED: [(usize, &str); 6] = [(0, "OnDemand"), (2, "USD"), (3, "Hrs"), (7, "Linux"), (8, "NA"), (9, "Used")];

/// Maximum number of instance types. A region of AWS has about a thousand.
const MOST_TYPES: usize = 20_000;

/// Positions of the columns in a record.
#[derive(Clone, Copy, Debug)]
struct Columns {
    required: [usize; COLUMNS.len()],
    optional: [Option<usize>; OPTIONAL.len()],
}

/// Prices found so far.
#[derive(Debug, Default)]
pub(super) struct Offers {
    /// Positions of the columns, set after the header line.
    columns: Option<Columns>,
    records: u64,
    prices: BTreeMap<String, i64>,
}

impl Offers {
    /// Adds the price of one record.
    ///
    /// # Errors
    /// Returns a message if a price cannot be read or belongs to another region.
    pub(super) fn record(&mut self, record: &[String], region: &str) -> Result<(), String> {
        self.records += 1;
        let Some(columns) = &self.columns else {
            self.columns = heading(record);
            return Ok(());
        };
        let field = |column: usize| record.get(columns.required[column]).map_or("", String::as_str);
        if WANTED.iter().any(|(column, text)| field(*column) != *text) || !is_instance(field(4), field(6)) {
            return Ok(());
        }
        let ordinary = OPTIONAL.iter().zip(columns.optional).all(|((_, allowed), place)| {
            let value = place.and_then(|place| record.get(place)).map_or("", String::as_str);
            value.is_empty() || allowed.contains(&value)
        });
        if !ordinary {
            return Ok(());
        }
        if field(10) != region {
            return Err(format!("record {} is of region {:?}, not of {region}", self.records, field(10)));
        }
        let (kind, text) = (field(5), field(1));
        let price = data::scaled(text, 6);
        let price = price.ok_or_else(|| format!("record {}: {text:?} of {kind} is not a price", self.records))?;
        // Zero means "not sold in this form". Of several records of a type, the most expensive one has no conditions.
        if price > 0 && !kind.is_empty() {
            if self.prices.len() >= MOST_TYPES {
                return Err(format!("record {}: more than {MOST_TYPES} instance types", self.records));
            }
            let known = self.prices.entry(kind.to_owned()).or_default();
            *known = price.max(*known);
        }
        Ok(())
    }

    /// Returns the prices by instance type.
    ///
    /// # Errors
    /// Returns a message if there are no prices.
    pub(super) fn finish(self) -> Result<BTreeMap<String, i64>, String> {
        match (self.columns, self.prices.is_empty()) {
            (None, _) => Err("no header line".to_owned()),
            (Some(_), true) => Err(format!("no price of a Linux instance in {} records", self.records)),
            (Some(_), false) => Ok(self.prices),
        }
    }
}

/// Reports whether a record describes an instance. Bare metal is sold with dedicated tenancy, all other instances with shared
/// tenancy.
fn is_instance(family: &str, tenancy: &str) -> bool {
    matches!(
        (family, tenancy),
        ("Compute Instance", "Shared") | ("Compute Instance (bare metal)", "Shared" | "Dedicated")
    )
}

/// Returns the positions of the columns if the record is the header line; lines about the file precede it.
fn heading(record: &[String]) -> Option<Columns> {
    let place = |column: &str| record.iter().position(|name| name == column);
    let mut required = [0; COLUMNS.len()];
    for (found, column) in required.iter_mut().zip(COLUMNS) {
        *found = place(column)?;
    }
    Some(Columns { required, optional: OPTIONAL.map(|(column, _)| place(column)) })
}
