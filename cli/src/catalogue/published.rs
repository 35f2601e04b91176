//! Catalogues of instance types that the controller of a cluster publishes.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::decisions::storage::{CATALOGUES, MARKET, WRITTEN};
use flate2::read::GzDecoder;
use k8s_openapi::api::core::v1::ConfigMap;
use planner::Catalogue;
use serde_json::Value;

use crate::failure::Failure;

/// View of the market of a controller.
#[derive(Clone, Debug, Default)]
pub struct PublishedMarket {
    /// Catalogues by EC2NodeClass.
    pub catalogues: BTreeMap<String, Arc<Catalogue>>,
    /// Time at which they were written.
    pub written: String,
}

/// Reads the ConfigMap of the controller.
///
/// # Errors
/// Returns an error if its content cannot be read.
pub fn read(map: Value) -> Result<PublishedMarket, Failure> {
    let map: ConfigMap = serde_json::from_value(map).map_err(Failure::internal)?;
    let cure = "it is of another version of Kerf, or damaged; use --account or --spot-prices in its place";
    let unreadable = |why: String| Failure::usage(format!("ConfigMap {MARKET}: {why}; {cure}"));
    let compressed = map.binary_data.as_ref().and_then(|data| data.get(CATALOGUES));
    let compressed = compressed.ok_or_else(|| unreadable(format!("binaryData.{CATALOGUES} is missing")))?;
    let catalogues: BTreeMap<String, Catalogue> = serde_json::from_reader(GzDecoder::new(compressed.0.as_slice()))
        .map_err(|error| unreadable(error.to_string()))?;
    let catalogues = catalogues.into_iter().map(|(class, catalogue)| (class, Arc::new(catalogue))).collect();
    let written = map.data.and_then(|mut data| data.remove(WRITTEN)).unwrap_or_default();
    Ok(PublishedMarket { catalogues, written })
}
