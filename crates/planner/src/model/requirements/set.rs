//! Possible values of one label: a set or the complement of one, with integer bounds, and perhaps the absence of the label.

use std::collections::BTreeSet;

use super::{Operator, Requirement};

/// Possible values of one label.
///
/// Invariants: bounds occur only with a complement; a concrete set with values does not allow an absent label.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueSet {
    /// True if `values` are the excluded ones.
    complement: bool,
    values: BTreeSet<String>,
    at_least: Option<i64>,
    at_most: Option<i64>,
    /// True if nodes without the label are allowed.
    absent: bool,
    /// Greatest `minValues` of the combined requirements.
    min_values: Option<u32>,
}

impl ValueSet {
    /// Creates the set of one requirement. A comparison with anything but one integer allows nothing.
    #[must_use]
    pub fn from_requirement(requirement: &Requirement) -> Self {
        let values = || requirement.values.iter().cloned().collect();
        let bound = || match requirement.values.as_slice() {
            [value] => value.parse::<i64>().ok(),
            _ => None,
        };
        let set = match requirement.operator {
            Operator::In => Self { values: values(), ..Self::default() },
            Operator::NotIn => Self { complement: true, values: values(), absent: true, ..Self::default() },
            Operator::Exists => Self { complement: true, ..Self::default() },
            Operator::DoesNotExist => Self { absent: true, ..Self::default() },
            Operator::Gt => Self::at_least(bound().and_then(|value| value.checked_add(1))),
            Operator::Gte => Self::at_least(bound()),
            Operator::Lt => Self::at_most(bound().and_then(|value| value.checked_sub(1))),
            Operator::Lte => Self::at_most(bound()),
        };
        Self { min_values: requirement.min_values, ..set }
    }

    /// Creates the set with exactly one value.
    #[must_use]
    pub fn one(value: &str) -> Self {
        Self { values: BTreeSet::from([value.to_owned()]), ..Self::default() }
    }

    fn at_least(bound: Option<i64>) -> Self {
        Self { complement: bound.is_some(), at_least: bound, ..Self::default() }
    }

    fn at_most(bound: Option<i64>) -> Self {
        Self { complement: bound.is_some(), at_most: bound, ..Self::default() }
    }

    /// Reports whether a label value, or its absence, is allowed.
    #[must_use]
    pub fn allows(&self, value: Option<&str>) -> bool {
        match value {
            None => self.absent,
            Some(value) if self.complement => !self.values.contains(value) && self.in_bounds(value),
            Some(value) => self.values.contains(value),
        }
    }

    /// Reports whether one of these values is allowed; an empty list means that the label is absent.
    #[must_use]
    pub fn allows_any(&self, values: &[String]) -> bool {
        if values.is_empty() { self.absent } else { values.iter().any(|value| self.allows(Some(value))) }
    }

    /// Returns the allowed values, where they are a finite list.
    pub fn listed(&self) -> Option<impl Iterator<Item = &str>> {
        (!self.complement).then(|| self.values.iter().map(String::as_str))
    }

    /// Returns the only remaining value, where there is exactly one.
    #[must_use]
    pub fn single(&self) -> Option<&str> {
        if self.complement || self.values.len() != 1 { None } else { self.values.first().map(String::as_str) }
    }

    /// Returns one of the allowed values, always the same: the first of a list, or the first integer that is not excluded. The
    /// search starts at the lower bound upwards, else at the upper bound downwards, else at zero upwards. Returns `None` when
    /// only an absent label is allowed, or nothing.
    #[must_use]
    pub fn any(&self) -> Option<String> {
        if !self.complement {
            return self.values.first().cloned();
        }
        let start = self.at_least.or(self.at_most).unwrap_or(0);
        let tried = 0..=i64::try_from(self.values.len()).unwrap_or(i64::MAX);
        let down = self.at_least.is_none() && self.at_most.is_some();
        let candidate = |step: i64| if down { start.checked_sub(step) } else { start.checked_add(step) };
        tried.filter_map(candidate).map(|number| number.to_string()).find(|value| self.allows(Some(value)))
    }

    /// Returns the minimum number of distinct values that must remain possible.
    #[must_use]
    pub fn min_values(&self) -> Option<u32> {
        self.min_values
    }

    /// Reports whether nothing is allowed, not even an absent label.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.absent && if self.complement { self.excludes_all_integers() } else { self.values.is_empty() }
    }

    /// Returns the values that both allow.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let min_values = self.min_values.max(other.min_values);
        let absent = self.absent && other.absent;
        if self.complement && other.complement {
            return Self {
                complement: true,
                values: self.values.union(&other.values).cloned().collect(),
                at_least: self.at_least.max(other.at_least),
                at_most: [self.at_most, other.at_most].into_iter().flatten().min(),
                absent,
                min_values,
            };
        }
        let (concrete, wider) = if self.complement { (other, self) } else { (self, other) };
        let values = concrete.values.iter().filter(|value| wider.allows(Some(value))).cloned().collect();
        Self { values, absent, min_values, ..Self::default() }
    }

    /// Reports whether `other` allows every value that `self` allows.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        let both = self.intersection(other);
        both.absent == self.absent
            && if self.complement {
                both.complement
                    && both.at_least == self.at_least
                    && both.at_most == self.at_most
                    && both.values.iter().all(|value| !self.allows(Some(value)))
            } else {
                both.values == self.values
            }
    }

    /// Returns the shortest list of requirements with the same meaning; the first of them has `minValues`.
    #[must_use]
    pub fn to_requirements(&self, key: &str) -> Vec<Requirement> {
        let mut list = Vec::new();
        if !self.complement {
            let operator = if self.absent && self.values.is_empty() { Operator::DoesNotExist } else { Operator::In };
            list.push(Requirement::new(key, operator, self.values.iter().cloned()));
        }
        list.extend(self.at_least.map(|bound| Requirement::new(key, Operator::Gte, [bound.to_string()])));
        list.extend(self.at_most.map(|bound| Requirement::new(key, Operator::Lte, [bound.to_string()])));
        if self.complement {
            if list.is_empty() && !self.absent {
                list.push(Requirement::new(key, Operator::Exists, [""; 0]));
            }
            if !self.values.is_empty() {
                list.push(Requirement::new(key, Operator::NotIn, self.values.iter().cloned()));
            }
        }
        if let Some(first) = list.first_mut() {
            first.min_values = self.min_values;
        }
        list
    }

    fn in_bounds(&self, value: &str) -> bool {
        if self.at_least.is_none() && self.at_most.is_none() {
            return true;
        }
        value.parse::<i64>().is_ok_and(|number| {
            self.at_least.is_none_or(|bound| number >= bound) && self.at_most.is_none_or(|bound| number <= bound)
        })
    }

    /// Reports whether the bounds contain only integers that `values` excludes. Open bounds always contain another one.
    fn excludes_all_integers(&self) -> bool {
        let (Some(low), Some(high)) = (self.at_least, self.at_most) else { return false };
        let span = i128::from(high) - i128::from(low) + 1;
        let excluded = self.values.iter().filter(|value| {
            self.in_bounds(value) && value.parse::<i64>().is_ok_and(|number| number.to_string() == **value)
        });
        span <= i128::try_from(excluded.count()).unwrap_or(i128::MAX)
    }
}
