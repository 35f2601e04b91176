//! Type of a scalar: by its tag if it has one, a string if it is quoted, otherwise by its text. YAML 1.1 words such as `yes`
//! are still booleans, as in EKS's nodeadm.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use granit_parser::{ScalarStyle, Tag};

/// Prefix of YAML's own tags.
const TAGS: &str = "tag:yaml.org,2002:";

/// Limit below which JSON writes a whole number of a float without an exponent.
const WHOLE: f64 = 1e21;

/// A scalar with its escapes resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scalar {
    /// Text without quotes.
    pub text: String,
    /// Style in the document, or the style of the type that a tag names.
    pub style: Style,
}

/// Style of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Without quotes: the text itself defines its type, such as string, number or null.
    Plain,
    /// In single quotes.
    Single,
    /// In double quotes.
    Double,
    /// A block after `|` or `>`.
    Block,
}

/// Type of a scalar if the caller requires no specific type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Meaning<'a> {
    Null,
    Bool(bool),
    Whole(Whole),
    Float(f64),
    Text(&'a str),
}

/// A whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whole {
    Positive(u64),
    Negative(i64),
}

impl Scalar {
    /// Returns the value of an absent field.
    pub(super) fn null() -> Self {
        Self { text: String::new(), style: Style::Plain }
    }

    pub(super) fn new(text: String, style: ScalarStyle, tag: Option<&Tag>) -> Result<Self, String> {
        let name = tag.and_then(|tag| tag.suffix_in_namespace(TAGS));
        let (own, quoted) = (Style::from(style), Style::from(style).quoted());
        let (text, style) = match name.as_deref() {
            Some("binary") => (unpacked(&text)?, quoted),
            Some("null" | "bool" | "int" | "float") => (text, Style::Plain),
            Some("str") => (text, quoted),
            _ if tag.is_some_and(|tag| tag.suffix() == "!") => (text, quoted),
            _ => (text, own),
        };
        Ok(Self { text, style })
    }

    fn is_plain(&self) -> bool {
        self.style == Style::Plain
    }

    pub(super) fn is_null(&self) -> bool {
        self.is_plain() && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }

    /// Reports whether the key merges the following mapping below the keys of its own mapping.
    pub(super) fn merges(&self) -> bool {
        self.is_plain() && self.text == "<<"
    }

    pub(super) fn meaning(&self) -> Meaning<'_> {
        if !self.is_plain() {
            return Meaning::Text(&self.text);
        }
        if self.is_null() {
            return Meaning::Null;
        }
        let number = || self.whole().map(Meaning::Whole).or_else(|| self.float().map(Meaning::Float));
        self.boolean().map(Meaning::Bool).or_else(number).unwrap_or(Meaning::Text(&self.text))
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        let word = self.trimmed();
        let is_any = |words: [&str; 4]| words.iter().any(|it| word.eq_ignore_ascii_case(it));
        if is_any(["true", "yes", "y", "on"]) {
            return Some(true);
        }
        is_any(["false", "no", "n", "off"]).then_some(false)
    }

    pub(super) fn whole(&self) -> Option<Whole> {
        let text = self.trimmed();
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let magnitude = magnitude(digits)?;
        if negative {
            0_i64.checked_sub_unsigned(magnitude).map(Whole::Negative)
        } else {
            Some(Whole::Positive(magnitude))
        }
    }

    /// Writes a plain number as JSON writes what Go reads: octal digits after a zero, and a whole number without a fraction.
    pub(super) fn as_go_number(&mut self) {
        let text = self.trimmed();
        let unsigned = text.trim_start_matches(['+', '-']);
        let sign = if text.starts_with('-') { "-" } else { "" };
        let is_octal =
            unsigned.len() > 1 && unsigned.starts_with('0') && unsigned.bytes().all(|byte| byte.is_ascii_digit());
        if !self.is_plain() {
            return;
        }
        if is_octal {
            let number = u64::from_str_radix(unsigned, 8).or_else(|_| unsigned.parse());
            self.text = number.map_or_else(|_| self.text.clone(), |number| format!("{sign}{number}"));
        } else if let Meaning::Float(number) = self.meaning()
            && number.fract() == 0.0
            && number.abs() < WHOLE
        {
            self.text = format!("{number:.0}");
        }
    }

    pub(super) fn float(&self) -> Option<f64> {
        let text = self.trimmed();
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        match unsigned {
            ".nan" | ".NaN" | ".NAN" => Some(f64::NAN),
            ".inf" | ".Inf" | ".INF" if text.starts_with('-') => Some(f64::NEG_INFINITY),
            ".inf" | ".Inf" | ".INF" => Some(f64::INFINITY),
            // Rust parses more words as numbers than YAML does.
            _ if unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.') => text.parse().ok(),
            _ => None,
        }
    }

    /// Removes blanks around a number, which quotes may contain.
    fn trimmed(&self) -> &str {
        self.text.trim_matches([' ', '\t', '\r', '\n'])
    }
}

