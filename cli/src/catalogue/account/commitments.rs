//! Reserved Instances and Savings Plans of the user's AWS account, as manifests of Commitments.

use std::collections::BTreeMap;

use api::commitment::{CommitmentSpec, ReservedInstances, SavingsPlan};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::AwsCli;
use crate::failure::Failure;

/// Manifests, and notes about what has none.
pub struct AccountCommitments {
    /// YAML with one document for each Commitment.
    pub text: String,
    /// Notes, one sentence each.
    pub notes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Reservations {
    reserved_instances: Vec<Reservation>,
}

/// Reserved Instances, as EC2 describes them.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Reservation {
    reserved_instances_id: String,
    instance_type: String,
    instance_count: i32,
    state: String,
    product_description: String,
    #[serde(default)]
    instance_tenancy: String,
    #[serde(default)]
    availability_zone: Option<String>,
    #[serde(default)]
    end: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Plans {
    savings_plans: Vec<Plan>,
}

/// Savings Plan, as AWS describes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Plan {
    savings_plan_id: String,
    state: String,
    savings_plan_type: String,
    commitment: String,
    #[serde(default)]
    region: Option<String>,
    #[serde(default)]
    ec2_instance_family: Option<String>,
    #[serde(default)]
    end: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rates {
    search_results: Vec<Rate>,
}

#[derive(Deserialize)]
struct Rate {
    rate: String,
    #[serde(default)]
    properties: Vec<Property>,
}

#[derive(Deserialize)]
struct Property {
    name: String,
    value: String,
}

/// Reads the Commitments of an account for one region.
///
/// # Errors
/// Returns an error if the AWS CLI is missing, fails, or prints another format; the message has the cure.
pub fn commitments(region: &str) -> Result<AccountCommitments, Failure> {
    let aws = AwsCli { region, purpose: "kerf commitments" };
    let (mut found, mut notes) = (BTreeMap::new(), Vec::new());
    let states = ["describe-reserved-instances", "--filters", "Name=state,Values=active"];
    let reservations: Reservations = parsed(&aws, "ec2", &states)?;
    for reservation in reservations.reserved_instances.into_iter().filter(|it| it.state == "active") {
        let name = format!("reserved-{}", reservation.reserved_instances_id);
        match reserved(reservation) {
            Ok(spec) => drop(found.insert(name, spec)),
            Err(note) => notes.push(note),
        }
    }
    let plans: Plans = parsed(&aws, "savingsplans", &["describe-savings-plans", "--states", "active"])?;
    for plan in plans.savings_plans.into_iter().filter(|it| it.state == "active") {
        let name = format!("savings-plan-{}", plan.savings_plan_id);
        match is_for_region(&plan, region) {
            Ok(()) => match savings_plan(&aws, plan)? {
                Some(spec) => drop(found.insert(name, spec)),
                None => notes.push(format!("{name} has no rate for Linux instances in {region}: left out")),
            },
            Err(note) => notes.push(note),
        }
    }
    if found.is_empty() {
        notes.push(format!(
            "the account has no active Reserved Instances or Savings Plans for {region}; those of an organization are often \
             in its management account"
        ));
    }
    Ok(AccountCommitments { text: manifests(&found)?, notes })
}

fn parsed<T: DeserializeOwned>(aws: &AwsCli<'_>, service: &str, arguments: &[&str]) -> Result<T, Failure> {
    let text = aws.run(service, arguments)?;
    serde_json::from_str(&text).map_err(|error| {
        let call = arguments.first().copied().unwrap_or_default();
        Failure::usage(format!("kerf commitments: `aws {service} {call}` printed another format: {error}"))
    })
}

/// Returns the Commitment of Reserved Instances, or the reason why Kerf's nodes cannot use them.
fn reserved(reservation: Reservation) -> Result<CommitmentSpec, String> {
    let Reservation { reserved_instances_id: id, product_description: product, .. } = &reservation;
    if !product.starts_with("Linux/UNIX") {
        return Err(format!("Reserved Instances {id} are for {product}, not for Linux: left out"));
    }
    if reservation.instance_tenancy == "dedicated" {
        return Err(format!("Reserved Instances {id} are for dedicated tenancy: left out"));
    }
    let reserved_instances = ReservedInstances {
        instance_type: reservation.instance_type,
        count: reservation.instance_count,
        zone: reservation.availability_zone,
        size_flexible: None,
    };
    let end_time = reservation.end.map(Time);
    Ok(CommitmentSpec { reserved_instances: Some(reserved_instances), end_time, ..CommitmentSpec::default() })
}

/// Returns the reason why a plan does not pay for instances of the region, if it does not.
fn is_for_region(plan: &Plan, region: &str) -> Result<(), String> {
    let id = &plan.savings_plan_id;
    if !["Compute", "EC2Instance"].contains(&plan.savings_plan_type.as_str()) {
        return Err(format!("Savings Plan {id} is for {}, not for EC2: left out", plan.savings_plan_type));
    }
    match &plan.region {
        Some(own) if own != region && plan.savings_plan_type == "EC2Instance" => {
            Err(format!("Savings Plan {id} is for region {own}: left out"))
        }
        _ => Ok(()),
    }
}

/// Returns the Commitment of a plan; `None` if it has no rates in the region.
fn savings_plan(aws: &AwsCli<'_>, plan: Plan) -> Result<Option<CommitmentSpec>, Failure> {
    let region = format!("name=region,values={}", aws.region);
    let filters = ["--filters", &region, "name=tenancy,values=shared", "name=productDescription,values=Linux/UNIX"];
    let call = ["describe-savings-plan-rates", "--savings-plan-id", &plan.savings_plan_id];
    let rates: Rates = parsed(aws, "savingsplans", &[&call[..], &filters].concat())?;
    let of_type = |rate: Rate| {
        let kind = rate.properties.into_iter().find(|it| it.name == "instanceType")?.value;
        Some((kind, api::price::dollars(api::price::micro_dollars(&rate.rate).ok()?)))
    };
    let savings_plan = SavingsPlan {
        cost_per_hour: plan.commitment,
        instance_families: plan.ec2_instance_family.into_iter().collect(),
        discount_percent: None,
        rates: rates.search_results.into_iter().filter_map(of_type).collect(),
    };
    let has_rates = !savings_plan.rates.is_empty();
    let end_time = plan.end.map(Time);
    let spec = CommitmentSpec { savings_plan: Some(savings_plan), end_time, ..CommitmentSpec::default() };
    Ok(has_rates.then_some(spec))
}

fn manifests(found: &BTreeMap<String, CommitmentSpec>) -> Result<String, Failure> {
    let document = |(name, spec): (&String, &CommitmentSpec)| {
        let object = json!({
            "apiVersion": "kerf.sh/v1alpha1", "kind": "Commitment", "metadata": {"name": name}, "spec": spec,
        });
        serde_saphyr::to_string(&object).map_err(|error| Failure::usage(format!("kerf commitments: {name}: {error}")))
    };
    Ok(found.iter().map(document).collect::<Result<Vec<_>, _>>()?.join("---\n"))
}
