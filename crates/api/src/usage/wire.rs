//! Encoding of bytes as text in a Kubernetes object, and of numbers in few bytes.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Error for a text that this version did not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a usage report that this version can read: {0}")]
pub struct InvalidText(pub(super) &'static str);

/// Returns bytes as text without characters that JSON must escape.
pub(super) fn text(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns the bytes of a text.
pub(super) fn bytes(text: &str) -> Result<Vec<u8>, InvalidText> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| InvalidText("it is not base64"))
}

/// Appends a number with seven bits per byte, lowest bits first.
pub(super) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Reader of consecutive numbers.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_done(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn number(&mut self) -> Result<u64, InvalidText> {
        let mut number = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(InvalidText("it ends too early"))?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(InvalidText("a number has too many bytes"))
    }
}
