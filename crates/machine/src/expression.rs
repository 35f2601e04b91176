//! Expressions that people write for the number of pods of a node: the part of CEL that works on integers and truth
//! values. CEL's own rules hold: 64 bits, an overflow or a division by zero is an error and never a wrong number, all
//! types are known before anything is worked out, and `&&` and `||` look past an error that cannot matter.

mod parse;

use thiserror::Error;

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExpressionError {
    /// It is not well-formed, names what there is not, or mixes types.
    #[error("column {column}: {problem}")]
    Malformed {
        /// 1-based, in characters.
        column: usize,
        /// What is wrong there.
        problem: String,
    },
    /// It is longer than anyone's.
    #[error("longer than {limit} characters")]
    TooLong {
        /// The most that is read.
        limit: usize,
    },
    /// A number left 64 bits.
    #[error("integer overflow")]
    Overflow,
    /// A division by zero, or a remainder.
    #[error("division by zero")]
    DividedByZero,
}

/// An integer expression over named variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    root: Node,
}

impl Expression {
    /// Reads an expression whose variables are `names`, all of them integers.
    ///
    /// # Errors
    /// [`ExpressionError`] with the column, also for an expression whose value is no integer.
    pub fn compile(text: &str, names: &[&str]) -> Result<Self, ExpressionError> {
        parse::parse(text, names).map(|root| Self { root })
    }

    /// The value, given one number for each name, in the order of [`Expression::compile`]; a number that is not given is 0.
    ///
    /// # Errors
    /// [`ExpressionError::Overflow`] and [`ExpressionError::DividedByZero`].
    pub fn evaluate(&self, variables: &[i64]) -> Result<i64, ExpressionError> {
        self.root.value(variables)
    }
}

/// A part of an expression whose types are known to fit; truth is 1 and falsehood 0.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Number(i64),
    Variable(usize),
    Not(Box<Node>),
    Negative(Box<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
    Choice(Box<Node>, Box<Node>, Box<Node>),
    Least(Vec<Node>),
    Greatest(Vec<Node>),
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

impl Node {
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
            Self::Least(of) => extreme(of, variables, i64::min),
            Self::Greatest(of) => extreme(of, variables, i64::max),
        }
    }
}

/// The least or greatest of values; whoever reads an expression sees to it that there is one.
fn extreme(of: &[Node], variables: &[i64], choose: fn(i64, i64) -> i64) -> Result<i64, ExpressionError> {
    let mut values = of.iter().map(|node| node.value(variables));
    let first = values.next().unwrap_or(Ok(0))?;
    values.try_fold(first, |chosen, next| Ok(choose(chosen, next?)))
}

type Value = Result<i64, ExpressionError>;

impl Operator {
    fn apply(self, left: Value, right: impl FnOnce() -> Value) -> Value {
        match self {
            Self::Or => settled_by(1, left, right),
            Self::And => settled_by(0, left, right),
            _ => self.work_out(left?, right()?),
        }
    }

    fn work_out(self, left: i64, right: i64) -> Value {
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

/// One side that has the settling value settles it, whatever became of the other.
fn settled_by(settling: i64, left: Value, right: impl FnOnce() -> Value) -> Value {
    match left {
        Ok(left) if left == settling => Ok(settling),
        Ok(_) => right(),
        Err(error) => match right() {
            Ok(right) if right == settling => Ok(settling),
            _ => Err(error),
        },
    }
}
