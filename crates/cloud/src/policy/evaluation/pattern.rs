//! Patterns of actions, resources and condition values: `*` matches any text, and `?` matches one character.

use super::{Truth, variable};

/// Text with wildcards, or with a policy variable that is not evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern(String);

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Returns the first policy variable, such as `${aws:username}`. `${*}`, `${?}` and `${$}` are characters.
    pub(super) fn variable(&self) -> Option<&str> {
        let mut rest = self.0.as_str();
        while let Some(start) = rest.find("${") {
            let end = rest[start..].find('}').map_or(rest.len(), |length| start + length + 1);
            let found = &rest[start..end];
            if !["${*}", "${?}", "${$}"].contains(&found) {
                return Some(found);
            }
            rest = &rest[end..];
        }
        None
    }

    pub(super) fn matches(&self, text: &str) -> Truth {
        self.compare(|pattern| wildcard(pattern, text))
    }

    /// Matches the name of an action, in which case does not matter.
    pub(super) fn matches_action(&self, action: &str) -> Truth {
        let action = action.to_ascii_lowercase();
        self.compare(|pattern| wildcard(&pattern.to_ascii_lowercase(), &action))
    }

    /// Matches each of the six parts of an ARN for itself.
    pub(super) fn matches_arn(&self, arn: &str) -> Truth {
        self.compare(|pattern| {
            let (wanted, found): (Vec<&str>, Vec<&str>) =
                (pattern.splitn(6, ':').collect(), arn.splitn(6, ':').collect());
            wanted.len() == found.len() && wanted.iter().zip(&found).all(|(wanted, found)| wildcard(wanted, found))
        })
    }

    pub(super) fn equals(&self, text: &str) -> Truth {
        self.compare(|wanted| wanted.replace("${*}", "*").replace("${?}", "?").replace("${$}", "$") == text)
    }

    pub(super) fn equals_without_case(&self, text: &str) -> Truth {
        self.compare(|wanted| wanted.eq_ignore_ascii_case(text))
    }

    fn compare(&self, matches: impl Fn(&str) -> bool) -> Truth {
        match self.variable() {
            Some(name) => Truth::Unknown(variable(name)),
            None if matches(&self.0) => Truth::Yes,
            None => Truth::No,
        }
    }
}

/// Part of a pattern.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Piece {
    Any,
    One,
    Letter(char),
}

/// Splits a pattern; `${*}`, `${?}` and `${$}` stand for the characters themselves.
fn pieces(pattern: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = pattern;
    while let Some(letter) = rest.chars().next() {
        let escaped = rest.strip_prefix("${").and_then(|rest| rest.find('}').map(|end| &rest[..end]));
        if let Some(single) = escaped.and_then(|text| text.chars().next()) {
            pieces.push(Piece::Letter(single));
            rest = &rest["${".len() + single.len_utf8() + "}".len()..];
            continue;
        }
        pieces.push(match letter {
            '*' => Piece::Any,
            '?' => Piece::One,
            letter => Piece::Letter(letter),
        });
        rest = &rest[letter.len_utf8()..];
    }
    pieces
}

/// Matches a text against a pattern of IAM, or of a filter of EC2. A mismatch returns to the last `*`, so the time is at most the
/// product of both lengths.
pub(crate) fn wildcard(pattern: &str, text: &str) -> bool {
    let pattern = pieces(pattern);
    let letters: Vec<char> = text.chars().collect();
    let (mut at, mut position) = (0, 0);
    let mut last: Option<(usize, usize)> = None;
    while position < letters.len() {
        match pattern.get(at) {
            Some(Piece::Any) => {
                last = Some((at, position));
                at += 1;
            }
            Some(Piece::One) => (at, position) = (at + 1, position + 1),
            Some(Piece::Letter(letter)) if *letter == letters[position] => (at, position) = (at + 1, position + 1),
            _ => {
                let Some((star, start)) = last else { return false };
                last = Some((star, start + 1));
                (at, position) = (star + 1, start + 1);
            }
        }
    }
    pattern[at..].iter().all(|piece| *piece == Piece::Any)
}
