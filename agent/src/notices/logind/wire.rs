//! Wire format of D-Bus, as far as one client of logind needs it: calls with string arguments, and messages whose first
//! arguments are parsed. Messages are little-endian, as all EC2 machines are. Pure, and safe on any bytes.

use thiserror::Error;

/// Number of bytes before the header's fields.
const FIXED: usize = 16;
/// Greatest size of a body or of header fields, in bytes, more than any message to the agent has.
const LIMIT: usize = 65_536;
/// Greatest nesting of variants and structures.
const DEPTH: u8 = 4;

/// Error in the bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{problem} at byte {at} of a D-Bus message")]
pub struct WireError {
    /// The problem.
    pub problem: &'static str,
    /// Offset of the byte.
    pub at: usize,
}

/// A message of the bus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// 1 for a call, 2 for a response, 3 for an error, 4 for a signal.
    pub kind: u8,
    /// Serial of the call to which the message responds; 0 for none.
    pub answers: u32,
    /// Interface of a signal.
    pub interface: String,
    /// Member of a signal.
    pub member: String,
    /// Name of an error.
    pub error: String,
    /// Arguments, up to the first one of an unsupported type.
    pub arguments: Vec<Argument>,
}

/// An argument of a supported type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// `s`, `o` or `g`.
    Text(String),
    /// `b`.
    Flag(bool),
    /// `y`, `q`, `u` or `t`.
    Number(u64),
    /// `(...)`: a structure of the types above.
    Structure(Vec<Argument>),
    /// `h`: index of a file descriptor of the message.
    Descriptor(u32),
}

/// A method call with string arguments.
pub(super) struct Call<'a> {
    pub(super) serial: u32,
    pub(super) destination: &'a str,
    pub(super) path: &'a str,
    pub(super) interface: &'a str,
    pub(super) member: &'a str,
    pub(super) arguments: &'a [&'a str],
}

/// Encodes a call.
pub(super) fn encode(call: &Call<'_>) -> Vec<u8> {
    let mut body = Writer::default();
    call.arguments.iter().for_each(|text| body.text(text));
    let mut fields = Writer::default();
    fields.field(1, "o", call.path);
    fields.field(2, "s", call.interface);
    fields.field(3, "s", call.member);
    fields.field(6, "s", call.destination);
    if !call.arguments.is_empty() {
        fields.field(8, "g", &"s".repeat(call.arguments.len()));
    }
    let mut all = Writer(vec![b'l', 1, 0, 1]);
    all.number(body.0.len());
    all.number(call.serial as usize);
    all.number(fields.0.len());
    all.0.extend(fields.0);
    all.pad(8);
    all.0.extend(body.0);
    all.0
}

/// Returns the length of the message that starts with these bytes; `None` while too few bytes are available.
///
/// # Errors
/// [`WireError`] for bytes that start no supported message.
pub(super) fn length(bytes: &[u8]) -> Result<Option<usize>, WireError> {
    if bytes.len() < FIXED {
        return Ok(None);
    }
    if bytes[0] != b'l' || bytes[3] != 1 {
        return Err(WireError { problem: "no little-endian message of version 1", at: 0 });
    }
    let mut reader = Reader { bytes, at: 4 };
    let body = reader.number()?;
    reader.at = 12;
    let fields = reader.number()?;
    if body > LIMIT || fields > LIMIT {
        return Err(WireError { problem: "more than any message to us has", at: 4 });
    }
    Ok(Some((FIXED + fields).next_multiple_of(8) + body))
}

