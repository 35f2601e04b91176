//! Evaluator of expressions: rows of values and of errors, and random expressions compared with an oracle. The oracle evaluates
//! their parts in 128 bits, without text, types or precedence.

use machine::expression::{Expression, ExpressionError};
use proptest::prelude::*;

const NAMES: [&str; 3] = ["default_enis", "ips_per_eni", "max_pods"];
/// Four interfaces of fifteen addresses are enough for 58 pods.
const VALUES: [i64; 3] = [4, 15, 58];

fn value(text: &str) -> Result<i64, ExpressionError> {
    Expression::compile(text, &NAMES)?.evaluate(&VALUES)
}

#[test]
fn evaluate_returns_the_value_of_each_expression() {
    for (text, expected) in [
        ("417", 417),
        ("0x1F", 31),
        ("default_enis * (ips_per_eni - 1) + 2", 58),
        ("((default_enis-1)*(ips_per_eni-1))+2", 44),
        ("default_enis * (ips_per_eni - 1) * 16 + 2", 898),
        ("max_pods > 30 ? 30 : max_pods", 30),
        ("max_pods <= 58 && default_enis != 3 ? 1 : 2", 1),
        ("false ? 1 : true ? 2 : 3", 2),
        ("max_pods+2", 60),
        ("max_pods - 2 - 3", 53),
        ("2 + 3 * 4 % 5", 4),
        ("100 / 7 / 2", 7),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("7 - -7", 14),
        ("- (- max_pods)", 58),
        ("--max_pods", 58),
        ("1 < 2 == true ? 5 : 6", 5),
        ("!(1 > 2) && !false ? 5 : 6", 5),
        ("1 > 2 || 3 >= 3 && false ? 5 : 6", 6),
        ("min(250, max_pods * 16)", 250),
        ("max(1, min(2, 3), -4)", 2),
        ("math.least(max_pods, 30)", 30),
        ("math.greatest(max_pods, 110)", 110),
        ("-9223372036854775808", i64::MIN),
        ("false && 1 / 0 > 0 ? 1 : 2", 2),
        ("1 / 0 > 0 && false ? 1 : 2", 2),
        ("true || 1 / 0 > 0 ? 1 : 2", 1),
        ("1 / 0 > 0 || true ? 1 : 2", 1),
        ("true ? 1 : 1 / 0", 1),
        (" \t4\n", 4),
    ] {
        assert_eq!(value(text), Ok(expected), "{text}");
    }
}

#[test]
fn compile_reports_column_and_problem_when_text_is_invalid() {
    for (text, column, problem) in [
        ("", 1, "a number, a name or `(` is missing at the end"),
        ("1 +", 4, "a number, a name or `(` is missing at the end"),
        ("(1", 3, "`)` is missing at the end"),
        ("1)", 2, "unexpected `)`"),
        ("1 2", 3, "unexpected `2`"),
        ("1 = 1 ? 1 : 2", 3, "unexpected `=`"),
        ("99 - fake_variable", 6, "unknown name `fake_variable`, known are default_enis, ips_per_eni, max_pods"),
        ("true ? 1 : pods", 12, "unknown name `pods`, known are default_enis, ips_per_eni, max_pods"),
        ("size(1)", 1, "unknown name `size`, known are default_enis, ips_per_eni, max_pods"),
        ("max()", 5, "expected a number, a name or `(`, found `)`"),
        ("max(1, true)", 8, "an argument of max must be an integer, this is true or false"),
        ("true", 1, "the result must be an integer, this is true or false"),
        ("1 < 2", 1, "the result must be an integer, this is true or false"),
        ("1 + true", 5, "an operand of `+` must be an integer, this is true or false"),
        ("1 && true ? 1 : 2", 1, "an operand of `&&` must be true or false, this is an integer"),
        ("1 == true ? 1 : 2", 6, "an operand of `==` must be an integer, this is true or false"),
        ("1 ? 2 : 3", 1, "the condition before `?` must be true or false, this is an integer"),
        ("true ? 2 : false", 12, "what stands after `:` must be an integer, this is true or false"),
        ("!max_pods ? 1 : 2", 2, "what follows `!` must be true or false, this is an integer"),
        ("-true", 2, "what follows `-` must be an integer, this is true or false"),
        ("1.5", 1, "`1.5` is not a 64-bit integer"),
        ("12abc", 1, "`12abc` is not a 64-bit integer"),
        ("9223372036854775808", 1, "`9223372036854775808` is not a 64-bit integer"),
        ("\"a\"", 1, "expected a number, a name or `(`, found `\"`"),
        ("é", 1, "expected a number, a name or `(`, found `é`"),
    ] {
        let expected = ExpressionError::Malformed { column, problem: problem.to_owned() };
        assert_eq!(value(text), Err(expected), "{text}");
    }
}

