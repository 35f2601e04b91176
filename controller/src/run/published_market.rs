//! The controller's view of the market in a ConfigMap, for `kerf --live`: instance types with learned amounts, prices, reservations, and
//! which offerings are unavailable. Nothing reads it back.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use api::decisions::storage::{CATALOGUES, MARKET, WRITTEN};
use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, ObjectMeta, Patch, PatchParams};
use planner::Catalogue;

use crate::capacity::offerings::Offerings;
use crate::lease::Leading;
use crate::state::cluster::Cluster;

/// Shortest interval between two writes.
const INTERVAL: Duration = Duration::from_secs(60);
/// Maximum size of the compressed catalogues. A ConfigMap may have 1 MiB in base64.
const LARGEST: usize = 700 << 10;
/// Field manager of the writes.
const MANAGER: &str = "kerf-market";

type Catalogues = BTreeMap<String, Arc<Catalogue>>;

/// Publishes the catalogues of all EC2NodeClasses after each change, forever.
pub async fn publish(
    client: Client,
    namespace: String,
    cluster: Arc<Cluster>,
    offerings: Arc<Offerings>,
    leading: Leading,
) {
    let api: Api<ConfigMap> = Api::namespaced(client, &namespace);
    let mut published = Catalogues::new();
    loop {
        let now = cluster.now();
        let found: Catalogues = cluster.read(|index| {
            let catalogue = |class: &String| Some((class.clone(), offerings.catalogue(class, now)?));
            index.classes.keys().filter_map(catalogue).collect()
        });
        if found != published && leading.run(write(&api, &found, now.to_string())).await == Some(true) {
            published = found;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Writes the catalogues, and reports whether there is nothing left to do.
async fn write(api: &Api<ConfigMap>, catalogues: &Catalogues, now: String) -> bool {
    let map = match compressed(catalogues) {
        Ok(bytes) if bytes.len() > LARGEST => {
            tracing::warn!(configmap = MARKET, bytes = bytes.len() as i64, "too many instance types to publish them");
            return true;
        }
        Ok(bytes) => ConfigMap {
            metadata: ObjectMeta { name: Some(MARKET.to_owned()), ..ObjectMeta::default() },
            data: Some(BTreeMap::from([(WRITTEN.to_owned(), now)])),
            binary_data: Some(BTreeMap::from([(CATALOGUES.to_owned(), ByteString(bytes))])),
            ..ConfigMap::default()
        },
        Err(error) => {
            tracing::warn!(configmap = MARKET, error = error.to_string().as_str(), "cannot publish instance types");
            return true;
        }
    };
    let written = api.patch(MARKET, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&map)).await;
    if let Err(error) = &written {
        let error = daemon::error::chain(error);
        tracing::warn!(configmap = MARKET, error = error.as_str(), "failed to publish instance types, retrying");
    }
    written.is_ok()
}

/// Writes JSON into the compressor: the text of a thousand instance types would take megabytes.
fn compressed(catalogues: &Catalogues) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let by_class: BTreeMap<&String, &Catalogue> = catalogues.iter().map(|(name, it)| (name, it.as_ref())).collect();
    serde_json::to_writer(io::BufWriter::new(&mut encoder), &by_class)?;
    encoder.flush()?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use planner::{CapacityType, InstanceType, MicroDollars, Offering};

    use super::{Arc, BTreeMap, Catalogue, Catalogues, compressed};

    #[test]
    fn compressed_keeps_prices_and_unavailable_offerings() {
        let offering = Offering {
            zone: "us-east-1a".to_owned(),
            capacity_type: CapacityType::Spot,
            price: MicroDollars(34_000),
            premium: MicroDollars(1000),
            available: false,
            labels: BTreeMap::new(),
            reservation: None,
        };
        let kind = InstanceType { name: "m7g.large".to_owned(), offerings: vec![offering], ..InstanceType::default() };
        let catalogue = Catalogue { name: "default".to_owned(), types: vec![kind], ..Catalogue::default() };
        let catalogues = Catalogues::from([("default".to_owned(), Arc::new(catalogue.clone()))]);
        let mut text = String::new();
        GzDecoder::new(compressed(&catalogues).unwrap().as_slice()).read_to_string(&mut text).unwrap();
        let read: BTreeMap<String, Catalogue> = serde_json::from_str(&text).unwrap();
        assert_eq!(read, BTreeMap::from([("default".to_owned(), catalogue)]));
    }
}
