//! Conditions of statements: operators for strings, ARNs, truth values and the existence of keys.

use super::pattern::Pattern;
use super::{AccessRequest, Truth, all, any, variable};

/// One key of a condition block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StatementCondition {
    operator: ConditionOperator,
    key: String,
    values: Vec<Pattern>,
}

/// An operator with its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ConditionOperator {
    name: String,
    quantifier: Quantifier,
    /// `None` for an operator that is not evaluated.
    comparison: Option<Comparison>,
    negated: bool,
    if_exists: bool,
}

/// Number of a key's values that must match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantifier {
    /// The only value.
    Single,
    /// `ForAllValues`.
    All,
    /// `ForAnyValue`.
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equals,
    EqualsWithoutCase,
    Like,
    Arn,
    Bool,
    Null,
}

/// Operators by name without prefix and suffix: the comparison, and whether a match fails the condition.
const OPERATORS: [(&str, Comparison, bool); 12] = [
    ("StringEquals", Comparison::Equals, false),
    ("StringNotEquals", Comparison::Equals, true),
    ("StringEqualsIgnoreCase", Comparison::EqualsWithoutCase, false),
    ("StringNotEqualsIgnoreCase", Comparison::EqualsWithoutCase, true),
    ("StringLike", Comparison::Like, false),
    ("StringNotLike", Comparison::Like, true),
    ("ArnEquals", Comparison::Arn, false),
    ("ArnLike", Comparison::Arn, false),
    ("ArnNotEquals", Comparison::Arn, true),
    ("ArnNotLike", Comparison::Arn, true),
    ("Bool", Comparison::Bool, false),
    ("Null", Comparison::Null, false),
];

impl ConditionOperator {
    fn read(name: &str) -> Self {
        let (quantifier, rest) = match name.split_once(':') {
            Some(("ForAllValues", rest)) => (Quantifier::All, rest),
            Some(("ForAnyValue", rest)) => (Quantifier::Any, rest),
            _ => (Quantifier::Single, name),
        };
        let (base, if_exists) = rest.strip_suffix("IfExists").map_or((rest, false), |base| (base, true));
        let known = OPERATORS.iter().find(|(known, ..)| known.eq_ignore_ascii_case(base));
        Self {
            name: name.to_owned(),
            quantifier,
            comparison: known.map(|(_, comparison, _)| *comparison),
            negated: known.is_some_and(|(.., negated)| *negated),
            if_exists,
        }
    }
}

impl StatementCondition {
    pub(super) fn new(operator: &str, key: &str, values: Vec<Pattern>) -> Self {
        Self { operator: ConditionOperator::read(operator), key: key.to_owned(), values }
    }

    pub(super) fn key_and_values(&self) -> (&str, Vec<&str>) {
        (&self.key, self.values.iter().map(Pattern::text).collect())
    }

    /// Returns the sentence for an operator or policy variable that is not evaluated.
    pub(super) fn unevaluated(&self) -> Option<String> {
        if self.operator.comparison.is_none() {
            return Some(format!("condition operator {} is not evaluated", self.operator.name));
        }
        let key = Pattern::new(&self.key);
        let found = self.values.iter().find_map(Pattern::variable).or_else(|| key.variable());
        found.map(variable)
    }

    /// Reports whether a request meets the condition.
    pub(super) fn holds(&self, request: &AccessRequest) -> Truth {
        let ConditionOperator { comparison, quantifier, negated, if_exists, .. } = &self.operator;
        let Some(comparison) = comparison else { return self.unknown() };
        let Some(found) = request.values(&self.key) else {
            let truth = |holds| if holds { Truth::Yes } else { Truth::No };
            return match (comparison, quantifier) {
                _ if !request.is_complete(&self.key) => self.unknown(),
                (Comparison::Null, _) => truth(self.values.iter().any(|value| value.equals("true") == Truth::Yes)),
                _ if *if_exists => Truth::Yes,
                (_, Quantifier::All) => Truth::Yes,
                (_, Quantifier::Any) => Truth::No,
                (_, Quantifier::Single) => truth(*negated),
            };
        };
        if *comparison == Comparison::Null {
            return self.one_of(|value| value.equals("false"));
        }
        let each = found.iter().map(|value| self.matches(*comparison, *negated, value));
        match quantifier {
            Quantifier::All => all(each),
            Quantifier::Single if *negated => all(each),
            Quantifier::Single | Quantifier::Any => any(each),
        }
    }

    fn unknown(&self) -> Truth {
        let values: Vec<&str> = self.values.iter().map(Pattern::text).collect();
        Truth::Unknown(format!("{} {} {}", self.operator.name, self.key, values.join(", ")))
    }

    fn matches(&self, comparison: Comparison, negated: bool, value: &str) -> Truth {
        let matches = self.one_of(|wanted| match comparison {
            Comparison::Equals => wanted.equals(value),
            Comparison::EqualsWithoutCase | Comparison::Bool | Comparison::Null => wanted.equals_without_case(value),
            Comparison::Like => wanted.matches(value),
            Comparison::Arn => wanted.matches_arn(value),
        });
        matches.negated_if(negated)
    }

    fn one_of(&self, matches: impl Fn(&Pattern) -> Truth) -> Truth {
        any(self.values.iter().map(matches))
    }
}
