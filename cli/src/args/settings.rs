//! Settings of the controller that a plan depends on, with the same names. A flag takes precedence over the environment, and
//! with `--live` the environment over the controller's Deployment.

use clap::Args;
use daemon::flag::boolean;
use jiff::Timestamp;
use planner::{MicroDollars, MinValuesPolicy, PreferencePolicy, PreferencePremium};
use snapshot::NodeRepair;

use crate::catalogue::CatalogueOptions;
use crate::plan::{Conditions, Gate, Gates};

/// Karpenter's feature gates.
const GATES: [&str; 6] =
    ["NodeRepair", "ReservedCapacity", "SpotToSpotConsolidation", "NodeOverlay", "StaticCapacity", "CapacityBuffer"];

/// Gate of earlier versions of Karpenter, which is always open now.
const DRIFT: &str = "Drift";

/// Flags and environment variables as written.
#[derive(Args, Clone, Debug, Default)]
pub struct Settings {
    /// Respect or Ignore for preferences of pods [default: Respect]
    #[arg(long, env = "PREFERENCE_POLICY", value_parser = preferences)]
    preference_policy: Option<PreferencePolicy>,
    /// Premium that a workload may cost because of its preferences: a percentage, 0 or unlimited [default: 10%]
    #[arg(long, env = "PREFERENCE_PREMIUM", value_parser = premium)]
    preference_premium: Option<PreferencePremium>,
    /// Maximum cost of the nodes of all NodePools in dollars per hour [default: none]
    #[arg(long, env = "MAX_COST_PER_HOUR", value_name = "DOLLARS", value_parser = dollars)]
    max_cost_per_hour: Option<MicroDollars>,
    /// Strict or BestEffort [default: Strict]
    #[arg(long, env = "MIN_VALUES_POLICY", value_parser = min_values)]
    min_values_policy: Option<MinValuesPolicy>,
    /// Comma-separated NAME=true|false
    #[arg(long, env = "FEATURE_GATES", value_parser = gates)]
    feature_gates: Option<FeatureGates>,
    /// Settings that affect allocatable resources.
    #[command(flatten)]
    sizes: Sizes,
    /// Exclusion of pods with ResourceClaims [default: true]
    #[arg(long, env = "IGNORE_DRA_REQUESTS", value_parser = boolean)]
    ignore_dra_requests: Option<bool>,
}

/// Settings that affect allocatable resources.
#[derive(Args, Clone, Debug, Default)]
pub struct Sizes {
    /// Fraction of an instance's memory that the hypervisor reserves [default: 0.075]
    #[arg(long, env = "VM_MEMORY_OVERHEAD_PERCENT", value_parser = per_mille)]
    vm_memory_overhead_percent: Option<u32>,
    /// Network interfaces that pods cannot use [default: 0]
    #[arg(long, env = "RESERVED_ENIS")]
    reserved_enis: Option<u32>,
}

impl Sizes {
    /// Converts the settings into those of crate `cloud`.
    #[must_use]
    pub fn cloud(&self) -> cloud::Settings {
        let default = cloud::Settings::default();
        cloud::Settings {
            reserved_enis: self.reserved_enis.unwrap_or(default.reserved_enis),
            memory_overhead_thousandths: self.vm_memory_overhead_percent.unwrap_or(default.memory_overhead_thousandths),
            ..default
        }
    }
}

/// Known feature gates as written; the last of several values is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates(Vec<(String, bool)>);

impl FeatureGates {
    /// Parses the gates of a controller, which may have others than those of a plan.
    fn of_controller(text: &str) -> Result<Self, String> {
        let is_known = |name: &str| name == DRIFT || GATES.contains(&name);
        let is_known = |pair: &&str| pair.split('=').next().is_some_and(|name| is_known(name.trim()));
        gates(&text.split(',').filter(is_known).collect::<Vec<_>>().join(","))
    }

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
    /// Variables of a controller that a plan depends on.
    pub const VARIABLES: [&str; 8] = [
        "FEATURE_GATES",
        "IGNORE_DRA_REQUESTS",
        "MAX_COST_PER_HOUR",
        "MIN_VALUES_POLICY",
        "PREFERENCE_POLICY",
        "PREFERENCE_PREMIUM",
        "RESERVED_ENIS",
        "VM_MEMORY_OVERHEAD_PERCENT",
    ];

