//! Offerings and spot prices of the user's AWS account, by the AWS CLI: the user's profile, role and proxy apply as everywhere.

mod commitments;

use std::process::{Command, Stdio};

use cloud::{SpotPrice, TypeOffering};
use jiff::Timestamp;
use serde::Deserialize;

use super::spot;
use crate::failure::Failure;

pub use commitments::commitments;

/// Market of the account in one region.
pub(super) struct AccountMarket {
    /// Instance types by zone.
    pub(super) offerings: Vec<TypeOffering>,
    /// Spot prices.
    pub(super) spot_prices: Vec<SpotPrice>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Offerings {
    instance_type_offerings: Vec<Offering>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Offering {
    instance_type: String,
    location: String,
}

/// Reads the market of a region at a time.
///
/// # Errors
/// Returns an error if the AWS CLI is missing, fails, or prints another format; the message has the cure.
pub(super) fn read(region: &str, now: Timestamp) -> Result<AccountMarket, Failure> {
    let aws = AwsCli { region, purpose: "--account" };
    let text = aws.run("ec2", &["describe-instance-type-offerings", "--location-type", "availability-zone"])?;
    let offerings: Offerings = serde_json::from_str(&text)
        .map_err(|error| Failure::usage(format!("--account: the AWS CLI printed no offerings: {error}")))?;
    let one = |Offering { instance_type, location }| TypeOffering { instance_type, zone: location };
    // The history between equal times has the price of each type and zone at that time.
    let time = now.to_string();
    let products = ["--product-descriptions", "Linux/UNIX", "Linux/UNIX (Amazon VPC)"];
    let times = ["--start-time", &time, "--end-time", &time];
    let text = aws.run("ec2", &[&["describe-spot-price-history"], &products[..], &times].concat())?;
    let spot_prices = spot::prices(&text).map_err(|problem| Failure::usage(format!("--account: {problem}")))?;
    Ok(AccountMarket { offerings: offerings.instance_type_offerings.into_iter().map(one).collect(), spot_prices })
}

/// The AWS CLI for one region. It reads all pages by itself.
struct AwsCli<'a> {
    region: &'a str,
    /// Option or verb that needs it, for errors.
    purpose: &'a str,
}

impl AwsCli<'_> {
    /// Runs a command of a service and returns its output.
    fn run(&self, service: &str, arguments: &[&str]) -> Result<String, Failure> {
        let Self { region, purpose } = self;
        let mut command = Command::new("aws");
        command.arg(service).args(arguments).args(["--region", region, "--output", "json", "--no-cli-pager"]);
        let output = command.stdin(Stdio::null()).output().map_err(|error| {
            Failure::usage(format!(
                "{purpose}: the AWS CLI cannot be run: {error}; install it, so that `aws` is in the PATH"
            ))
        })?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let message = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no message");
            return Err(Failure::unavailable(format!(
                "{purpose}: `aws {service} {} --region {region}` failed: {}; check your credentials with `aws sts get-caller-identity`",
                arguments[0],
                message.trim()
            )));
        }
        String::from_utf8(output.stdout).map_err(|error| Failure::usage(format!("{purpose}: the AWS CLI: {error}")))
    }
}
