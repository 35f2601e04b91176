//! Parser of expressions, with validation of all types.

use super::{ExpressionError, Operator, Term};

/// Maximum length of an expression; also a limit of its depth.
const LENGTH_LIMIT: usize = 1_000;
/// Maximum nesting of parentheses, conditionals and signs.
const DEPTH_LIMIT: usize = 50;

type Function = fn(Vec<Term>) -> Term;

const FUNCTIONS: [(&str, Function); 4] =
    [("min", Term::Least), ("max", Term::Greatest), ("math.least", Term::Least), ("math.greatest", Term::Greatest)];

/// Operators with their precedence; of two with the same prefix, the longer one comes first.
const OPERATORS: [(&str, Operator, u8); 13] = [
    ("||", Operator::Or, 1),
    ("&&", Operator::And, 2),
    ("<=", Operator::AtMost, 3),
    (">=", Operator::AtLeast, 3),
    ("==", Operator::Equal, 3),
    ("!=", Operator::Unequal, 3),
    ("<", Operator::Less, 3),
    (">", Operator::Greater, 3),
    ("+", Operator::Plus, 4),
    ("-", Operator::Minus, 4),
    ("*", Operator::Times, 5),
    ("/", Operator::Over, 5),
    ("%", Operator::Modulo, 5),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Integer,
    Truth,
}

impl Type {
    fn name(self) -> &'static str {
        match self {
            Self::Integer => "an integer",
            Self::Truth => "true or false",
        }
    }
}

/// A part with its type and its first column.
struct Typed {
    term: Term,
    value_type: Type,
    column: usize,
}

impl Typed {
    fn expect(self, value_type: Type, what: &str) -> Result<Self, ExpressionError> {
        if self.value_type == value_type {
            return Ok(self);
        }
        let problem = format!("{what} must be {}, this is {}", value_type.name(), self.value_type.name());
        Err(ExpressionError::Malformed { column: self.column, problem })
    }
}

pub(super) fn parse(text: &str, names: &[&str]) -> Result<Term, ExpressionError> {
    if text.len() > LENGTH_LIMIT {
        return Err(ExpressionError::TooLong { limit: LENGTH_LIMIT });
    }
    let mut parser = Parser { text, at: 0, depth: 0, names };
    let root = parser.expression()?;
    parser.skip_space();
    match parser.rest().chars().next() {
        Some(found) => parser.fail(format!("unexpected `{found}`")),
        None => root.expect(Type::Integer, "the result").map(|root| root.term),
    }
}

