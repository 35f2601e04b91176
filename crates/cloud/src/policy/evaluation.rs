//! Evaluation of IAM policy documents in pure code: a request with its action, resource and condition keys is allowed, denied,
//! not allowed, or undecided.
//!
//! A condition operator or a policy variable that is not evaluated never counts as met or as not met: the result is
//! [`Access::Undecided`] where it matters, and [`PolicySet::unevaluated`] lists all of them.

mod condition;
mod document;
mod pattern;
mod request;

use std::collections::BTreeSet;

use serde_json::Value;

use condition::StatementCondition;
use pattern::Pattern;

pub use document::DocumentError;
#[cfg(feature = "fake")]
pub(crate) use pattern::wildcard;
pub use request::AccessRequest;

/// Result of an evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// A statement allows the request, and none denies it.
    Allowed,
    /// A statement denies the request.
    Denied {
        /// `Sid` of the statement, or its position.
        statement: String,
    },
    /// No statement allows the request.
    NotAllowed,
    /// No statement of a limit allows the request.
    Limited {
        /// Name of the limit.
        limit: String,
    },
    /// The result depends on a condition that is not evaluated.
    Undecided {
        /// `Sid` of the statement, or its position.
        statement: String,
        /// The condition, or the policy variable.
        condition: String,
    },
}

/// The statements of all policies of a role, and the limits of its permissions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicySet {
    statements: Vec<PolicyStatement>,
    limits: Vec<PolicyLimit>,
}

/// A permissions boundary, or the service control policies of one account, organizational unit or root.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PolicyLimit {
    name: String,
    policies: PolicySet,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct PolicyStatement {
    name: String,
    allows: bool,
    actions: Selection,
    resources: Selection,
    conditions: Vec<StatementCondition>,
}

/// `Action` or `NotAction`, `Resource` or `NotResource`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Selection {
    patterns: Vec<Pattern>,
    inverted: bool,
}

/// A truth value of which some parts may be unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Truth {
    Yes,
    No,
    /// Unknown, because of this condition.
    Unknown(String),
}

impl PolicySet {
    /// Adds the statements of a policy document.
    ///
    /// # Errors
    /// Returns the element that is no valid part of an identity policy.
    pub fn add(&mut self, document: &Value) -> Result<(), DocumentError> {
        self.statements.extend(document::statements(document, self.statements.len())?);
        Ok(())
    }

    /// Adds a limit: only what its policies allow, too, is allowed. The name is shown where it refuses a request.
    pub fn add_limit(&mut self, name: &str, policies: Self) {
        self.limits.push(PolicyLimit { name: name.to_owned(), policies });
    }

    /// Reports whether there is no statement.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }

    /// Evaluates a request: the policies and each limit must allow it. A denial of any of them takes precedence, then what the
    /// policies themselves do not allow.
    #[must_use]
    pub fn evaluate(&self, request: &AccessRequest) -> Access {
        let limits = self.limits.iter().map(|limit| limit.evaluate(request));
        let refusals: Vec<Access> =
            [self.permission(request)].into_iter().chain(limits).filter(|access| *access != Access::Allowed).collect();
        let denial = refusals.iter().find(|access| matches!(access, Access::Denied { .. }));
        denial.or(refusals.first()).cloned().unwrap_or(Access::Allowed)
    }

    /// Evaluates a request without the limits: a denial takes precedence over every permission.
    fn permission(&self, request: &AccessRequest) -> Access {
        let mut undecided = None;
        let mut allowed = false;
        for statement in &self.statements {
            match (statement.matches(request), statement.allows) {
                (Truth::Yes, false) => return Access::Denied { statement: statement.name.clone() },
                (Truth::Yes, true) => allowed = true,
                (Truth::Unknown(condition), allows) if !allows || undecided.is_none() => {
                    undecided = Some((allows, Access::Undecided { statement: statement.name.clone(), condition }));
                }
                _ => {}
            }
        }
        match undecided {
            Some((allows, access)) if !allows || !allowed => access,
            _ if allowed => Access::Allowed,
            _ => Access::NotAllowed,
        }
    }

