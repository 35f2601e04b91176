//! Values of settings from their text.

use std::time::Duration;

use super::NodeProvider;
use planner::{MicroDollars, MinValuesPolicy, PreferencePolicy, PreferencePremium};

pub(super) fn provider(text: &str) -> Result<NodeProvider, String> {
    match text {
        "aws" => Ok(NodeProvider::Aws),
        "kwok" => Ok(NodeProvider::Kwok),
        _ => Err(format!("{text:?} is not a provider of nodes: write aws or kwok")),
    }
}

pub(super) fn preferences(text: &str) -> Result<PreferencePolicy, String> {
    match text {
        "Respect" => Ok(PreferencePolicy::Respect),
        "Ignore" => Ok(PreferencePolicy::Ignore),
        _ => Err(format!("{text:?} is not a valid policy: write Respect or Ignore")),
    }
}

pub(super) fn premium(text: &str) -> Result<PreferencePremium, String> {
    api::price::premium(text).map(PreferencePremium::from).map_err(|error| error.to_string())
}

pub(super) fn dollars(text: &str) -> Result<MicroDollars, String> {
    api::price::micro_dollars(text).map(MicroDollars).map_err(|error| error.to_string())
}

pub(super) fn min_values(text: &str) -> Result<MinValuesPolicy, String> {
    match text {
        "Strict" => Ok(MinValuesPolicy::Strict),
        "BestEffort" => Ok(MinValuesPolicy::BestEffort),
        _ => Err(format!("{text:?} is not a valid policy: write Strict or BestEffort")),
    }
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let parsed: jiff::SignedDuration =
        text.parse().map_err(|_| format!("{text:?} is not a duration: write it like 10s or 200ms"))?;
    Duration::try_from(parsed).map_err(|_| format!("{text:?} is negative"))
}

pub(super) fn refresh(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    let least = Duration::from_secs(60);
    if interval < least {
        Err(format!("{text:?} is too short: EC2 is called at most once a minute"))
    } else {
        Ok(interval)
    }
}

/// Parses the maximum age of a view. A watch is confirmed every two minutes when nothing happens.
pub(super) fn view_age(text: &str) -> Result<jiff::SignedDuration, String> {
    let age = jiff::SignedDuration::try_from(duration(text)?).map_err(|_| format!("{text:?} is too long"))?;
    let least = jiff::SignedDuration::from_secs(150);
    let complaint = || format!("{text:?} is too short: a watch is confirmed every two minutes, write 150s or more");
    (age >= least).then_some(age).ok_or_else(complaint)
}

/// Parses a fraction such as 0.075 into thousandths, without a float.
pub(super) fn per_mille(text: &str) -> Result<u32, String> {
    let complaint = || format!("{text:?} is not a fraction between 0 and 1, such as 0.075");
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: u32 = whole.parse().map_err(|_| complaint())?;
    let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
    let thousandths: u32 = digits.parse().map_err(|_| complaint())?;
    let all_digits = fraction.chars().all(|digit| digit.is_ascii_digit());
    (whole <= 1 && all_digits && whole * 1000 + thousandths <= 1000)
        .then_some(whole * 1000 + thousandths)
        .ok_or_else(complaint)
}

pub(super) fn absolute_url(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match host {
        _ if api::endpoint::is_plain_remote(text) => Err(format!("{text:?} is not https; {}", api::endpoint::CURE)),
        None if text.is_empty() => Ok(String::new()),
        Some(host) if !host.is_empty() => Ok(text.to_owned()),
        _ => Err(format!("{text:?} is not an absolute URL with a host, such as https://ABC.eks.amazonaws.com")),
    }
}

pub(super) fn log_level(text: &str) -> Result<log::LevelFilter, String> {
    match text {
        "debug" => Ok(log::LevelFilter::Debug),
        "info" | "" => Ok(log::LevelFilter::Info),
        "error" => Ok(log::LevelFilter::Error),
        _ => Err(format!("unknown log level {text:?}: use debug, info or error")),
    }
}

/// Parses the key of a label; empty for none.
pub(super) fn label_key(text: &str) -> Result<String, String> {
    let is_key = text.is_empty() || api::validate::is_qualified_name(text);
    is_key
        .then(|| text.to_owned())
        .ok_or_else(|| format!("{text:?} is not the key of a label: write it like team or example.com/team"))
}
