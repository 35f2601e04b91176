//! Text of an error with its causes. The errors of Kerf never contain the text of their source.

use std::error::Error;

/// Maximum length in characters: a Kubernetes event accepts 1024, and has a text of its own.
const LONGEST: usize = 900;

/// Returns the error and its causes in one line, joined by `: `. A quoted foreign text may contain line ends and have any
/// length.
#[must_use]
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    let mut characters = text.chars().map(|character| if character.is_control() { ' ' } else { character });
    let line: String = characters.by_ref().take(LONGEST - 1).collect();
    if characters.next().is_some() { line + "…" } else { line }
}

#[cfg(test)]
mod tests {
    use super::chain;

    #[derive(Debug)]
    struct Outer(std::io::Error);

    impl std::fmt::Display for Outer {
        fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            out.write_str("cannot read the journal")
        }
    }

    impl std::error::Error for Outer {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn chain_contains_every_cause_once() {
        let error = Outer(std::io::Error::other("disk full"));
        assert_eq!(chain(&error), "cannot read the journal: disk full");
    }

    #[test]
    fn chain_returns_one_line_of_at_most_900_characters() {
        let text = chain(&Outer(std::io::Error::other(format!("no field a\nREADY=1{}", "é".repeat(1000)))));
        assert!(text.starts_with("cannot read the journal: no field a READY=1é") && text.ends_with("é…"), "{text}");
        assert_eq!(text.chars().count(), 900);
        assert!(chain(&Outer(std::io::Error::other("x".repeat(874)))).ends_with('x'));
    }
}
