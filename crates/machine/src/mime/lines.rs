//! Lines of a MIME document: headers, bodies and the boundary lines between them.

use super::MimeError;
use crate::quote::quote;

/// Kind of a boundary line; `End` is the end of the data without a boundary line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BoundaryLine {
    Open,
    Close,
    End,
}

/// Headers of a document or part.
#[derive(Debug)]
pub(super) struct Headers {
    /// Names and values in order.
    pub(super) list: Vec<(String, String)>,
    /// `true` if the data ends before the blank line.
    pub(super) cut_off: bool,
}

/// Returns the kind of a boundary line; `None` for other lines.
pub(super) fn boundary_line(line: &[u8], boundary: &str) -> Option<BoundaryLine> {
    let rest = line.strip_prefix(b"--")?.strip_prefix(boundary.as_bytes())?;
    match rest.trim_ascii_end() {
        b"" => Some(BoundaryLine::Open),
        b"--" => Some(BoundaryLine::Close),
        _ => None,
    }
}

/// Returns the name of the header in a line, and no name for a line that continues the one before. Returns `None` for lines
/// that are no header.
pub(super) fn header_name(line: &[u8]) -> Option<Option<&str>> {
    if line.starts_with(b" ") || line.starts_with(b"\t") {
        return Some(None);
    }
    let name = std::str::from_utf8(line.split(|byte| *byte == b':').next()?).ok()?;
    let is_token = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    (is_token && name.len() < line.len()).then_some(Some(name))
}

/// A cursor over lines with the current line number.
pub(super) struct Lines<'a> {
    data: &'a [u8],
    at: usize,
    pub(super) number: usize,
}

impl<'a> Lines<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self { data, at: 0, number: 0 }
    }

    /// Returns the next line without its line end, and its start.
    fn next(&mut self) -> Option<(usize, &'a [u8])> {
        let start = self.at;
        let rest = self.rest();
        let length = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |end| end + 1);
        if length == 0 {
            return None;
        }
        self.at += length;
        self.number += 1;
        let line = &rest[..length];
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        Some((start, line.strip_suffix(b"\r").unwrap_or(line)))
    }

    /// Returns the data from the current line on.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.data.get(self.at..).unwrap_or_default()
    }

    /// Reports whether only white space is left.
    pub(super) fn is_blank(&self) -> bool {
        self.rest().trim_ascii().is_empty()
    }

    pub(super) fn skip_blank(&mut self) {
        while self.rest().first().is_some_and(u8::is_ascii_whitespace) {
            self.number += usize::from(self.data[self.at] == b'\n');
            self.at += 1;
        }
    }

    /// Parses headers up to and including the blank line; a line that begins with white space continues the previous one.
    pub(super) fn headers(&mut self) -> Result<Headers, MimeError> {
        let mut list: Vec<(String, String)> = Vec::new();
        while let Some((_, line)) = self.next() {
            if line.is_empty() {
                return Ok(Headers { list, cut_off: false });
            }
            let text = String::from_utf8_lossy(line).into_owned();
            match (text.starts_with([' ', '\t']), list.last_mut(), text.split_once(':')) {
                (true, Some((_, value)), _) => *value = format!("{value} {}", text.trim()).trim().to_owned(),
                (false, _, Some((name, value))) => list.push((name.trim().to_owned(), value.trim().to_owned())),
                _ => return Err(MimeError::Header { line: self.number, text: quote(&text) }),
            }
        }
        Ok(Headers { list, cut_off: true })
    }

    /// Returns the bytes up to the next boundary line, without the line end before it, and the kind of that line.
    pub(super) fn body(&mut self, boundary: &str) -> (&'a [u8], BoundaryLine) {
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
