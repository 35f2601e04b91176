//! Leases of the API server. They have versions of their own, because renewals would otherwise wake every model each second.

use std::collections::BTreeMap;

use http::{Method, StatusCode};
use serde_json::{Value, json};

/// Plural of Leases in paths.
pub(crate) const LEASES: &str = "leases";

/// Leases by `namespace/name`.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    all: BTreeMap<String, Value>,
    version: u64,
}

impl Leases {
    /// Reads, creates or replaces a Lease. A replacement needs the current version.
    pub(crate) fn answer(&mut self, method: &Method, key: &str, mut body: Value) -> Result<Value, StatusCode> {
        let name = body["metadata"]["name"].as_str().unwrap_or_default();
        let key = if *method == Method::POST { format!("{key}{name}") } else { key.to_owned() };
        let known = self.all.get(&key);
        match *method {
            Method::GET => return known.cloned().ok_or(StatusCode::NOT_FOUND),
            Method::POST if known.is_some() => return Err(StatusCode::CONFLICT),
            Method::POST => {}
            Method::PUT => {
                let version = &known.ok_or(StatusCode::NOT_FOUND)?["metadata"]["resourceVersion"];
                if body["metadata"]["resourceVersion"] != *version {
                    return Err(StatusCode::CONFLICT);
                }
            }
            _ => return Err(StatusCode::METHOD_NOT_ALLOWED),
        }
        self.version += 1;
        body["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.all.insert(key, body.clone());
        Ok(body)
    }
}
