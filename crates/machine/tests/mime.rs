//! Multipart documents: those of other programs can be parsed, Kerf's own output can be parsed, and invalid ones are reported
//! with their place.

use machine::mime::{MimeError, Part, is_mime, parse, render};
use proptest::prelude::{Strategy, any, prop, proptest};

#[test]
fn parse_reads_continued_headers_preamble_and_crlf() {
    let document = "Content-Type: multipart/mixed;\r\n boundary=\"==b==\"\r\nMIME-Version: 1.0\r\n\r\npreamble\r\n--==b==\r\n\
        Content-Type: Application/node.eks.aws; charset=\"utf-8\"\r\n\r\na: 1\r\nb: 2\r\n--==b==  \r\n\r\nplain\r\n--==b==--\r\nepilogue";
    let parts = parse(document.as_bytes()).unwrap();
    assert_eq!(parts.len(), 2);
    assert_eq!(parts[0].media_type(), "application/node.eks.aws");
    assert_eq!(parts[0].body, b"a: 1\r\nb: 2");
    assert_eq!(parts[1].media_type(), "text/plain");
    assert_eq!(parts[1].body, b"plain");
}

#[test]
fn is_mime_recognizes_header_lines() {
    for (text, expected) in [
        ("MIME-Version: 1.0\n", true),
        ("\n  content-type: multipart/mixed", true),
        ("apiVersion: node.eks.aws/v1alpha1", false),
        ("#!/bin/bash\n", false),
        ("", false),
    ] {
        assert_eq!(is_mime(text.as_bytes()), expected, "{text:?}");
    }
}

#[test]
fn parse_reports_the_line_when_a_document_is_invalid() {
    let head = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n";
    let cut_off = format!("{head}--//\nContent-Type: text/plain\n\nhello\n");
    let no_part = format!("{head}hello\n");
    let no_blank = format!("{head}--//\nContent-Type: text/plain\nhello\n--//--\n");
    for (document, expected) in [
        ("MIME-Version: 1.0\n\nhello", "the MIME headers name no multipart boundary"),
        ("Content-Type: multipart/mixed\n\n--B\n", "the MIME headers name no multipart boundary"),
        ("MIME-Version: 1.0\nnonsense\n\n", "line 2: `nonsense` is not a `Name: value` header"),
        (cut_off.as_str(), "the closing line `--//--` is missing; the document is cut off after line 7"),
        (no_part.as_str(), "no line `--//` opens a part"),
        (no_blank.as_str(), "line 6: `hello` is not a `Name: value` header"),
    ] {
        let error = parse(document.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn render_returns_an_error_when_a_body_has_a_boundary_line() {
    let parts = [Part::new("text/plain", "fine"), Part::new("text/plain", "one\n--// \ntwo")];
    let expected = MimeError::BoundaryInBody { part: 2, text: "--// ".to_owned() };
    assert_eq!(render(&parts).unwrap_err(), expected);
}

fn bodies() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let text = prop::collection::vec("[ -~\n]{0,40}".prop_map(String::into_bytes), 1..5);
    let noise = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..5);
    proptest::prop_oneof![text, noise]
}

proptest! {
    #[test]
    fn parse_reads_what_render_writes(bodies in bodies()) {
        let clean = |body: Vec<u8>| body.into_iter().filter(|byte| *byte != b'\r').collect::<Vec<_>>();
        let parts: Vec<Part> = bodies.into_iter().map(|body| Part::new("text/plain", clean(body))).collect();
        match render(&parts) {
            Ok(document) => assert_eq!(parse(&document), Ok(parts)),
            Err(error) => assert!(matches!(error, MimeError::BoundaryInBody { .. })),
        }
    }

    #[test]
    fn parse_does_not_panic_when_data_is_random(data in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut document = b"Content-Type: multipart/mixed; boundary=\"//\"\n\n--//\n".to_vec();
        document.extend_from_slice(&data);
        let _ = parse(&document);
        let _ = parse(&data);
    }
}
