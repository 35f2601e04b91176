//! Settings of the controller that a plan depends on, with the same names: the environment gives the default, a flag takes
//! precedence.

use clap::Args;
use planner::{MinValuesPolicy, PreferencePolicy, PreferencePremium};

use crate::plan::{Gate, Gates};

/// Karpenter's feature gates.
const GATES: [&str; 6] =
    ["NodeRepair", "ReservedCapacity", "SpotToSpotConsolidation", "NodeOverlay", "StaticCapacity", "CapacityBuffer"];

/// Flags and environment variables as written.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// Respect or Ignore for preferences of pods
    #[arg(long, env = "PREFERENCE_POLICY", default_value = "Respect", value_parser = preferences)]
    pub preference_policy: PreferencePolicy,
    /// Premium that a workload may cost because of its preferences: a percentage, 0 or unlimited
    #[arg(long, env = "PREFERENCE_PREMIUM", default_value = "10%", value_parser = premium)]
    pub preference_premium: PreferencePremium,
    /// Strict or BestEffort
    #[arg(long, env = "MIN_VALUES_POLICY", default_value = "Strict", value_parser = min_values)]
    pub min_values_policy: MinValuesPolicy,
    /// Comma-separated NAME=true|false
    #[arg(long, env = "FEATURE_GATES", default_value = "", value_parser = gates)]
    pub feature_gates: FeatureGates,
    /// Settings that affect allocatable resources.
    #[command(flatten)]
    pub sizes: Sizes,
    /// Exclusion of pods with ResourceClaims
    #[arg(long, env = "IGNORE_DRA_REQUESTS", default_value_t = true, action = clap::ArgAction::Set)]
    pub ignore_dra_requests: bool,
}

/// Settings that affect allocatable resources.
#[derive(Args, Clone, Debug)]
pub struct Sizes {
    /// Fraction of an instance's memory that the hypervisor reserves
    #[arg(long, env = "VM_MEMORY_OVERHEAD_PERCENT", default_value = "0.075", value_parser = per_mille)]
    pub vm_memory_overhead_percent: u32,
    /// Network interfaces that pods cannot use
    #[arg(long, env = "RESERVED_ENIS", default_value_t = 0)]
    pub reserved_enis: u32,
}

impl Sizes {
    /// Converts the settings into those of crate `cloud`.
    #[must_use]
    pub fn cloud(&self) -> cloud::Settings {
        cloud::Settings {
            reserved_enis: self.reserved_enis,
            memory_overhead_thousandths: self.vm_memory_overhead_percent,
            ..cloud::Settings::default()
        }
    }
}

/// Known feature gates as written; the last of several values is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates(Vec<(String, bool)>);

impl FeatureGates {
    fn value(&self, name: &str) -> Option<bool> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    fn gate(&self, name: &str) -> Gate {
        match self.value(name) {
            None => Gate::Default,
            Some(true) => Gate::Open,
            Some(false) => Gate::Closed,
        }
    }
}

impl Settings {
    /// Returns the feature gates that a plan depends on.
    #[must_use]
    pub fn gates(&self) -> Gates {
        let written = &self.feature_gates;
        Gates {
            overlays: written.gate("NodeOverlay"),
            static_pools: written.gate("StaticCapacity"),
            buffers: written.gate("CapacityBuffer"),
            node_repair: written.value("NodeRepair") == Some(true),
            spot_to_spot: written.value("SpotToSpotConsolidation") == Some(true),
        }
    }

    /// Reports whether reserved capacity is used; true unless its gate is closed.
    #[must_use]
    pub fn reserved(&self) -> bool {
        self.feature_gates.value("ReservedCapacity").unwrap_or(true)
    }

    /// Returns one warning for every setting without effect.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let devices = "IGNORE_DRA_REQUESTS=false has no effect: ResourceClaims are not supported yet";
        (!self.ignore_dra_requests).then(|| devices.to_owned()).into_iter().collect()
    }

    /// Returns the settings that affect allocatable resources.
    #[must_use]
    pub fn cloud(&self) -> cloud::Settings {
        self.sizes.cloud()
    }
}

fn preferences(text: &str) -> Result<PreferencePolicy, String> {
    match text {
        "Respect" => Ok(PreferencePolicy::Respect),
        "Ignore" => Ok(PreferencePolicy::Ignore),
        _ => Err("write Respect or Ignore".to_owned()),
    }
}

fn premium(text: &str) -> Result<PreferencePremium, String> {
    api::price::premium(text).map(PreferencePremium::from).map_err(|error| error.to_string())
}

fn min_values(text: &str) -> Result<MinValuesPolicy, String> {
    match text {
        "Strict" => Ok(MinValuesPolicy::Strict),
        "BestEffort" => Ok(MinValuesPolicy::BestEffort),
        _ => Err("write Strict or BestEffort".to_owned()),
    }
}

fn gates(text: &str) -> Result<FeatureGates, String> {
    let mut all = Vec::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let parsed = pair.split_once('=').and_then(|(name, value)| Some((name, value.parse::<bool>().ok()?)));
        let (name, value) = parsed.ok_or_else(|| format!("{pair:?} is not NAME=true or NAME=false"))?;
        if !GATES.contains(&name) {
            return Err(format!("unknown feature gate {name:?}; known are {}", GATES.join(", ")));
        }
        all.push((name.to_owned(), value));
    }
    Ok(FeatureGates(all))
}

/// Parses a fraction such as 0.075 into thousandths, without a float.
fn per_mille(text: &str) -> Result<u32, String> {
    let thousandths = cloud::data::scaled(text, 3).and_then(|value| u32::try_from(value).ok());
    let thousandths = thousandths.filter(|value| *value <= 1000);
    thousandths.ok_or_else(|| format!("{text:?} is not a fraction between 0 and 1, such as 0.075"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_parses_names_and_values_and_rejects_unknown_names() {
        let written = gates("NodeOverlay=true, StaticCapacity=false").unwrap();
        assert_eq!(written.gate("NodeOverlay"), Gate::Open);
        assert_eq!(written.gate("StaticCapacity"), Gate::Closed);
        assert_eq!(written.gate("CapacityBuffer"), Gate::Default);
        assert!(gates("NodeRepair").is_err_and(|message| message.contains("NAME=true")));
        assert!(gates("NodeRepairs=true").is_err_and(|message| message.contains("known are NodeRepair")));
    }

    #[test]
    fn per_mille_parses_fractions_into_thousandths() {
        assert_eq!(per_mille("0.075"), Ok(75));
        assert_eq!(per_mille("1"), Ok(1000));
        assert!(per_mille("7.5").is_err());
        assert!(per_mille("x").is_err());
    }
}
