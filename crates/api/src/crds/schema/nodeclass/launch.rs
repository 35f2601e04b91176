//! Schema rules of the instance settings in an EC2NodeClass: disks, network, metadata service.

use serde_json::{Value, json};

use super::super::common_rules::{cel_rule, cel_rules};
use super::super::{SchemaRule, set};

/// Pattern of volume sizes: 1 to 59000 Gi, 1 to 64000 G, 1 to 58 Ti, 1 to 64 T.
const VOLUME_SIZE: &str = "^((?:[1-9][0-9]{0,3}|[1-4][0-9]{4}|5[0-8][0-9]{3}|59000)Gi|(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-3][0-9]{3}|64000)G|([1-9]|[1-4][0-9]|5[0-8])Ti|([1-9]|[1-5][0-9]|6[0-4])T)$";

pub(super) fn schema_rules() -> Vec<SchemaRule> {
    [disks(), network_interfaces(), metadata_options(), connection_tracking()].into_iter().flatten().collect()
}

fn disks() -> Vec<SchemaRule> {
    const PATH: &str = "spec.blockDeviceMappings";
    let volume = cel_rules([
        cel_rule("has(self.snapshotID) || has(self.volumeSize)", "snapshotID or volumeSize must be defined"),
        cel_rule(
            "!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",
            "snapshotID must be set when volumeInitializationRate is set",
        ),
    ]);
    let one_root = cel_rule(
        "self.filter(x, has(x.rootVolume) && x.rootVolume).size() <= 1",
        "must have only one blockDeviceMappings with rootVolume",
    );
    vec![
        set(PATH, json!({ "maxItems": 50 })),
        set(PATH, cel_rules([one_root])),
        set(format!("{PATH}.[].ebs"), volume),
        set(format!("{PATH}.[].ebs.volumeInitializationRate"), json!({ "minimum": 100, "maximum": 300 })),
        set(format!("{PATH}.[].ebs.volumeSize"), json!({ "pattern": VOLUME_SIZE })),
    ]
}

fn network_interfaces() -> Vec<SchemaRule> {
    const PATH: &str = "spec.networkInterfaces";
    let all = cel_rules([
        cel_rule(
            "self.size() == 0 || self.exists(x, x.networkCardIndex == 0 && x.deviceIndex == 0 && x.interfaceType == 'interface')",
            "networkInterfaces must contain an 'interface' with networkCardIndex 0 and deviceIndex 0",
        ),
        cel_rule(
            "self.all(x, self.exists_one(y, x.networkCardIndex == y.networkCardIndex && x.deviceIndex == y.deviceIndex))",
            "networkCardIndex and deviceIndex must be unique together",
        ),
        cel_rule(
            "self.all(x, x.interfaceType != 'efa-only' || self.exists_one(y, y.interfaceType == 'efa-only' && x.networkCardIndex == y.networkCardIndex))",
            "a network card may have at most one 'efa-only' interface",
        ),
    ]);
    vec![
        set(PATH, json!({ "maxItems": 150 })),
        set(PATH, all),
        set(format!("{PATH}.[].networkCardIndex"), json!({ "minimum": 0 })),
        set(format!("{PATH}.[].deviceIndex"), json!({ "minimum": 0 })),
    ]
}

fn metadata_options() -> Vec<SchemaRule> {
    let defaults: [(&str, Value); 4] = [
        ("httpEndpoint", json!("enabled")),
        ("httpProtocolIPv6", json!("disabled")),
        ("httpPutResponseHopLimit", json!(1)),
        ("httpTokens", json!("required")),
    ];
    let whole: serde_json::Map<_, _> =
        defaults.iter().map(|(field, value)| ((*field).to_owned(), value.clone())).collect();
    let mut rules = vec![
        set("spec.metadataOptions", json!({ "default": whole })),
        set("spec.metadataOptions.httpPutResponseHopLimit", json!({ "minimum": 1, "maximum": 64 })),
    ];
    rules.extend(
        defaults.map(|(field, value)| set(format!("spec.metadataOptions.{field}"), json!({ "default": value }))),
    );
    rules
}

fn connection_tracking() -> Vec<SchemaRule> {
    const PATH: &str = "spec.connectionTracking";
    let range = |field: &str, least: i64, most: i64| {
        set(format!("{PATH}.{field}"), json!({ "minimum": least, "maximum": most }))
    };
    vec![
        set(
            PATH,
            cel_rules([cel_rule(
                "has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",
                "at least one of 'tcpEstablishedTimeout', 'udpStreamTimeout' and 'udpTimeout' must be set",
            )]),
        ),
        range("tcpEstablishedTimeout", 60, 432_000),
        range("udpStreamTimeout", 60, 180),
        range("udpTimeout", 30, 60),
    ]
}
