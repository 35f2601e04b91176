//! Zonal shifts of a cluster from Amazon Application Recovery Controller (ARC).

use aws_sdk_arczonalshift::Client;
use aws_sdk_arczonalshift::types::{AppliedStatus, AutoshiftAppliedStatus, AutoshiftInResource, ZonalShiftInResource};
use cloud::{CloudError, Timestamp, ZonalShift};

use crate::failure::failure;

pub(crate) async fn zonal_shifts(client: &Client, cluster_arn: &str) -> Result<Vec<ZonalShift>, CloudError> {
    let call = client.get_managed_resource().resource_identifier(cluster_arn);
    let answer = call.send().await.map_err(|error| failure("GetManagedResource", error))?;
    let autoshifts = answer.autoshifts.unwrap_or_default();
    Ok(answer.zonal_shifts.into_iter().map(shift).chain(autoshifts.into_iter().map(autoshift)).collect())
}

fn shift(shift: ZonalShiftInResource) -> ZonalShift {
    ZonalShift {
        zone_id: shift.away_from,
        // A time beyond the calendar is no end.
        expires: Timestamp::from_second(shift.expiry_time.secs()).ok(),
        applied: shift.applied_status == AppliedStatus::Applied,
    }
}

fn autoshift(shift: AutoshiftInResource) -> ZonalShift {
    ZonalShift {
        zone_id: shift.away_from,
        expires: None,
        applied: shift.applied_status == AutoshiftAppliedStatus::Applied,
    }
}