struct Parser<'a> {
    text: &'a str,
    /// Number of bytes read.
    at: usize,
    depth: usize,
    names: &'a [&'a str],
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn column(&self) -> usize {
        self.text.get(..self.at).unwrap_or_default().chars().count() + 1
    }

    fn fail<T>(&self, problem: impl Into<String>) -> Result<T, ExpressionError> {
        Err(ExpressionError::Malformed { column: self.column(), problem: problem.into() })
    }

    fn skip_space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &str) -> Result<(), ExpressionError> {
        if self.take(token) {
            return Ok(());
        }
        match self.rest().chars().next() {
            Some(found) => self.fail(format!("expected `{token}`, found `{found}`")),
            None => self.fail(format!("`{token}` is missing at the end")),
        }
    }

    fn word(&mut self, belongs: fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|character| !belongs(character)).unwrap_or(rest.len());
        self.at += length;
        rest.get(..length).unwrap_or_default()
    }

    /// Parses a conditional, or an operand of higher precedence.
    fn expression(&mut self) -> Result<Typed, ExpressionError> {
        self.deeper(|parser| {
            let condition = parser.binary(1)?;
            if !parser.take("?") {
                return Ok(condition);
            }
            let condition = condition.expect(Type::Truth, "the condition before `?`")?;
            let then = parser.binary(1)?;
            parser.expect(":")?;
            let otherwise = parser.expression()?.expect(then.value_type, "what stands after `:`")?;
            let parts = (Box::new(condition.term), Box::new(then.term), Box::new(otherwise.term));
            Ok(Typed {
                term: Term::Choice(parts.0, parts.1, parts.2),
                value_type: then.value_type,
                column: condition.column,
            })
        })
    }

    fn deeper(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<Typed, ExpressionError>,
    ) -> Result<Typed, ExpressionError> {
        self.depth += 1;
        if self.depth > DEPTH_LIMIT {
            return self.fail("nested too deeply");
        }
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn operator(&mut self, least: u8) -> Option<(&'static str, Operator, u8)> {
        self.skip_space();
        let rest = self.rest();
        let found = OPERATORS.iter().find(|(token, _, _)| rest.starts_with(token))?;
        (found.2 >= least).then(|| {
            self.at += found.0.len();
            *found
        })
    }

    /// Parses operands of operators with at least this precedence; equal ones from left to right.
    fn binary(&mut self, least: u8) -> Result<Typed, ExpressionError> {
        let mut left = self.unary()?;
        while let Some((token, operator, strength)) = self.operator(least) {
            let right = self.binary(strength + 1)?;
            left = join(token, operator, left, right)?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Typed, ExpressionError> {
        self.skip_space();
        let column = self.column();
        if self.rest().starts_with('!') {
            self.at += 1;
            let truth = self.deeper(Self::unary)?.expect(Type::Truth, "what follows `!`")?;
            return Ok(Typed { term: Term::Not(Box::new(truth.term)), value_type: Type::Truth, column });
        }
        let is_literal =
            self.rest().strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        if is_literal || !self.take("-") {
            return self.primary();
        }
        let number = self.deeper(Self::unary)?.expect(Type::Integer, "what follows `-`")?;
        Ok(Typed { term: Term::Negative(Box::new(number.term)), value_type: Type::Integer, column })
    }

    fn primary(&mut self) -> Result<Typed, ExpressionError> {
        let column = self.column();
        if self.take("(") {
            let inner = self.expression()?;
            self.expect(")")?;
            return Ok(Typed { column, ..inner });
        }
        match self.rest().chars().next() {
            Some('-' | '0'..='9') => self.number(column),
            Some(first) if first.is_ascii_alphabetic() || first == '_' => self.named(column),
            Some(other) => self.fail(format!("expected a number, a name or `(`, found `{other}`")),
            None => self.fail("a number, a name or `(` is missing at the end"),
        }
    }

    fn number(&mut self, column: usize) -> Result<Typed, ExpressionError> {
        let sign = if self.take("-") { "-" } else { "" };
        let digits = self.word(|character| character.is_ascii_alphanumeric() || character == '.');
        let (digits, radix) = digits.strip_prefix("0x").map_or((digits, 10), |digits| (digits, 16));
        match i64::from_str_radix(&format!("{sign}{digits}"), radix) {
            Ok(number) => Ok(Typed { term: Term::Number(number), value_type: Type::Integer, column }),
            Err(_) => {
                let problem = format!("`{sign}{digits}` is not a 64-bit integer");
                Err(ExpressionError::Malformed { column, problem })
            }
        }
    }

    fn named(&mut self, column: usize) -> Result<Typed, ExpressionError> {
        let name = self.word(|character| character.is_ascii_alphanumeric() || character == '_' || character == '.');
        if let Some((_, function)) = FUNCTIONS.iter().find(|(known, _)| *known == name) {
            return Ok(Typed { term: function(self.arguments(name)?), value_type: Type::Integer, column });
        }
        let index = self.names.iter().position(|known| *known == name);
        let (term, value_type) = match (name, index) {
            ("true", _) => (Term::Number(1), Type::Truth),
            ("false", _) => (Term::Number(0), Type::Truth),
            (_, Some(index)) => (Term::Variable(index), Type::Integer),
            (_, None) => {
                let problem = format!("unknown name `{name}`, known are {}", self.names.join(", "));
                return Err(ExpressionError::Malformed { column, problem });
            }
        };
        Ok(Typed { term, value_type, column })
    }

    fn arguments(&mut self, name: &str) -> Result<Vec<Term>, ExpressionError> {
        self.expect("(")?;
        let mut arguments = Vec::new();
        loop {
            let argument = self.expression()?.expect(Type::Integer, &format!("an argument of {name}"))?;
            arguments.push(argument.term);
            if !self.take(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(arguments)
    }
}

fn join(token: &str, operator: Operator, left: Typed, right: Typed) -> Result<Typed, ExpressionError> {
    let what = format!("an operand of `{token}`");
    let (takes, value_type) = match operator {
        Operator::Or | Operator::And => (Type::Truth, Type::Truth),
        Operator::Plus | Operator::Minus | Operator::Times | Operator::Over | Operator::Modulo => {
            (Type::Integer, Type::Integer)
        }
        _ => (left.value_type, Type::Truth),
    };
    let (left, right) = (left.expect(takes, &what)?, right.expect(takes, &what)?);
    Ok(Typed {
        term: Term::Binary(operator, Box::new(left.term), Box::new(right.term)),
        value_type,
        column: left.column,
    })
}