#[test]
fn evaluate_returns_overflow_and_division_by_zero() {
    for (text, expected) in [
        ("1 / 0", ExpressionError::DividedByZero),
        ("1 % (max_pods - 58)", ExpressionError::DividedByZero),
        ("9223372036854775807 + max_pods", ExpressionError::Overflow),
        ("-9223372036854775808 - 1", ExpressionError::Overflow),
        ("-9223372036854775808 / -1", ExpressionError::Overflow),
        ("-(-9223372036854775808)", ExpressionError::Overflow),
        ("9223372036854775807 * 2", ExpressionError::Overflow),
        ("1 / 0 > 0 && true ? 1 : 2", ExpressionError::DividedByZero),
        ("min(1, 1 / 0)", ExpressionError::DividedByZero),
    ] {
        assert_eq!(value(text), Err(expected), "{text}");
    }
}

#[test]
fn compile_rejects_text_that_is_too_long_or_too_deep() {
    let long = vec!["1"; 600].join("+");
    assert_eq!(value(&long), Err(ExpressionError::TooLong { limit: 1_000 }));
    assert_eq!(value(&vec!["1"; 500].join("+")), Ok(500));
    for deep in ["(".repeat(900), "-".repeat(900) + "1", "!".repeat(900) + "true", "true?1:".repeat(140) + "1"] {
        let error = value(&deep).unwrap_err().to_string();
        assert!(error.ends_with("nested too deeply"), "{error}");
    }
}

/// Parts of an expression.
#[derive(Debug, Clone)]
enum Number {
    Literal(i64),
    Name(usize),
    Negative(Box<Number>),
    Arithmetic(char, Box<Number>, Box<Number>),
    Choice(Box<Truth>, Box<Number>, Box<Number>),
    Extreme(bool, Vec<Number>),
}

#[derive(Debug, Clone)]
enum Truth {
    Literal(bool),
    Not(Box<Truth>),
    Both(Box<Truth>, Box<Truth>),
    Either(Box<Truth>, Box<Truth>),
    Compared(&'static str, Number, Number),
}

impl Number {
    fn text(&self) -> String {
        match self {
            Self::Literal(literal) => literal.to_string(),
            Self::Name(name) => NAMES[*name].to_owned(),
            Self::Negative(of) => format!("-({})", of.text()),
            Self::Arithmetic(operator, left, right) => format!("({}) {operator}({})", left.text(), right.text()),
            Self::Choice(when, then, or) => format!("({})?({}) : ({})", when.text(), then.text(), or.text()),
            Self::Extreme(greatest, of) => {
                let of: Vec<String> = of.iter().map(Self::text).collect();
                format!("{}({})", if *greatest { "max" } else { "min" }, of.join(", "))
            }
        }
    }

    /// Returns the value; `None` for an error.
    fn oracle(&self) -> Option<i128> {
        let value = match self {
            Self::Literal(literal) => i128::from(*literal),
            Self::Name(name) => i128::from(VALUES[*name]),
            Self::Negative(of) => -of.oracle()?,
            Self::Arithmetic(operator, left, right) => {
                let (left, right) = (left.oracle()?, right.oracle()?);
                match operator {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    '/' if right != 0 => left / right,
                    '%' if right != 0 && (left, right) != (i128::from(i64::MIN), -1) => left % right,
                    _ => return None,
                }
            }
            Self::Choice(when, then, or) => if when.oracle()? { then } else { or }.oracle()?,
            Self::Extreme(greatest, of) => {
                let of: Vec<i128> = of.iter().map(Self::oracle).collect::<Option<_>>()?;
                if *greatest { of.into_iter().max()? } else { of.into_iter().min()? }
            }
        };
        i64::try_from(value).ok().map(i128::from)
    }
}

impl Truth {
    fn text(&self) -> String {
        match self {
            Self::Literal(literal) => literal.to_string(),
            Self::Not(of) => format!("!({})", of.text()),
            Self::Both(left, right) => format!("({})&&({})", left.text(), right.text()),
            Self::Either(left, right) => format!("({}) || ({})", left.text(), right.text()),
            Self::Compared(operator, left, right) => format!("({}){operator}({})", left.text(), right.text()),
        }
    }