impl Style {
    /// Returns the style of a string with this style.
    fn quoted(self) -> Self {
        if self == Self::Plain { Self::Double } else { self }
    }
}

impl From<ScalarStyle> for Style {
    fn from(style: ScalarStyle) -> Self {
        match style {
            ScalarStyle::Plain => Self::Plain,
            ScalarStyle::SingleQuoted => Self::Single,
            ScalarStyle::DoubleQuoted => Self::Double,
            ScalarStyle::Literal | ScalarStyle::Folded => Self::Block,
        }
    }
}

fn unpacked(text: &str) -> Result<String, String> {
    let compact: String = text.split_ascii_whitespace().collect();
    let data = STANDARD.decode(compact).map_err(|error| format!("invalid base64: {error}"))?;
    String::from_utf8(data).map_err(|_| "the bytes of !!binary are not text".to_owned())
}

/// Parses digits in groups of any size; a decimal number does not begin with a zero.
fn magnitude(digits: &str) -> Option<u64> {
    let (radix, digits) = match digits.get(..2) {
        Some("0x" | "0X") => (16, &digits[2..]),
        Some("0o" | "0O") => (8, &digits[2..]),
        Some("0b" | "0B") => (2, &digits[2..]),
        _ => (10, digits),
    };
    let grouped = digits.split('_').all(|group| !group.is_empty());
    let leading_zero = radix == 10 && digits.len() > 1 && digits.starts_with('0');
    if !grouped || leading_zero || digits.starts_with('+') {
        return None;
    }
    u64::from_str_radix(&digits.replace('_', ""), radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meaning_depends_on_the_text_when_a_scalar_is_plain() {
        let rows = [
            ("", Meaning::Null),
            ("Null", Meaning::Null),
            ("nULL", Meaning::Text("nULL")),
            ("Yes", Meaning::Bool(true)),
            ("off", Meaning::Bool(false)),
            ("0", Meaning::Whole(Whole::Positive(0))),
            ("+1_000", Meaning::Whole(Whole::Positive(1000))),
            ("0x1F", Meaning::Whole(Whole::Positive(31))),
            ("-0b11", Meaning::Whole(Whole::Negative(-3))),
            ("-9223372036854775808", Meaning::Whole(Whole::Negative(i64::MIN))),
            ("18446744073709551615", Meaning::Whole(Whole::Positive(u64::MAX))),
            ("0o8", Meaning::Text("0o8")),
            ("1__0", Meaning::Text("1__0")),
            ("0x+1", Meaning::Text("0x+1")),
            ("1.5e3", Meaning::Float(1500.0)),
            ("-.5", Meaning::Float(-0.5)),
            ("-.Inf", Meaning::Float(f64::NEG_INFINITY)),
            ("infinity", Meaning::Text("infinity")),
            ("nan", Meaning::Text("nan")),
            ("10.100.0.0/16", Meaning::Text("10.100.0.0/16")),
            ("1.29.0", Meaning::Text("1.29.0")),
            ("é", Meaning::Text("é")),
        ];
        for (text, expected) in rows {
            assert_eq!(Scalar { text: text.to_owned(), style: Style::Plain }.meaning(), expected, "{text}");
            assert_eq!(Scalar { text: text.to_owned(), style: Style::Double }.meaning(), Meaning::Text(text));
        }
    }
}
