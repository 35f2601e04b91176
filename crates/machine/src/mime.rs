//! Multipart user data, read and written without a mail library. EC2 user data uses one level of multipart/mixed with text
//! parts. nodeadm, cloud-init and Kerf's agent must be able to read the output. `mailparse` does not write, and reports no line
//! of an error.

mod escape;
mod lines;
mod media_type;
mod quoted_printable;

use std::borrow::Cow;

use thiserror::Error;

use crate::quote::quote;

use lines::{BoundaryLine, Lines, boundary_line};
use media_type::parameter;

/// Karpenter's boundary, so that Kerf and Karpenter render the same document.
pub const BOUNDARY: &str = "//";
/// Begin of the media types of documents with several parts.
const MULTIPART: &str = "multipart/";

/// One part of a multipart document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Header names and values in order, as written.
    pub headers: Vec<(String, String)>,
    /// Bytes between the blank line and the line end before the next boundary.
    pub body: Vec<u8>,
}

impl Part {
    /// Creates a part whose only header is `Content-Type`.
    #[must_use]
    pub fn new(content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { headers: vec![("Content-Type".to_owned(), content_type.to_owned())], body: body.into() }
    }

    /// Returns the value of a header by case-insensitive name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the media type in lower case without parameters; `text/plain` without a `Content-Type`.
    #[must_use]
    pub fn media_type(&self) -> String {
        let value = self.header("Content-Type").unwrap_or("text/plain");
        let media_type = value.split(';').next().unwrap_or(value);
        media_type.trim().to_ascii_lowercase()
    }

    /// Replaces the media type and its parameters.
    pub fn set_content_type(&mut self, content_type: &str) {
        self.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("Content-Type"));
        self.headers.insert(0, ("Content-Type".to_owned(), content_type.to_owned()));
    }

    /// Returns the body without a quoted-printable encoding. Readers recognize base64 by the bytes themselves.
    #[must_use]
    pub fn content(&self) -> Cow<'_, [u8]> {
        match self.header("Content-Transfer-Encoding") {
            Some(encoding) if encoding.trim().eq_ignore_ascii_case("quoted-printable") => {
                Cow::Owned(quoted_printable::decode(&self.body))
            }
            _ => Cow::Borrowed(&self.body),
        }
    }

    /// Returns the parts of a nested multipart document; `None` for other parts and unreadable documents.
    #[must_use]
    pub fn nested(&self) -> Option<Vec<Self>> {
        let content_type = self.header("Content-Type").filter(|_| self.media_type().starts_with(MULTIPART))?;
        let boundary = parameter(content_type, "boundary")?;
        multipart(&mut Lines::new(&self.body), &boundary).ok()
    }
}

/// Reason why a document cannot be read or written as multipart.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MimeError {
    /// A header line without a colon.
    #[error("line {line}: `{text}` is not a `Name: value` header; a blank line must stand between headers and content")]
    Header {
        /// 1-based line of the document.
        line: usize,
        /// The line, truncated.
        text: String,
    },
    /// The document is MIME but not multipart, or has no boundary.
    #[error("the MIME headers name no multipart boundary; write `Content-Type: multipart/mixed; boundary=\"//\"`")]
    NoBoundary,
    /// No line begins a part.
    #[error("no line `--{boundary}` opens a part")]
    NoPart {
        /// Boundary of the headers.
        boundary: String,
    },
    /// The closing boundary is missing, as in a truncated document.
    #[error("the closing line `--{boundary}--` is missing; the document is cut off after line {line}")]
    Unclosed {
        /// Boundary of the headers.
        boundary: String,
        /// Last line.
        line: usize,
    },
    /// A part to write contains a boundary line.
    #[error("part {part} contains the line `{text}`, which would end it early; change that line")]
    BoundaryInBody {
        /// 1-based number of the part.
        part: usize,
        /// The line.
        text: String,
    },
}

