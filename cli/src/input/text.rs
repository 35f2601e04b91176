//! Split of a text into documents: YAML documents between `---` lines, or consecutive JSON values.

use serde_json::Value;

use super::bounded;
use super::error::{InputError, Place};

/// Returns every document that is not empty, and errors for documents that cannot be parsed.
pub(super) fn documents(file: &str, text: &str) -> (Vec<(Place, Value)>, Vec<InputError>) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_start().starts_with('{') {
        match json(file, text) {
            Ok(values) => return (values, Vec::new()),
            Err(error) if file.ends_with(".json") => return (Vec::new(), vec![error]),
            // Flow-style YAML begins in the same way.
            Err(_) => {}
        }
    }
    let mut values = Vec::new();
    let mut errors = Vec::new();
    for (index, (line, document)) in split(text).into_iter().enumerate() {
        let place = Place::document(file, index + 1);
        if is_blank(document) {
            continue;
        }
        match bounded::from_str(document) {
            Ok(Value::Null) => {}
            Ok(value) => values.push((place, value)),
            Err(error) => errors.push(unparsable(&place, line, &error)),
        }
    }
    (values, errors)
}

/// Parses consecutive JSON values.
fn json(file: &str, text: &str) -> Result<Vec<(Place, Value)>, InputError> {
    let stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let one = |(index, value): (usize, serde_json::Result<Value>)| {
        let place = Place::document(file, index + 1);
        let wrong = |error| InputError::new(&place, format!("not JSON: {error}"), "correct it, or fetch the file anew");
        Ok((place.clone(), value.map_err(wrong)?))
    };
    stream.enumerate().map(one).collect()
}

/// Returns the documents with the number of lines before each. Text before the first `---` counts only if it is not blank.
fn split(text: &str) -> Vec<(usize, &str)> {
    let mut documents = pieces(text);
    if documents.len() > 1 && is_blank(documents[0].1) {
        documents.remove(0);
    }
    documents
}

/// Returns the text before, between and after the `---` lines, with the number of lines before each piece. A `---` inside a
/// text block is indented, so it does not end a piece. The pieces, joined by `---`, are the original text.
pub(crate) fn pieces(text: &str) -> Vec<(usize, &str)> {
    let mut documents = Vec::new();
    let (mut start, mut first_line, mut at) = (0, 0, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let marks = line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\n', '\r']));
        if marks {
            documents.push((first_line, &text[start..at]));
            // Text after the mark on the same line belongs to the document.
            (start, first_line) = (at + 3, number);
        }
        at += line.len();
    }
    documents.push((first_line, &text[start..]));
    documents
}

/// Reports whether a document has only blank lines, comments and directives.
pub(crate) fn is_blank(document: &str) -> bool {
    document.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#') || line.starts_with("%YAML"))
}

fn unparsable(place: &Place, line_before: usize, error: &serde_saphyr::Error) -> InputError {
    let at = error.location().map(|at| format!("line {}: ", at.line() + line_before as u64));
    let message = error.without_snippet().to_string();
    // The message counts lines from the start of the document, but users count from the start of the file.
    let message = message.lines().next().unwrap_or_default();
    let message = message.split(" at line ").next().unwrap_or(message);
    // The parser's advice is for programmers and is removed, as is the place of an alias's anchor.
    let message = [", set ", "; use ", " (defined"]
        .iter()
        .fold(message, |message, advice| message.split(advice).next().unwrap_or(message));
    let message = message.trim_end_matches('.');
    let cure = match message.ends_with(bounded::EXCEEDED) || message == bounded::TOO_DEEP {
        true => "nest less deeply, and write fewer aliases",
        false => "correct the line; a template must be rendered first",
    };
    InputError::new(place, format!("{}not YAML: {message}", at.unwrap_or_default()), cure)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> Vec<usize> {
        documents("f", text).0.into_iter().map(|(place, _)| place.document).collect()
    }

    #[test]
    fn documents_numbers_nonempty_documents_from_one() {
        let rows: [(&str, &[usize]); 9] = [
            ("a: 1\n", &[1]),
            ("---\na: 1\n", &[1]),
            ("# words\n---\na: 1\n---\nb: 2\n", &[1, 2]),
            ("a: 1\n---\n# nothing\n---\nb: 2\n", &[1, 3]),
            ("a: |\n  ---\n  x\n---\nb: 1", &[1, 2]),
            ("", &[]),
            ("# only words\n", &[]),
            ("{\"a\":1}\n{\"b\":2}", &[1, 2]),
            ("{a: 1}\n", &[1]),
        ];
        for (text, expected) in rows {
            assert_eq!(numbers(text), expected, "{text:?}");
        }
    }

    #[test]
    fn documents_reports_a_broken_document_and_reads_the_others() {
        let (values, errors) = documents("f.yaml", "a: 1\n---\nb: [1\nc: 2\n---\nd: 1\n");
        assert_eq!(values.len(), 2);
        let [error] = errors.as_slice() else { panic!("{errors:?}") };
        let text = error.to_string();
        assert!(text.starts_with("f.yaml, document 2: line "), "{text}");
    }
}