    /// Returns one sentence for each operator and policy variable that is not evaluated.
    #[must_use]
    pub fn unevaluated(&self) -> Vec<String> {
        let one = |statement: &PolicyStatement| {
            let conditions = statement.conditions.iter().filter_map(StatementCondition::unevaluated);
            let patterns = statement.actions.patterns.iter().chain(&statement.resources.patterns);
            let variables = patterns.filter_map(Pattern::variable).map(variable);
            let all: BTreeSet<String> = conditions.chain(variables).collect();
            all.into_iter().map(|what| format!("statement {}: {what}", statement.name)).collect::<Vec<_>>()
        };
        let limits = self.limits.iter().flat_map(PolicyLimit::unevaluated);
        self.statements.iter().flat_map(one).chain(limits).collect()
    }

    /// Returns the ARNs and patterns of all resources, in their order.
    pub fn resources(&self) -> impl Iterator<Item = &str> {
        self.statements.iter().flat_map(|statement| statement.resources.patterns.iter().map(Pattern::text))
    }

    /// Returns the keys of all conditions with their values, in their order.
    pub fn conditions(&self) -> impl Iterator<Item = (&str, Vec<&str>)> {
        self.statements.iter().flat_map(|statement| statement.conditions.iter().map(StatementCondition::key_and_values))
    }
}

impl PolicyLimit {
    fn evaluate(&self, request: &AccessRequest) -> Access {
        match self.policies.evaluate(request) {
            Access::Allowed => Access::Allowed,
            Access::NotAllowed | Access::Limited { .. } => Access::Limited { limit: self.name.clone() },
            Access::Denied { statement } => Access::Denied { statement: self.named(&statement) },
            Access::Undecided { statement, condition } => {
                Access::Undecided { statement: self.named(&statement), condition }
            }
        }
    }

    fn unevaluated(&self) -> Vec<String> {
        let lines = self.policies.unevaluated().into_iter();
        lines.map(|line| line.replacen(": ", &format!(" of {}: ", self.name), 1)).collect()
    }

    /// Returns the name of a statement with that of the limit.
    fn named(&self, statement: &str) -> String {
        format!("{statement} of {}", self.name)
    }
}

/// Returns the sentence for a policy variable.
fn variable(name: &str) -> String {
    format!("policy variable {name} is not evaluated")
}

impl PolicyStatement {
    fn matches(&self, request: &AccessRequest) -> Truth {
        let action = self.actions.contains(|pattern| pattern.matches_action(request.action()));
        let resource = self.resources.contains(|pattern| pattern.matches(request.resource()));
        let conditions = self.conditions.iter().map(|condition| condition.holds(request));
        all([action, resource].into_iter().chain(conditions))
    }
}

impl Selection {
    fn contains(&self, matches: impl Fn(&Pattern) -> Truth) -> Truth {
        any(self.patterns.iter().map(matches)).negated_if(self.inverted)
    }
}

impl Truth {
    /// Negates a known truth value if `negated`.
    fn negated_if(self, negated: bool) -> Self {
        match self {
            Self::Yes if negated => Self::No,
            Self::No if negated => Self::Yes,
            found => found,
        }
    }
}

/// Returns `Yes` if all are `Yes`, and `No` if one is `No`.
fn all(parts: impl Iterator<Item = Truth>) -> Truth {
    let mut whole = Truth::Yes;
    for part in parts {
        match part {
            Truth::No => return Truth::No,
            Truth::Unknown(condition) => whole = Truth::Unknown(condition),
            Truth::Yes => {}
        }
    }
    whole
}

/// Returns `Yes` if one is `Yes`, and `No` if all are `No`.
fn any(parts: impl Iterator<Item = Truth>) -> Truth {
    all(parts.map(|part| part.negated_if(true))).negated_if(true)
}
