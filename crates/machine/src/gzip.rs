//! gzip, RFC 1952, with a limit for the unpacked size.

use std::io::{self, Read as _};

use flate2::read::MultiGzDecoder;

/// First bytes of each member.
pub const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Returns the content of all members. Content of more than `most` bytes is truncated after one more byte.
///
/// # Errors
/// Returns an error if a member is truncated or corrupt.
pub fn unpack(data: &[u8], most: usize) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    MultiGzDecoder::new(data).take(limit).read_to_end(&mut content)?;
    Ok(content)
}