/// Decodes one whole message.
///
/// # Errors
/// [`WireError`] with the offset of the invalid byte.
pub fn decode(bytes: &[u8]) -> Result<Message, WireError> {
    let end = length(bytes)?.filter(|end| *end <= bytes.len());
    let end = end.ok_or(WireError { problem: "a message that is not whole", at: bytes.len() })?;
    let mut message = Message { kind: bytes[1], ..Message::default() };
    let mut reader = Reader { bytes: &bytes[..end], at: 12 };
    let fields_end = FIXED + reader.number()?;
    let mut signature = String::new();
    while reader.at < fields_end {
        reader.align(8)?;
        let code = reader.byte()?;
        match (code, reader.variant(DEPTH)?) {
            (2, Some(Argument::Text(text))) => message.interface = text,
            (3, Some(Argument::Text(text))) => message.member = text,
            (4, Some(Argument::Text(text))) => message.error = text,
            (5, Some(Argument::Number(serial))) => message.answers = u32::try_from(serial).unwrap_or(0),
            (8, Some(Argument::Text(text))) => signature = text,
            (_, Some(_)) => {}
            (_, None) => return Err(WireError { problem: "a header field of an unknown type", at: reader.at }),
        }
    }
    reader.align(8)?;
    for kind in signature.chars() {
        let Some(argument) = reader.argument(kind, DEPTH)? else {
            break;
        };
        message.arguments.push(argument);
    }
    Ok(message)
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn pad(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    fn number(&mut self, value: usize) {
        self.pad(4);
        self.0.extend(u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len());
        self.0.extend(text.as_bytes());
        self.0.push(0);
    }

    fn signature(&mut self, text: &str) {
        self.0.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
        self.0.extend(text.as_bytes());
        self.0.push(0);
    }

    fn field(&mut self, code: u8, kind: &str, value: &str) {
        self.pad(8);
        self.0.push(code);
        self.signature(kind);
        if kind == "g" { self.signature(value) } else { self.text(value) }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take(&mut self, count: usize) -> Result<&[u8], WireError> {
        let at = self.at;
        let end = at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or(WireError { problem: "an end too early", at })?;
        self.at = end;
        Ok(&self.bytes[at..end])
    }

    fn align(&mut self, to: usize) -> Result<(), WireError> {
        let rest = self.at.next_multiple_of(to) - self.at;
        self.take(rest).map(|_| ())
    }

    fn byte(&mut self) -> Result<u8, WireError> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// Reads an unsigned integer of `size` bytes.
    fn integer(&mut self, size: usize) -> Result<u64, WireError> {
        self.align(size)?;
        Ok(self.take(size)?.iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)))
    }

    fn number(&mut self) -> Result<usize, WireError> {
        let at = self.at;
        usize::try_from(self.integer(4)?).map_err(|_| WireError { problem: "a length beyond memory", at })
    }

    fn text(&mut self, length: usize) -> Result<String, WireError> {
        let text = String::from_utf8_lossy(self.take(length)?).into_owned();
        self.byte()?;
        Ok(text)
    }

    fn signature(&mut self) -> Result<String, WireError> {
        let length = usize::from(self.byte()?);
        self.text(length)
    }

    /// Reads a value that follows its type; `None` when the type is not supported.
    fn variant(&mut self, depth: u8) -> Result<Option<Argument>, WireError> {
        let signature = self.signature()?;
        let mut kinds = signature.chars();
        match (kinds.next(), kinds.next()) {
            (Some(kind), None) => self.argument(kind, depth),
            (Some('('), Some(_)) if depth > 0 => self.structure(&signature, depth - 1),
            _ => Ok(None),
        }
    }

    /// Reads a structure of single values; `None` when one of its types is not supported.
    fn structure(&mut self, signature: &str, depth: u8) -> Result<Option<Argument>, WireError> {
        let Some(kinds) = signature.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else {
            return Ok(None);
        };
        self.align(8)?;
        let mut parts = Vec::new();
        for kind in kinds.chars() {
            let Some(part) = self.argument(kind, depth)? else {
                return Ok(None);
            };
            parts.push(part);
        }
        Ok(Some(Argument::Structure(parts)))
    }

    fn argument(&mut self, kind: char, depth: u8) -> Result<Option<Argument>, WireError> {
        Ok(Some(match kind {
            's' | 'o' => {
                let length = self.number()?;
                Argument::Text(self.text(length)?)
            }
            'g' => Argument::Text(self.signature()?),
            'b' => Argument::Flag(self.integer(4)? != 0),
            'y' => Argument::Number(u64::from(self.byte()?)),
            'q' => Argument::Number(self.integer(2)?),
            'u' => Argument::Number(self.integer(4)?),
            't' => Argument::Number(self.integer(8)?),
            'h' => Argument::Descriptor(u32::try_from(self.integer(4)?).unwrap_or(u32::MAX)),
            'v' if depth > 0 => return self.variant(depth - 1),
            _ => return Ok(None),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encode_follows_the_dbus_specification() {
        let call = Call {
            serial: 7,
            destination: "org.a",
            path: "/a",
            interface: "org.a.I",
            member: "Do",
            arguments: &["x", "yz"],
        };
        let bytes = encode(&call);
        assert_eq!(&bytes[..12], [b'l', 1, 0, 1, 15, 0, 0, 0, 7, 0, 0, 0]);
        assert_eq!(length(&bytes), Ok(Some(bytes.len())));
        assert_eq!(&bytes[16..27], [1, 1, b'o', 0, 2, 0, 0, 0, b'/', b'a', 0]);
        let message = decode(&bytes).unwrap_or_default();
        assert_eq!((message.kind, message.interface.as_str(), message.member.as_str()), (1, "org.a.I", "Do"));
        assert_eq!(message.arguments, [Argument::Text("x".into()), Argument::Text("yz".into())]);
    }

    #[test]
    fn decode_never_panics_when_bytes_are_cut_or_changed() {
        let call = Call { serial: 1, destination: "d", path: "/p", interface: "i", member: "m", arguments: &["abc"] };
        let bytes = encode(&call);
        for end in 0..bytes.len() {
            assert!(decode(&bytes[..end]).is_err(), "{end}");
        }
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bent = bytes.clone();
                bent[at] = value;
                drop(decode(&bent));
            }
        }
    }
}
