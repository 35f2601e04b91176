//! Bytes that MIME writes as a marker and two hexadecimal digits.

/// Replaces `MARKER XX` by its byte. Other sequences stay as they are.
pub(super) fn unescaped(mut data: &[u8], marker: u8) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(data.len());
    while let Some((first, tail)) = data.split_first() {
        match tail.first_chunk().filter(|_| *first == marker).and_then(byte) {
            Some(byte) => {
                bytes.push(byte);
                data = &tail[2..];
            }
            None => {
                bytes.push(*first);
                data = tail;
            }
        }
    }
    bytes
}

/// Returns the byte of two hexadecimal digits.
fn byte(digits: &[u8; 2]) -> Option<u8> {
    let digit = |at: usize| char::from(digits[at]).to_digit(16);
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}
