//! Instances that fail a status check or have a scheduled event.
//!
//! All filters of one request must match, so each condition is a separate request.

use std::collections::BTreeMap;

use aws_sdk_ec2::Client;
use aws_sdk_ec2::primitives::{DateTime, DateTimeFormat};
use aws_sdk_ec2::types as ec2;
use cloud::{CloudError, InstanceStatus, StatusEvent};

use crate::ec2::tags;
use crate::failure::failure;

/// Instances per page.
const PAGE: i32 = 1000;

/// Events that end or stop the workload of an instance.
const EVENTS: [&str; 5] =
    ["instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"];

pub(crate) async fn unhealthy(client: &Client) -> Result<Vec<InstanceStatus>, CloudError> {
    let mut found = BTreeMap::new();
    for filter in [
        tags::filter("instance-status.status", ["impaired"]),
        tags::filter("system-status.status", ["impaired"]),
        tags::filter("event.code", EVENTS),
    ] {
        let call = client.describe_instance_status().filters(filter).max_results(PAGE);
        let mut pages = call.into_paginator().send();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| failure("DescribeInstanceStatus", error))?;
            let rows = page.instance_statuses.unwrap_or_default().into_iter().map(status);
            found.extend(rows.map(|row| (row.instance.clone(), row)));
        }
    }
    let ill = |one: &InstanceStatus| {
        one.instance_impaired_since.is_some() || one.system_impaired_since.is_some() || !one.events.is_empty()
    };
    Ok(found.into_values().filter(ill).collect())
}

fn status(status: ec2::InstanceStatus) -> InstanceStatus {
    InstanceStatus {
        instance: status.instance_id.unwrap_or_default(),
        instance_impaired_since: impaired(status.instance_status),
        system_impaired_since: impaired(status.system_status),
        events: status.events.unwrap_or_default().into_iter().filter_map(event).collect(),
    }
}

/// Returns the start of the first failed check, if the summary is impaired.
fn impaired(summary: Option<ec2::InstanceStatusSummary>) -> Option<String> {
    let summary = summary.filter(|summary| summary.status == Some(ec2::SummaryStatus::Impaired))?;
    let since = summary.details.unwrap_or_default().into_iter().filter_map(|detail| detail.impaired_since);
    since.min_by_key(DateTime::secs).and_then(text)
}

fn event(event: ec2::InstanceStatusEvent) -> Option<StatusEvent> {
    let description = event.description.unwrap_or_default();
    let code = event.code?.as_str().to_owned();
    let counts = EVENTS.contains(&code.as_str()) && !StatusEvent::is_over(&description);
    counts.then(|| StatusEvent { code, description, not_before: event.not_before.and_then(text) })
}

fn text(time: DateTime) -> Option<String> {
    time.fmt(DateTimeFormat::DateTime).ok()
}
