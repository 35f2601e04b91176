//! GetManagedResource of ARC: the zonal shifts of a cluster.

use cloud::{Cloud, ZonalShift};
use serde_json::{Value, json};

use super::answer::{Failure, Reply};

pub(super) async fn describe(cloud: &dyn Cloud, arn: &str) -> Result<Reply, Failure> {
    let all = cloud.zonal_shifts(arn).await?;
    let summary = format!("{} zonal shifts", all.len());
    let shifts: Vec<Value> = all.iter().filter_map(|one| shift(one, arn)).collect();
    let autoshifts: Vec<Value> = all.iter().filter(|one| one.expires.is_none()).map(autoshift).collect();
    let answer = json!({"arn": arn, "appliedWeights": {}, "zonalShifts": shifts, "autoshifts": autoshifts});
    Ok(Reply { body: answer.to_string(), summary })
}

/// Returns a shift that a person started, which has an end; `None` for an autoshift.
fn shift(one: &ZonalShift, arn: &str) -> Option<Value> {
    let end = one.expires?.as_second();
    Some(json!({
        "appliedStatus": status(one),
        "awayFrom": one.zone_id,
        "comment": "a test",
        "expiryTime": end,
        "resourceIdentifier": arn,
        "shiftType": "ZONAL_SHIFT",
        "startTime": end - 3600,
        "zonalShiftId": "00000000-0000-4000-8000-000000000001",
    }))
}

fn autoshift(one: &ZonalShift) -> Value {
    json!({"appliedStatus": status(one), "awayFrom": one.zone_id, "startTime": 1_700_000_000})
}

fn status(one: &ZonalShift) -> &'static str {
    if one.applied { "APPLIED" } else { "NOT_APPLIED" }
}
