//! Performance factors of a NodePool: the work of some instance types relative to the usual types. With a factor, prices are
//! compared per unit of work.

use std::fmt;

use crate::names::label;
use crate::units::price::{InvalidFactor, factor};

/// Short names of the labels that a factor can refer to.
const LABELS: [(&str, &str); 5] = [
    ("type", label::INSTANCE_TYPE),
    ("family", label::INSTANCE_FAMILY),
    ("generation", label::INSTANCE_GENERATION),
    ("arch", label::ARCH),
    ("cpu-manufacturer", label::INSTANCE_CPU_MANUFACTURER),
];

/// Error in one entry of a list of factors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFactors {
    /// Entry that does not have its three parts.
    #[error("{entry:?} is not LABEL=VALUE:FACTOR, such as family=m8g:1.25")]
    Form {
        /// Entry as received.
        entry: String,
    },
    /// Label that a factor cannot refer to.
    #[error("{entry:?} has unknown label {name:?}: write type, family, generation, arch or cpu-manufacturer")]
    Label {
        /// Entry as received.
        entry: String,
        /// Text before the equals sign.
        name: String,
    },
    /// Invalid factor.
    #[error("in {entry:?}")]
    Factor {
        /// Entry as received.
        entry: String,
        /// Cause.
        source: InvalidFactor,
    },
    /// Entry for the same label and value as an earlier one.
    #[error("{name}={value} is repeated: remove one of them")]
    Twice {
        /// Short name of the label.
        name: String,
        /// Value of the label.
        value: String,
    },
}

/// Entry of the list: instance types whose `label` is `value` do `thousandths` of the usual work.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PerformanceFactor {
    /// Label key.
    pub label: &'static str,
    /// Value of the label.
    pub value: String,
    /// Work in thousandths of the usual: 1 to 1,000,000.
    pub thousandths: u32,
}

/// Factors of a NodePool, in their original order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerformanceFactors(Vec<PerformanceFactor>);

impl PerformanceFactors {
    /// Parses `family=m8g:1.25,generation=7:1.1`. Spaces around entries are ignored. An empty text has no entries.
    ///
    /// # Errors
    /// Returns an error if an entry is not `LABEL=VALUE:FACTOR`, or has the same label and value as an earlier one.
    pub fn read(text: &str) -> Result<Self, InvalidFactors> {
        let mut factors: Vec<PerformanceFactor> = Vec::new();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let next = PerformanceFactor::read(entry)?;
            if factors.iter().any(|known| (known.label, &known.value) == (next.label, &next.value)) {
                return Err(InvalidFactors::Twice { name: next.short_name().to_owned(), value: next.value });
            }
            factors.push(next);
        }
        Ok(Self(factors))
    }

    /// Returns the entries in their original order.
    #[must_use]
    pub fn entries(&self) -> &[PerformanceFactor] {
        &self.0
    }

    /// Returns the factor of an instance type in thousandths. `has` reports whether the instance type has a label with a value.
    /// The first matching entry counts, so more specific entries must come first. Returns `None` if no entry matches.
    pub fn factor(&self, mut has: impl FnMut(&str, &str) -> bool) -> Option<u32> {
        self.0.iter().find(|entry| has(entry.label, &entry.value)).map(|entry| entry.thousandths)
    }
}

impl PerformanceFactor {
    fn read(entry: &str) -> Result<Self, InvalidFactors> {
        let form = || InvalidFactors::Form { entry: entry.to_owned() };
        let (name, rest) = entry.split_once('=').ok_or_else(form)?;
        let (value, amount) = rest.rsplit_once(':').ok_or_else(form)?;
        let (name, value, amount) = (name.trim(), value.trim(), amount.trim());
        if value.is_empty() {
            return Err(form());
        }
        let unknown = || InvalidFactors::Label { entry: entry.to_owned(), name: name.to_owned() };
        let (_, label) = LABELS.into_iter().find(|(short, _)| *short == name).ok_or_else(unknown)?;
        let thousandths =
            factor(amount).map_err(|source| InvalidFactors::Factor { entry: entry.to_owned(), source })?;
        Ok(Self { label, value: value.to_owned(), thousandths })
    }

    fn short_name(&self) -> &'static str {
        LABELS.into_iter().find(|(_, label)| *label == self.label).map_or(self.label, |(short, _)| short)
    }
}

impl fmt::Display for PerformanceFactor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.thousandths / 1000, self.thousandths % 1000);
        write!(out, "{}={}:{whole}", self.short_name(), self.value)?;
        let fraction = format!("{rest:03}");
        match fraction.trim_end_matches('0') {
            "" => Ok(()),
            digits => write!(out, ".{digits}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn performance_factors_read_keeps_the_order_of_entries() {
        let rows = [
            ("", ""),
            ("family=m8g:1.25,generation=7:1.1", "family=m8g:1.25,generation=7:1.1"),
            (" arch = arm64 : 1.150 ,, type=m7g.large:2", "arch=arm64:1.15,type=m7g.large:2"),
            ("cpu-manufacturer=aws:0.5", "cpu-manufacturer=aws:0.5"),
        ];
        for (text, expected) in rows {
            let factors = PerformanceFactors::read(text).unwrap();
            let again: Vec<_> = factors.entries().iter().map(ToString::to_string).collect();
            assert_eq!(again.join(","), expected);
            assert_eq!(PerformanceFactors::read(expected).unwrap(), factors, "{text}");
        }
    }

    #[test]
    fn performance_factors_read_reports_invalid_entries() {
        let rows = [
            ("m8g:1.25", "\"m8g:1.25\" is not LABEL=VALUE:FACTOR"),
            ("family=m8g", "\"family=m8g\" is not LABEL=VALUE:FACTOR"),
            ("family=:1", "is not LABEL=VALUE:FACTOR"),
            ("size=large:1.2", "\"size=large:1.2\" has unknown label \"size\""),
            ("family=m8g:fast", "in \"family=m8g:fast\""),
            ("family=a:1,family=a:2", "family=a is repeated"),
        ];
        for (text, expected) in rows {
            let error = PerformanceFactors::read(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn factor_returns_the_first_matching_entry() {
        let factors = PerformanceFactors::read("family=m8g:1.25,generation=8:1.1,arch=arm64:1.05").unwrap();
        let of = |labels: &str| {
            factors.factor(|key, value| labels.split(' ').any(|label| label.split_once('=') == Some((key, value))))
        };
        let (arch, generation, family) = (label::ARCH, label::INSTANCE_GENERATION, label::INSTANCE_FAMILY);
        let rows = [
            (format!("{arch}=arm64 {generation}=8 {family}=m8g"), Some(1250)),
            (format!("{arch}=arm64 {generation}=8 {family}=c8g"), Some(1100)),
            (format!("{arch}=arm64 {generation}=7"), Some(1050)),
            (format!("{arch}=amd64"), None),
        ];
        for (labels, expected) in rows {
            assert_eq!(of(&labels), expected, "{labels}");
        }
    }
}