    /// Parses the variables of a controller; variables without a value count as absent.
    ///
    /// # Errors
    /// Returns an error with the name of a variable that cannot be parsed.
    pub fn of_controller<'a>(variable: impl Fn(&str) -> Option<&'a str>) -> Result<Self, String> {
        let read = Variables(|name: &str| variable(name).filter(|value| !value.is_empty()));
        Ok(Self {
            preference_policy: read.parsed("PREFERENCE_POLICY", preferences)?,
            preference_premium: read.parsed("PREFERENCE_PREMIUM", premium)?,
            max_cost_per_hour: read.parsed("MAX_COST_PER_HOUR", dollars)?,
            min_values_policy: read.parsed("MIN_VALUES_POLICY", min_values)?,
            feature_gates: read.parsed("FEATURE_GATES", FeatureGates::of_controller)?,
            sizes: Sizes {
                vm_memory_overhead_percent: read.parsed("VM_MEMORY_OVERHEAD_PERCENT", per_mille)?,
                reserved_enis: read
                    .parsed("RESERVED_ENIS", |text| text.parse().map_err(|_| "not a number".to_owned()))?,
            },
            ignore_dra_requests: read.parsed("IGNORE_DRA_REQUESTS", boolean)?,
        })
    }

    /// Returns these settings, with others in place of missing ones.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            preference_policy: self.preference_policy.or(others.preference_policy),
            preference_premium: self.preference_premium.or(others.preference_premium),
            max_cost_per_hour: self.max_cost_per_hour.or(others.max_cost_per_hour),
            min_values_policy: self.min_values_policy.or(others.min_values_policy),
            feature_gates: self.feature_gates.or(others.feature_gates),
            sizes: Sizes {
                vm_memory_overhead_percent: self
                    .sizes
                    .vm_memory_overhead_percent
                    .or(others.sizes.vm_memory_overhead_percent),
                reserved_enis: self.sizes.reserved_enis.or(others.sizes.reserved_enis),
            },
            ignore_dra_requests: self.ignore_dra_requests.or(others.ignore_dra_requests),
        }
    }

    /// Returns the conditions of a plan with these settings at a time.
    #[must_use]
    pub fn conditions(&self, now: Timestamp) -> Conditions {
        let written = self.feature_gates.clone().unwrap_or_default();
        let reserved = written.value("ReservedCapacity").unwrap_or(true);
        Conditions {
            catalogue: CatalogueOptions { settings: self.sizes.cloud(), reserved, ..CatalogueOptions::default() },
            preferences: self.preference_policy.unwrap_or_default(),
            preference_premium: self.preference_premium.unwrap_or_default(),
            cost_limit: self.max_cost_per_hour,
            min_values: self.min_values_policy.unwrap_or_default(),
            gates: self.gates(),
            ..Conditions::at(now)
        }
    }

    fn gates(&self) -> Gates {
        let written = self.feature_gates.clone().unwrap_or_default();
        Gates {
            overlays: written.gate("NodeOverlay"),
            static_pools: written.gate("StaticCapacity"),
            buffers: written.gate("CapacityBuffer"),
            node_repair: NodeRepair::from_gate(written.value("NodeRepair")),
            spot_to_spot: written.value("SpotToSpotConsolidation") == Some(true),
        }
    }

    /// Returns one warning for every setting without effect.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let devices = "IGNORE_DRA_REQUESTS=false has no effect: ResourceClaims are not supported yet";
        let drift = "feature gate Drift=false has no effect: nodes always drift";
        let is_closed = self.feature_gates.as_ref().and_then(|gates| gates.value(DRIFT)) == Some(false);
        let unmet = [(self.ignore_dra_requests == Some(false), devices), (is_closed, drift)];
        unmet.into_iter().filter(|(is_set, _)| *is_set).map(|(_, sentence)| sentence.to_owned()).collect()
    }
}

/// Variables of a controller.
struct Variables<F>(F);

impl<'a, F: Fn(&str) -> Option<&'a str>> Variables<F> {
    fn parsed<T>(&self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
        (self.0)(name).map(|text| parse(text).map_err(|error| format!("{name}: {error}"))).transpose()
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

fn dollars(text: &str) -> Result<MicroDollars, String> {
    api::price::micro_dollars(text).map(MicroDollars).map_err(|error| error.to_string())
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
        let parsed = pair.split_once('=').and_then(|(name, value)| Some((name, boolean(value).ok()?)));
        let (name, value) = parsed.ok_or_else(|| format!("{pair:?} is not NAME=true or NAME=false"))?;
        if name != DRIFT && !GATES.contains(&name) {
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
        let drift = Settings { feature_gates: Some(gates("Drift=False").unwrap()), ..Settings::default() };
        assert_eq!(drift.warnings(), ["feature gate Drift=false has no effect: nodes always drift"]);
        assert_eq!(gates("Drift=True,NodeOverlay=F").unwrap().gate("NodeOverlay"), Gate::Closed);
        assert!(gates("NodeRepair").is_err_and(|message| message.contains("NAME=true")));
        assert!(gates("NodeRepairs=true").is_err_and(|message| message.contains("known are NodeRepair")));
    }

    #[test]
    fn settings_prefer_their_own_values_to_those_of_a_controller() {
        let variables = |name: &str| match name {
            "PREFERENCE_POLICY" => Some("Ignore"),
            "FEATURE_GATES" => Some("NodeRepair=true,FutureGate=true"),
            "RESERVED_ENIS" => Some("1"),
            "MIN_VALUES_POLICY" => Some(""),
            _ => None,
        };
        let controller = Settings::of_controller(variables).unwrap();
        let own = Settings { preference_policy: Some(PreferencePolicy::Respect), ..Settings::default() };
        let conditions = own.or(controller).conditions(Timestamp::UNIX_EPOCH);
        assert_eq!(conditions.preferences, PreferencePolicy::Respect);
        assert_eq!(conditions.min_values, MinValuesPolicy::default());
        assert_eq!(conditions.gates.node_repair, NodeRepair::All);
        assert!(conditions.catalogue.reserved);
        assert_eq!(conditions.catalogue.settings.reserved_enis, 1);
        let wrong = Settings::of_controller(|name| (name == "MIN_VALUES_POLICY").then_some("Loose"));
        assert_eq!(wrong.err().as_deref(), Some("MIN_VALUES_POLICY: write Strict or BestEffort"));
    }

    #[test]
    fn per_mille_parses_fractions_into_thousandths() {
        assert_eq!(per_mille("0.075"), Ok(75));
        assert_eq!(per_mille("1"), Ok(1000));
        assert!(per_mille("7.5").is_err());
        assert!(per_mille("x").is_err());
    }
}
