//! Price of preferences.

use serde::{Deserialize, Serialize};

/// Maximum premium that a workload may cost because its preferences are honoured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PreferencePremium {
    /// Percent of the workload's cost without the preferences.
    Percent(u32),
    /// Preferences are honoured at any cost, as in Karpenter.
    Unlimited,
}

impl Default for PreferencePremium {
    fn default() -> Self {
        Self::Percent(10)
    }
}

impl From<Option<u32>> for PreferencePremium {
    /// Converts percent; `None` is unlimited.
    fn from(percent: Option<u32>) -> Self {
        percent.map_or(Self::Unlimited, Self::Percent)
    }
}
