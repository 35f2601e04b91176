//! Multipart user data, read and written without a mail library. EC2 user data uses one level of multipart/mixed with text
//! parts. nodeadm, cloud-init and Kerf's agent must be able to read the output. `mailparse` does not write, and reports no line
//! of an error.

use thiserror::Error;

use crate::quote::quote;

/// Karpenter's boundary, so that Kerf and Karpenter render the same document.
pub const BOUNDARY: &str = "//";

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

/// Reports whether `data`, without leading white space, begins like a MIME document (`MIME-Version:` or `Content-Type:`).
#[must_use]
pub fn is_mime(data: &[u8]) -> bool {
    let start = data.trim_ascii_start();
    ["mime-version:", "content-type:"]
        .iter()
        .any(|name| start.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name.as_bytes())))
}

/// Parses a multipart document.
///
/// # Errors
/// Returns a [`MimeError`] with the line, for a document without a boundary, without parts, or without its end.
pub fn parse(data: &[u8]) -> Result<Vec<Part>, MimeError> {
    let mut lines = Lines::new(data);
    lines.skip_blank();
    let headers = lines.headers()?;
    let boundary = headers
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        .and_then(|(_, value)| boundary_parameter(value))
        .ok_or(MimeError::NoBoundary)?;
    let mut kind = lines.body(&boundary).1;
    let mut parts = Vec::new();
    while kind == BoundaryLine::Open {
        let headers = lines.headers()?;
        let (body, next) = lines.body(&boundary);
        parts.push(Part { headers, body: body.to_vec() });
        kind = next;
    }
    match (kind, parts.is_empty()) {
        (_, true) => Err(MimeError::NoPart { boundary: quote(&boundary) }),
        (BoundaryLine::Close, false) => Ok(parts),
        _ => Err(MimeError::Unclosed { boundary: quote(&boundary), line: lines.number }),
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

/// Kind of a boundary line; `End` is the end of the data without a boundary line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BoundaryLine {
    Open,
    Close,
    End,
}

fn boundary_line(line: &[u8], boundary: &str) -> Option<BoundaryLine> {
    let rest = line.strip_prefix(b"--")?.strip_prefix(boundary.as_bytes())?;
    match rest.trim_ascii_end() {
        b"" => Some(BoundaryLine::Open),
        b"--" => Some(BoundaryLine::Close),
        _ => None,
    }
}

fn boundary_parameter(content_type: &str) -> Option<String> {
    let mut pieces = content_type.split(';').map(str::trim);
    if !pieces.next()?.to_ascii_lowercase().starts_with("multipart/") {
        return None;
    }
    let value = pieces.find_map(|piece| {
        let (name, value) = piece.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim())
    })?;
    let value = value.trim_matches('"');
    (!value.is_empty()).then(|| value.to_owned())
}

/// A cursor over lines with the current line number.
struct Lines<'a> {
    data: &'a [u8],
    at: usize,
    number: usize,
}

impl<'a> Lines<'a> {
    fn new(data: &'a [u8]) -> Self {
        Self { data, at: 0, number: 0 }
    }

    /// Returns the next line without its line end, and its start.
    fn next(&mut self) -> Option<(usize, &'a [u8])> {
        let start = self.at;
        let rest = self.data.get(start..).filter(|rest| !rest.is_empty())?;
        let length = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |end| end + 1);
        self.at += length;
        self.number += 1;
        let line = &rest[..length];
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        Some((start, line.strip_suffix(b"\r").unwrap_or(line)))
    }

    fn skip_blank(&mut self) {
        while self.data[self.at..].first().is_some_and(u8::is_ascii_whitespace) {
            self.number += usize::from(self.data[self.at] == b'\n');
            self.at += 1;
        }
    }

    /// Parses headers up to and including the blank line; a line that begins with white space continues the previous one.
    fn headers(&mut self) -> Result<Vec<(String, String)>, MimeError> {
        let mut headers: Vec<(String, String)> = Vec::new();
        while let Some((_, line)) = self.next() {
            if line.is_empty() {
                break;
            }
            let text = String::from_utf8_lossy(line).into_owned();
            match (text.starts_with([' ', '\t']), headers.last_mut(), text.split_once(':')) {
                (true, Some((_, value)), _) => *value = format!("{value} {}", text.trim()).trim().to_owned(),
                (false, _, Some((name, value))) => {
                    headers.push((name.trim().to_owned(), value.trim().to_owned()));
                }
                _ => {
                    return Err(MimeError::Header { line: self.number, text: quote(&text) });
                }
            }
        }
        Ok(headers)
    }

    /// Returns the bytes up to the next boundary line, without the line end before it, and the kind of that line.
    fn body(&mut self, boundary: &str) -> (&'a [u8], BoundaryLine) {
        let start = self.at;
        while let Some((at, line)) = self.next() {
            if let Some(kind) = boundary_line(line, boundary) {
                let body = &self.data[start..at.max(start)];
                let body = body.strip_suffix(b"\n").unwrap_or(body);
                return (body.strip_suffix(b"\r").unwrap_or(body), kind);
            }
        }
        (&self.data[start..], BoundaryLine::End)
    }
}
