//! Decoder of quoted-printable content. Invalid sequences stay as they are, as in Go's reader.

use super::escape::unescaped;

/// Returns the decoded content.
pub(super) fn decode(encoded: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::new();
    for line in encoded.split_inclusive(|byte| *byte == b'\n') {
        let (content, end) = match line.strip_suffix(b"\n") {
            Some(content) if content.ends_with(b"\r") => (&content[..content.len() - 1], &b"\r\n"[..]),
            Some(content) => (content, &b"\n"[..]),
            None => (line, &b""[..]),
        };
        let content = content.trim_ascii_end();
        let soft = content.strip_suffix(b"=");
        decoded.extend(unescaped(soft.unwrap_or(content), b'='));
        if soft.is_none() {
            decoded.extend_from_slice(end);
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decode_joins_soft_line_ends_and_keeps_invalid_codes() {
        let encoded = b"a=3Db=\r\nc  \r\n=C3=A9=\n=zz =\t\nend=";
        assert_eq!(decode(encoded), "a=bc\r\né=zz end".as_bytes());
    }
}