/// Reports whether `data`, without leading white space, begins with headers of a MIME document: one of them is `MIME-Version`
/// or `Content-Type`.
#[must_use]
pub fn is_mime(data: &[u8]) -> bool {
    let lines = data.trim_ascii_start().split(|byte| *byte == b'\n');
    let headers = lines.map_while(lines::header_name).flatten();
    headers
        .into_iter()
        .any(|name| ["mime-version", "content-type"].iter().any(|known| name.eq_ignore_ascii_case(known)))
}

/// Parses a MIME document. A document that is not multipart is one part.
///
/// The rules are those of Go's `mime/multipart`, which nodeadm and Karpenter use, and some documents more: the last boundary
/// line may open a part that has no content, and line ends may be mixed.
///
/// # Errors
/// Returns a [`MimeError`] with the line, for a document without a media type, boundary, parts, or end.
pub fn parse(data: &[u8]) -> Result<Vec<Part>, MimeError> {
    let mut lines = Lines::new(data);
    lines.skip_blank();
    let head = Part { headers: lines.headers()?.list, body: Vec::new() };
    let content_type = head.header("Content-Type").ok_or(MimeError::NoBoundary)?;
    if !head.media_type().starts_with(MULTIPART) {
        return Ok(vec![single(&head, lines.rest())]);
    }
    let boundary = parameter(content_type, "boundary").filter(|boundary| !boundary.is_empty());
    multipart(&mut lines, &boundary.ok_or(MimeError::NoBoundary)?)
}

/// Returns the only part of a document that is not multipart.
fn single(head: &Part, body: &[u8]) -> Part {
    let of_part = |(name, _): &&(String, String)| !name.eq_ignore_ascii_case("MIME-Version");
    Part { headers: head.headers.iter().filter(of_part).cloned().collect(), body: body.to_vec() }
}

fn multipart(lines: &mut Lines<'_>, boundary: &str) -> Result<Vec<Part>, MimeError> {
    let mut kind = lines.body(boundary).1;
    let mut parts = Vec::new();
    while kind == BoundaryLine::Open && !lines.is_blank() {
        let headers = lines.headers()?;
        if headers.cut_off {
            // Headers without the blank line after them have no content.
            break;
        }
        let (body, next) = lines.body(boundary);
        parts.push(Part { headers: headers.list, body: body.to_vec() });
        kind = next;
    }
    match (kind, parts.is_empty()) {
        (BoundaryLine::Close | BoundaryLine::End, true) => Err(MimeError::NoPart { boundary: quote(boundary) }),
        (BoundaryLine::Open, true) | (BoundaryLine::End, false) => {
            Err(MimeError::Unclosed { boundary: quote(boundary), line: lines.number })
        }
        _ => Ok(parts),
    }
}

/// Writes `parts` as one multipart/mixed document with boundary [`BOUNDARY`]. Carriage returns are removed, because shells on
/// the node cannot process them. Each body ends before the line end that precedes its boundary.
///
/// # Errors
/// Returns [`MimeError::BoundaryInBody`] for a part that contains a boundary line.
pub fn render(parts: &[Part]) -> Result<Vec<u8>, MimeError> {
    let mut out = format!("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"{BOUNDARY}\"\n\n").into_bytes();
    for (index, part) in parts.iter().enumerate() {
        let body: Vec<u8> = part.body.iter().copied().filter(|byte| *byte != b'\r').collect();
        if let Some(line) = body.split(|byte| *byte == b'\n').find(|line| boundary_line(line, BOUNDARY).is_some()) {
            let text = quote(&String::from_utf8_lossy(line));
            return Err(MimeError::BoundaryInBody { part: index + 1, text });
        }
        out.extend_from_slice(format!("--{BOUNDARY}\n").as_bytes());
        for (name, value) in &part.headers {
            out.extend_from_slice(format!("{name}: {value}\n").as_bytes());
        }
        out.push(b'\n');
        out.extend_from_slice(&body);
        out.push(b'\n');
    }
    out.extend_from_slice(format!("--{BOUNDARY}--\n").as_bytes());
    Ok(out)
}
