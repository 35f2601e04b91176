//! The account and its zones: STS' GetCallerIdentity and EC2's DescribeAvailabilityZones. Kerf uses neither; other clients do.

use std::collections::BTreeMap;

use cloud::{Cloud, Filter};

use super::answer::{Failure, Reply, invalid};
use super::form::Form;
use super::xml::Xml;

/// Account of all resources.
pub(super) const ACCOUNT: &str = "123456789012";

/// Runs the call of STS in `form`.
pub(super) fn sts(form: &Form) -> Result<Reply, Failure> {
    let action = form.text("Action");
    if action != "GetCallerIdentity" {
        return Err(invalid("InvalidAction", format!("Could not find operation {action}")));
    }
    let body = Xml::sts_response(action, |xml| {
        xml.text("Arn", format!("arn:aws:iam::{ACCOUNT}:user/tester"));
        xml.text("UserId", "AIDAFAKEFAKEFAKEFAKE1");
        xml.text("Account", ACCOUNT);
    });
    Ok(Reply { body, summary: ACCOUNT.to_owned() })
}

/// Returns the zones of all subnets.
pub(super) async fn zones(cloud: &dyn Cloud) -> Result<Reply, Failure> {
    let subnets = cloud.subnets(&Filter::default()).await?;
    let zones: BTreeMap<&str, &str> =
        subnets.iter().map(|subnet| (subnet.zone.as_str(), subnet.zone_id.as_str())).collect();
    let body = Xml::response("DescribeAvailabilityZones", |xml| {
        xml.items("availabilityZoneInfo", &zones, |xml, (zone, id)| {
            xml.text("zoneName", zone);
            xml.text("zoneId", id);
            xml.text("zoneState", "available");
            xml.text("zoneType", "availability-zone");
            xml.text("optInStatus", "opt-in-not-required");
            xml.text("regionName", zone.trim_end_matches(|letter: char| letter.is_ascii_lowercase()));
        });
    });
    Ok(Reply { body, summary: format!("{} zones", zones.len()) })
}
