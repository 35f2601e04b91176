//! Values of flags and environment variables, as programs written in Go accept them.

/// Parses a boolean in each form that Go's `strconv.ParseBool` accepts: users keep their variables when they switch.
///
/// # Errors
/// Returns a sentence about any other text.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

#[cfg(test)]
mod tests {
    use super::boolean;

    #[test]
    fn boolean_accepts_the_forms_of_go_only() {
        assert_eq!(["1", "t", "T", "true", "TRUE", "True"].map(boolean), [const { Ok(true) }; 6]);
        assert_eq!(["0", "f", "F", "false", "FALSE", "False"].map(boolean), [const { Ok(false) }; 6]);
        for text in ["", "yes", "tRue", "2", " true"] {
            assert!(boolean(text).is_err_and(|error| error.contains("is neither true nor false")), "{text}");
        }
    }
}
