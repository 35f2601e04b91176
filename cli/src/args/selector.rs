//! Kubernetes' label selectors in kubectl's syntax: `a=b,c!=d,e in (f,g),h notin (i),j>1,k<2,l,!m`. kube's `Selector` has no
//! parser for this syntax.

use planner::{Operator, Requirement, Requirements};

/// A label selector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    list: Vec<Requirement>,
}

impl Selector {
    /// Parses a selector; an empty one selects everything.
    ///
    /// # Errors
    /// Returns a message that quotes the invalid term.
    pub fn parse(text: &str) -> Result<Self, String> {
        let terms = split(text)?.into_iter().map(str::trim).filter(|term| !term.is_empty());
        Ok(Self { list: terms.map(term).collect::<Result<_, _>>()? })
    }

    /// Returns the keys of the selector.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|one| one.key.as_str())
    }

    /// Returns the selector as the planner's requirements.
    #[must_use]
    pub fn requirements(&self) -> Requirements {
        self.list.iter().collect()
    }
}

/// Splits the text at commas outside parentheses.
fn split(text: &str) -> Result<Vec<&str>, String> {
    let (mut terms, mut start, mut inside) = (Vec::new(), 0, false);
    for (place, letter) in text.char_indices() {
        match letter {
            '(' if !inside => inside = true,
            ')' if inside => inside = false,
            '(' | ')' => return Err(format!("{text:?}: the parentheses do not match; write key in (a,b)")),
            ',' if !inside => {
                terms.push(&text[start..place]);
                start = place + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(format!("{text:?}: a parenthesis is not closed; write key in (a,b)"));
    }
    terms.push(&text[start..]);
    Ok(terms)
}

fn term(text: &str) -> Result<Requirement, String> {
    if let Some(key) = text.strip_prefix('!').filter(|rest| !rest.starts_with('=')) {
        return Ok(Requirement::new(key_of(key, text)?, Operator::DoesNotExist, [""; 0]));
    }
    if let Some((head, list)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let (key, operator) = match head.split_whitespace().collect::<Vec<_>>().as_slice() {
            [key, "in"] => (key.to_owned(), Operator::In),
            [key, "notin"] => (key.to_owned(), Operator::NotIn),
            _ => return Err(format!("{text:?}: write key in (a,b) or key notin (a,b)")),
        };
        return Ok(Requirement::new(key_of(key, text)?, operator, list.split(',').map(str::trim)));
    }
    let compared = [("!=", Operator::NotIn), ("==", Operator::In), ("=", Operator::In)];
    let numbers = [(">", Operator::Gt), ("<", Operator::Lt)];
    for (sign, operator) in compared {
        if let Some((key, value)) = text.split_once(sign) {
            return Ok(Requirement::new(key_of(key, text)?, operator, [value.trim()]));
        }
    }
    for (sign, operator) in numbers {
        if let Some((key, value)) = text.split_once(sign) {
            let number: i64 = value.trim().parse().map_err(|_| {
                format!("{text:?}: {:?} is not a whole number; {sign} compares with whole numbers", value.trim())
            })?;
            return Ok(Requirement::new(key_of(key, text)?, operator, [number.to_string()]));
        }
    }
    Ok(Requirement::new(key_of(text, text)?, Operator::Exists, [""; 0]))
}

/// Returns the key with its current name.
fn key_of<'t>(key: &'t str, term: &str) -> Result<&'t str, String> {
    let key = key.trim();
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
    if key.is_empty() || !key.chars().all(plain) {
        return Err(format!(
            "{term:?}: {key:?} is no label key; write key=value, key!=value, key in (a,b), key>1 or key"
        ));
    }
    Ok(api::label::canonical(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_reads_every_form_of_a_term() {
        let one = |key: &str, operator, values: &[&str]| Requirement::new(key, operator, values.iter().copied());
        let rows = [
            ("a=b", one("a", Operator::In, &["b"])),
            ("a == b", one("a", Operator::In, &["b"])),
            ("a!=b", one("a", Operator::NotIn, &["b"])),
            ("x/a in (b, c)", one("x/a", Operator::In, &["b", "c"])),
            ("a notin (b)", one("a", Operator::NotIn, &["b"])),
            ("a>4", one("a", Operator::Gt, &["4"])),
            ("a < 4", one("a", Operator::Lt, &["4"])),
            ("a", one("a", Operator::Exists, &[])),
            ("!a", one("a", Operator::DoesNotExist, &[])),
            ("a=", one("a", Operator::In, &[""])),
        ];
        for (text, expected) in rows {
            assert_eq!(Selector::parse(text).map(|it| it.list), Ok(vec![expected]), "{text}");
        }
        assert_eq!(Selector::parse("a=b,c in (d,e),!f").map(|it| it.list.len()), Ok(3));
        assert_eq!(Selector::parse(""), Ok(Selector::default()));
    }

    #[test]
    fn parse_quotes_the_term_when_it_is_invalid() {
        for text in ["a in (b", "a in b)", "a in ((b))", "a of (b)", "a>x", "=b", "a b", "!"] {
            let problem = Selector::parse(text).expect_err(text);
            assert!(problem.contains('"') && problem.contains("write") || problem.contains("whole"), "{problem}");
        }
    }
}
