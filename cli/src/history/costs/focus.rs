//! Costs as CSV with columns of FOCUS (FinOps Open Cost and Usage Specification 1.2, focus.finops.org). Columns that begin with `x_` are
//! additions, as it permits. Account, SKU and invoice are unknown here.

use csv_core::{WriteResult, Writer};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;

use super::OwnerCost;
use crate::failure::Failure;
use crate::output::money::dollars;

const COLUMNS: [&str; 22] = [
    "BillingPeriodStart",
    "BillingPeriodEnd",
    "ChargePeriodStart",
    "ChargePeriodEnd",
    "BilledCost",
    "EffectiveCost",
    "ListCost",
    "ContractedCost",
    "BillingCurrency",
    "ChargeCategory",
    "ChargeDescription",
    "ProviderName",
    "ServiceCategory",
    "ServiceName",
    "ResourceType",
    "ResourceName",
    "ConsumedQuantity",
    "ConsumedUnit",
    "Tags",
    "x_RequestedCost",
    "x_DaemonSetsCost",
    "x_UnrequestedCost",
];

/// Returns one line for each owner and period.
pub(super) fn table(owners: &[OwnerCost]) -> Result<String, Failure> {
    let mut text = line(&COLUMNS.map(str::to_owned));
    for owner in owners {
        text.push_str(&line(&fields(owner)?));
    }
    Ok(text)
}

fn fields(owner: &OwnerCost) -> Result<[String; 22], Failure> {
    let (month, next) = month(owner.from)?;
    let cost = dollars(owner.cost);
    let tags = owner.owner.as_ref().map_or_else(|| json!({}), |value| json!({ &owner.by: value }));
    let description = match &owner.owner {
        Some(value) => format!("Nodes for pods of {} {value}", owner.by),
        None if owner.idle => "Nodes without pods".to_owned(),
        None => format!("Nodes for pods {}", owner.name()),
    };
    Ok([
        month.to_string(),
        next.to_string(),
        owner.from.to_string(),
        owner.to.to_string(),
        cost.clone(),
        cost.clone(),
        cost.clone(),
        cost,
        "USD".to_owned(),
        "Usage".to_owned(),
        description,
        "AWS".to_owned(),
        "Compute".to_owned(),
        "Amazon Elastic Compute Cloud".to_owned(),
        format!("Kubernetes {}", owner.by),
        owner.name(),
        format!("{:.4}", owner.pod_seconds as f64 / 3600.0),
        "Pod Hours".to_owned(),
        tags.to_string(),
        dollars(owner.requested),
        dollars(owner.daemon_sets),
        dollars(owner.unrequested),
    ])
}

/// Returns begin and end of the calendar month in UTC, to which the provider's invoices belong.
fn month(at: Timestamp) -> Result<(Timestamp, Timestamp), Failure> {
    let first = at.to_zoned(TimeZone::UTC).first_of_month().and_then(|day| day.start_of_day());
    let first = first.map_err(Failure::internal)?;
    let next = first.checked_add(jiff::Span::new().months(1)).map_err(Failure::internal)?;
    Ok((first.timestamp(), next.timestamp()))
}

/// Returns a line with its end.
fn line(fields: &[String]) -> String {
    // In the worst case each byte is a quote, which is doubled. Each field gets two quotes and a delimiter.
    let most: usize = fields.iter().map(|field| 2 * field.len() + 3).sum();
    let (mut out, mut written, mut writer) = (vec![0; most + 2], 0, Writer::new());
    for (position, field) in fields.iter().enumerate() {
        if position > 0 {
            let (result, bytes) = writer.delimiter(&mut out[written..]);
            written += complete(result, bytes);
        }
        let (result, _, bytes) = writer.field(field.as_bytes(), &mut out[written..]);
        written += complete(result, bytes);
    }
    let (result, bytes) = writer.terminator(&mut out[written..]);
    written += complete(result, bytes);
    out.truncate(written);
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns the number of written bytes. The output is never full.
fn complete(result: WriteResult, written: usize) -> usize {
    debug_assert_eq!(result, WriteResult::InputEmpty, "the buffer has the size of the longest line");
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> OwnerCost {
        let time = |text: &str| text.parse().unwrap();
        OwnerCost {
            from: time("2026-02-27T00:00:00Z"),
            to: time("2026-02-28T00:00:00Z"),
            by: "team".to_owned(),
            owner: Some(name.to_owned()),
            idle: false,
            cost: 3_500_000,
            requested: 2_000_000,
            daemon_sets: 500_000,
            unrequested: 1_000_000,
            pod_seconds: 5400,
        }
    }

    #[test]
    fn table_has_a_line_for_each_owner() {
        let idle = OwnerCost { owner: None, idle: true, ..owner("") };
        let text = table(&[owner("red, \"hot\""), idle]).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], COLUMNS.join(","));
        let expected = "2026-02-01T00:00:00Z,2026-03-01T00:00:00Z,2026-02-27T00:00:00Z,2026-02-28T00:00:00Z,3.5,3.5,3.5,3.5,USD,Usage,\
                        \"Nodes for pods of team red, \"\"hot\"\"\",AWS,Compute,Amazon Elastic Compute Cloud,Kubernetes team,\
                        \"red, \"\"hot\"\"\",1.5000,Pod Hours,\"{\"\"team\"\":\"\"red, \\\"\"hot\\\"\"\"\"}\",2,0.5,1";
        assert_eq!(lines[1], expected);
        assert!(lines[2].contains(",Nodes without pods,") && lines[2].contains(",idle nodes,"), "{}", lines[2]);
        assert_eq!(lines.len(), 3);
    }
}
