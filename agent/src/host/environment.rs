//! Environment variables as a value. A NodeConfig may set variables for this process, whose real environment cannot be changed
//! safely, and tests use their own.

use std::collections::BTreeMap;
use std::fmt;

use machine::nodeconfig::NodeConfig;

/// Pseudo-service of a NodeConfig whose variables apply to the whole machine.
pub const WHOLE_MACHINE: &str = "default";

/// Variables by name. Values may be passwords, such as that of a proxy.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<String, String>);

impl fmt::Debug for Environment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.0.keys()).finish()
    }
}

impl Environment {
    /// Returns the variables of this process, except those that are no UTF-8.
    #[must_use]
    pub fn of_process() -> Self {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    /// Returns the value of a variable; `None` when it is not set or empty.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Reports whether the value of a variable is `true` or `1`.
    #[must_use]
    pub fn says_yes(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("true"))
    }

    /// Returns a copy in which `later` overrides the variables.
    #[must_use]
    pub fn with(&self, later: &BTreeMap<String, String>) -> Self {
        let mut all = self.clone();
        all.0.extend(later.clone());
        all
    }

    /// Returns a copy with the variables that a NodeConfig sets for the whole machine, which includes the agent.
    #[must_use]
    pub fn of_node(&self, config: &NodeConfig) -> Self {
        config.spec.instance.environment.get(WHOLE_MACHINE).map_or_else(|| self.clone(), |asked| self.with(asked))
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        let mut all = Self::default();
        all.0.extend(variables);
        all
    }
}
