//! User-defined expressions for the number of pods of a node: the subset of CEL for integers and booleans. CEL's rules apply.
//! Numbers have 64 bits, and an overflow or a division by zero is an error, never a wrong number. All types are validated
//! before the evaluation. `&&` and `||` ignore an error that cannot change the result. The crate `cel` also implements strings,
//! maps, lists and times, which every image would carry.

mod parse;

use thiserror::Error;

/// Reason why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExpressionError {
    /// The expression is malformed, has an unknown name, or mixes types.
    #[error("column {column}: {problem}")]
    Malformed {
        /// 1-based column, in characters.
        column: usize,
        /// Problem at this column.
        problem: String,
    },
    /// The expression exceeds the maximum length.
    #[error("longer than {limit} characters")]
    TooLong {
        /// Maximum length.
        limit: usize,
    },
    /// A number exceeds 64 bits.
    #[error("integer overflow")]
    Overflow,
    /// A division or remainder by zero.
    #[error("division by zero")]
    DividedByZero,
}

/// An integer expression with named variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    root: Term,
}

impl Expression {
    /// Parses an expression with the variables `names`, all of them integers.
    ///
    /// # Errors
    /// Returns an [`ExpressionError`] with the column, also for an expression whose value is not an integer.
    pub fn compile(text: &str, names: &[&str]) -> Result<Self, ExpressionError> {
        parse::parse(text, names).map(|root| Self { root })
    }

    /// Evaluates the expression with one number for each name, in the order of [`Expression::compile`]. A missing number is 0.
    ///
    /// # Errors
    /// Returns [`ExpressionError::Overflow`] and [`ExpressionError::DividedByZero`].
    pub fn evaluate(&self, variables: &[i64]) -> Result<i64, ExpressionError> {
        self.root.value(variables)
    }
}

/// A part of an expression with valid types; true is 1 and false is 0.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Term {
    Number(i64),
    Variable(usize),
    Not(Box<Term>),
    Negative(Box<Term>),
    Binary(Operator, Box<Term>, Box<Term>),
    Choice(Box<Term>, Box<Term>, Box<Term>),
    Least(Vec<Term>),
    Greatest(Vec<Term>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Or,
    And,
    Less,
    AtMost,
    Greater,
    AtLeast,
    Equal,
    Unequal,
    Plus,
    Minus,
    Times,
    Over,
    Modulo,
}

impl Term {
    fn value(&self, variables: &[i64]) -> Result<i64, ExpressionError> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::Variable(index) => Ok(variables.get(*index).copied().unwrap_or_default()),
            Self::Not(truth) => Ok(1 - truth.value(variables)?),
            Self::Negative(number) => number.value(variables)?.checked_neg().ok_or(ExpressionError::Overflow),
            Self::Binary(operator, left, right) => operator.apply(left.value(variables), || right.value(variables)),
            Self::Choice(condition, then, otherwise) => match condition.value(variables)? {
                0 => otherwise.value(variables),
                _ => then.value(variables),
            },
            Self::Least(terms) => extreme(terms, variables, i64::min),
            Self::Greatest(terms) => extreme(terms, variables, i64::max),
        }
    }
}

/// Returns the minimum or maximum of values; the parser guarantees that there is at least one.
fn extreme(terms: &[Term], variables: &[i64], choose: fn(i64, i64) -> i64) -> Result<i64, ExpressionError> {
    let mut values = terms.iter().map(|node| node.value(variables));
    let first = values.next().unwrap_or(Ok(0))?;
    values.try_fold(first, |chosen, next| Ok(choose(chosen, next?)))
}

type Value = Result<i64, ExpressionError>;

impl Operator {
    fn apply(self, left: Value, right: impl FnOnce() -> Value) -> Value {
        match self {
            Self::Or => short_circuit(1, left, right),
            Self::And => short_circuit(0, left, right),
            _ => self.compute(left?, right()?),
        }
    }

    fn compute(self, left: i64, right: i64) -> Value {
        let checked = match self {
            Self::Over | Self::Modulo if right == 0 => return Err(ExpressionError::DividedByZero),
            Self::Plus => left.checked_add(right),
            Self::Minus => left.checked_sub(right),
            Self::Times => left.checked_mul(right),
            Self::Over => left.checked_div(right),
            Self::Modulo => left.checked_rem(right),
            Self::Less => Some(i64::from(left < right)),
            Self::AtMost => Some(i64::from(left <= right)),
            Self::Greater => Some(i64::from(left > right)),
            Self::AtLeast => Some(i64::from(left >= right)),
            Self::Equal => Some(i64::from(left == right)),
            Self::Unequal => Some(i64::from(left != right)),
            Self::Or => Some(left | right),
            Self::And => Some(left & right),
        };
        checked.ok_or(ExpressionError::Overflow)
    }
}

/// Returns the settling value if either side has it, even if the other side is an error.
fn short_circuit(dominant: i64, left: Value, right: impl FnOnce() -> Value) -> Value {
    match left {
        Ok(left) if left == dominant => Ok(dominant),
        Ok(_) => right(),
        Err(error) => match right() {
            Ok(right) if right == dominant => Ok(dominant),
            _ => Err(error),
        },
    }
}
