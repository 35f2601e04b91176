//! Instance types for both sides from one file. Kerf's fake of EC2 offers the types of the file, and kwok's provider reads a
//! conversion of the file. The nodes of both sides have exactly its allocatable resources.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use api::{label, quantity};
use serde::Deserialize;
use serde_json::{Value, json};

/// Limit of CPUs: types in Karpenter's suites have fewer. Karpenter's kwok provider uses another label for CPUs than EC2, so
/// the catalogue contains the limit instead of the NodePool.
const CPUS: u32 = 32;
/// Resources that kwok's provider subtracts from every type, so they are added beforehand.
const TAKEN_BY_KWOK: [(&str, i64); 2] = [(quantity::CPU, 100), (quantity::MEMORY, 10 << 20)];

/// Instance types, on-demand.
#[derive(Clone, Debug)]
pub struct Catalogue(BTreeMap<String, Row>);

#[derive(Clone, Debug, Deserialize)]
struct Row {
    name: String,
    capacity: Amounts,
    overhead: Amounts,
    /// Possible label values of a node of the type.
    labels: BTreeMap<String, Vec<String>>,
    offerings: Vec<Offering>,
}

#[derive(Clone, Debug, Deserialize)]
struct Offering {
    zone: String,
    /// Price in dollars per hour.
    price: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    instance_types: Vec<Row>,
}

/// Quantities by resource.
type Amounts = BTreeMap<String, String>;

impl Catalogue {
    /// Reads `catalogue.json` in the folder of a fixture.
    pub fn read(folder: &Path) -> Result<Self> {
        let file = folder.join("catalogue.json");
        let text = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let File { instance_types } =
            serde_json::from_slice(&text).with_context(|| format!("{} is no catalogue", file.display()))?;
        let sold = instance_types.into_iter().filter(|row| row.cpus().is_some_and(|cpus| cpus < CPUS));
        Ok(Self(sold.map(|row| (row.name.clone(), row)).collect()))
    }

    /// Returns the names of the types.
    pub fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    /// Returns the price in dollars per hour; on-demand prices are the same in every zone.
    pub fn price(&self, name: &str) -> Option<f64> {
        Some(self.0.get(name)?.offerings.first()?.price)
    }

    /// Returns `status.capacity` and `status.allocatable` of a node of this type.
    pub fn sizes(&self, name: &str) -> Result<(Value, Value)> {
        let row = self.0.get(name).with_context(|| format!("{name} is not offered in this region"))?;
        Ok((json!(row.capacity), json!(row.left(&[])?)))
    }

    /// Returns the document with instance types for kwok's provider.
    pub fn for_kwok(&self) -> Result<Value> {
        Ok(Value::from(self.0.values().map(Row::for_kwok).collect::<Result<Vec<_>>>()?))
    }
}

impl Row {
    fn cpus(&self) -> Option<u32> {
        self.label(label::INSTANCE_CPU)?.parse().ok()
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key)?.first().map(String::as_str)
    }

    /// Returns the allocatable resources, plus `more`.
    fn left(&self, more: &[(&str, i64)]) -> Result<Amounts> {
        let mut left = Amounts::new();
        for (resource, text) in &self.capacity {
            let taken = self.overhead.get(resource).map_or(Ok(0), |text| quantity::amount(resource, text))?;
            let more: i64 = more.iter().filter(|(of, _)| of == resource).map(|(_, amount)| amount).sum();
            let amount = quantity::amount(resource, text)? - taken + more;
            left.insert(resource.clone(), quantity::text(resource, amount));
        }
        Ok(left)
    }

    fn for_kwok(&self) -> Result<Value> {
        let requires = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
        let offering = |it: &Offering| {
            let requirements =
                [requires(label::CAPACITY_TYPE, label::CAPACITY_ON_DEMAND), requires(label::ZONE, &it.zone)];
            json!({"Price": it.price, "Available": true, "Requirements": requirements})
        };
        Ok(json!({
            "name": self.name,
            "architecture": self.label(label::ARCH).with_context(|| format!("{} has no architecture", self.name))?,
            "operatingSystems": [label::OS_LINUX],
            "resources": self.left(&TAKEN_BY_KWOK)?,
            "offerings": self.offerings.iter().map(offering).collect::<Vec<_>>(),
        }))
    }
}
