//! Manifests and Helm values, which the command reads for plans and conversions. Users fetch them from clusters and repositories.

use cli::convert::convert_text;
use cli::input::{InputErrors, read_text};

use crate::ParseResult;

/// Names of the file: the ending selects the first parser.
const FILES: [&str; 2] = ["f.yaml", "f.json"];

pub(crate) fn check(bytes: &[u8]) -> ParseResult {
    let Ok(text) = std::str::from_utf8(bytes) else { return ParseResult::Refused("no text".to_owned()) };
    for file in FILES {
        let read = read_text(file, text);
        let _ = read.as_ref().map_err(|errors| named(errors, file));
        let _ = convert_text(file, text, None).map_err(|errors| named(&errors, file));
    }
    match read_text(FILES[0], text) {
        Ok(_) => ParseResult::Accepted,
        Err(errors) => ParseResult::Refused(errors.to_string()),
    }
}

/// Asserts that each error names the file and has a fix.
fn named(errors: &InputErrors, file: &str) {
    assert!(!errors.0.is_empty());
    for error in &errors.0 {
        assert!(error.to_string().starts_with(file) && !error.cure.is_empty(), "{error}");
    }
}
