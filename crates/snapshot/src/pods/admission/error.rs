//! Reasons for which the API server refuses a new pod.

use std::fmt;

use api::objects::PreemptionPolicy;
use api::quantity;

/// The reason why the API server refuses a pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionError {
    /// A LimitRange forbids the requests or limits.
    #[error("LimitRange {range}: {}", joined(violations))]
    LimitRange {
        /// Name of the LimitRange, `namespace/name`.
        range: String,
        /// Each violated bound, at least one.
        violations: Vec<BoundViolation>,
    },
    /// A request is greater than the limit.
    #[error(
        "container {container} requests {resource} {request}, more than its limit {limit}{}",
        limit_fix(default_of.as_deref())
    )]
    RequestAboveLimit {
        /// Name of the container.
        container: String,
        /// Name of the resource.
        resource: String,
        /// The request as a quantity.
        request: String,
        /// The limit as a quantity.
        limit: String,
        /// LimitRange whose default limit this is.
        default_of: Option<String>,
    },
    /// The pod has another overhead than its RuntimeClass.
    #[error("spec.overhead differs from the overhead of RuntimeClass {class}: remove the field")]
    Overhead {
        /// Name of the RuntimeClass.
        class: String,
    },
    /// The pod has an overhead, and no RuntimeClass defines one.
    #[error("spec.overhead is set, but no RuntimeClass defines it: remove the field, or set runtimeClassName")]
    OverheadWithoutClass,
    /// The node selector contradicts that of the RuntimeClass.
    #[error(
        "RuntimeClass {class} requires node label {key}={required}, but spec.nodeSelector has {key}={own}: remove it"
    )]
    NodeSelector {
        /// Name of the RuntimeClass.
        class: String,
        /// Key of the label.
        key: String,
        /// Value of the RuntimeClass.
        required: String,
        /// Value of the pod.
        own: String,
    },
    /// The pod has another priority than its PriorityClass.
    #[error("spec.priority is {own}, but its PriorityClass has {class}: remove the field")]
    Priority {
        /// Priority of the pod.
        own: i32,
        /// Priority of the class.
        class: i32,
    },
    /// The pod has another preemption policy than its PriorityClass.
    #[error("spec.preemptionPolicy is {own:?}, but its PriorityClass has {class:?}: remove the field")]
    PreemptionPolicy {
        /// Policy of the pod.
        own: PreemptionPolicy,
        /// Policy of the class.
        class: PreemptionPolicy,
    },
}

/// A violated bound of a LimitRange. Amounts are millicores for CPU, whole units for all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundViolation {
    /// Name of the container; `None` for the pod as a whole.
    pub container: Option<String>,
    /// Name of the resource.
    pub resource: String,
    /// The bound.
    pub bound: Bound,
    /// The violation.
    pub found: Violated,
}

/// Bound of a LimitRange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Least request and limit.
    Min(i64),
    /// Greatest request and limit.
    Max(i64),
    /// Greatest quotient of limit and request, in thousandths.
    Ratio(i64),
}

/// Violation of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violated {
    /// The request is absent, or zero where a ratio applies.
    NoRequest,
    /// The limit is absent, or zero where a ratio applies.
    NoLimit,
    /// The request is outside the bound.
    Request(i64),
    /// The limit is outside the bound.
    Limit(i64),
    /// The quotient of limit and request is too large, in thousandths.
    Ratio(i64),
}

impl fmt::Display for BoundViolation {
    /// Writes the API server's sentence, the container and the fix.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { container, resource, bound, found } = self;
        let kind = if container.is_some() { "Container" } else { "Pod" };
        let text = |amount: i64| quantity::text(resource, amount);
        match bound {
            Bound::Min(least) => write!(out, "minimum {resource} usage per {kind} is {}", text(*least))?,
            Bound::Max(most) => write!(out, "maximum {resource} usage per {kind} is {}", text(*most))?,
            Bound::Ratio(most) => {
                write!(out, "{resource} max limit to request ratio per {kind} is {}", quantity::cpu_text(*most))?
            }
        }
        match found {
            Violated::NoRequest => out.write_str(", but no request is specified")?,
            Violated::NoLimit => out.write_str(", but no limit is specified")?,
            Violated::Request(amount) => write!(out, ", but request is {}", text(*amount))?,
            Violated::Limit(amount) => write!(out, ", but limit is {}", text(*amount))?,
            Violated::Ratio(ratio) => write!(out, ", but provided ratio is {}", ratio_text(*ratio))?,
        }
        container.as_ref().map_or(Ok(()), |name| write!(out, " in container {name}"))?;
        write!(out, ": {}", self.fix())
    }
}

impl BoundViolation {
    fn fix(&self) -> String {
        let resource = &self.resource;
        match (self.bound, self.found) {
            (_, Violated::NoRequest) => format!("set resources.requests[{resource}]"),
            (_, Violated::NoLimit) => format!("set resources.limits[{resource}]"),
            (_, Violated::Ratio(_)) => "raise the request or lower the limit".to_owned(),
            (Bound::Min(_), _) => "raise it".to_owned(),
            (Bound::Max(_) | Bound::Ratio(_), _) => "lower it".to_owned(),
        }
    }
}

/// Returns the decimal text of thousandths.
fn ratio_text(thousandths: i64) -> String {
    format!("{}.{:03}", thousandths / 1000, thousandths % 1000)
}

fn joined(violations: &[BoundViolation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn limit_fix(default_of: Option<&str>) -> String {
    match default_of {
        Some(range) => format!(", the default of LimitRange {range}: set a limit"),
        None => ": lower the request or raise the limit".to_owned(),
    }
}