    fn oracle(&self) -> Option<bool> {
        match self {
            Self::Literal(literal) => Some(*literal),
            Self::Not(of) => of.oracle().map(|of| !of),
            Self::Both(left, right) => match (left.oracle(), right.oracle()) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (left, right) => left.and(right),
            },
            Self::Either(left, right) => match (left.oracle(), right.oracle()) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (left, right) => left.and(right),
            },
            Self::Compared(operator, left, right) => {
                let order = left.oracle()?.cmp(&right.oracle()?);
                Some(match *operator {
                    "<" => order.is_lt(),
                    "<=" => order.is_le(),
                    ">" => order.is_gt(),
                    ">=" => order.is_ge(),
                    "==" => order.is_eq(),
                    _ => order.is_ne(),
                })
            }
        }
    }
}

fn numbers(depth: u32) -> BoxedStrategy<Number> {
    let edges = prop::sample::select(vec![0, 1, 2, -1, i64::MAX, i64::MIN, i64::MAX / 2]);
    let literal = prop_oneof![edges, -1000_i64..1000].prop_map(Number::Literal);
    let leaf = prop_oneof![literal, (0..NAMES.len()).prop_map(Number::Name)];
    if depth == 0 {
        return leaf.boxed();
    }
    let boxed = || numbers(depth - 1).prop_map(Box::new);
    let operator = prop::sample::select(vec!['+', '-', '*', '/', '%']);
    prop_oneof![
        1 => leaf,
        1 => boxed().prop_map(Number::Negative),
        4 => (operator, boxed(), boxed()).prop_map(|(operator, left, right)| Number::Arithmetic(operator, left, right)),
        2 => (truths(depth - 1).prop_map(Box::new), boxed(), boxed())
            .prop_map(|(when, then, or)| Number::Choice(when, then, or)),
        1 => (any::<bool>(), prop::collection::vec(numbers(depth - 1), 1..3))
            .prop_map(|(greatest, of)| Number::Extreme(greatest, of)),
    ]
    .boxed()
}

fn truths(depth: u32) -> BoxedStrategy<Truth> {
    if depth == 0 {
        return any::<bool>().prop_map(Truth::Literal).boxed();
    }
    let boxed = || truths(depth - 1).prop_map(Box::new);
    let operator = prop::sample::select(vec!["<", "<=", ">", ">=", "==", "!="]);
    prop_oneof![
        1 => any::<bool>().prop_map(Truth::Literal),
        1 => boxed().prop_map(Truth::Not),
        2 => (boxed(), boxed()).prop_map(|(left, right)| Truth::Both(left, right)),
        2 => (boxed(), boxed()).prop_map(|(left, right)| Truth::Either(left, right)),
        3 => (operator, numbers(depth - 1), numbers(depth - 1))
            .prop_map(|(operator, left, right)| Truth::Compared(operator, left, right)),
    ]
    .boxed()
}

/// Returns arithmetic without parentheses, and its value by precedence: products first, both from left to right.
fn flat(first: i64, rest: &[(char, i64)]) -> (String, Option<i128>) {
    let mut text = first.to_string();
    let (mut sum, mut product, mut sign) = (Some(0), Some(i128::from(first)), 1);
    for (operator, number) in rest {
        text.push_str(&format!(" {operator} {number}"));
        let number = i128::from(*number);
        match operator {
            '*' => product = product.map(|product| product * number),
            '/' => product = product.filter(|_| number != 0).map(|product| product / number),
            '%' => product = product.filter(|_| number != 0).map(|product| product % number),
            _ => {
                sum = sum.and_then(|sum: i128| product.map(|product| sum + sign * product));
                (product, sign) = (Some(number), if *operator == '-' { -1 } else { 1 });
            }
        }
    }
    (text, sum.and_then(|sum| product.map(|product| sum + sign * product)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn evaluate_agrees_with_the_oracle_when_numbers_are_random(number in numbers(3)) {
        let text = number.text();
        prop_assume!(text.len() <= 1_000);
        let found = Expression::compile(&text, &NAMES).unwrap().evaluate(&VALUES);
        prop_assert_eq!(found.ok().map(i128::from), number.oracle(), "{}", text);
    }

    #[test]
    fn evaluate_respects_precedence_without_parentheses(
        first in -20_i64..20,
        rest in prop::collection::vec((prop::sample::select(vec!['+', '-', '*', '/', '%']), -20_i64..20), 0..8),
    ) {
        let (text, expected) = flat(first, &rest);
        let found = Expression::compile(&text, &NAMES).unwrap().evaluate(&VALUES);
        prop_assert_eq!(found.ok().map(i128::from), expected, "{}", text);
    }

    #[test]
    fn compile_does_not_panic_when_text_is_random(text in "[-0-9a-z_.()?:<>=!&|+*/%, ]{0,80}|\\PC{0,40}") {
        let _ = value(&text);
    }
}
