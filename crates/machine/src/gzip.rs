//! gzip, RFC 1952, on a bare inflater: a library for it brings a table of 16 KiB that makes checksums fast, for the few kilobytes that
//! user data has.

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};

/// How every member begins.
pub const MAGIC: [u8; 2] = [0x1f, 0x8b];
const DEFLATE: u8 = 8;
const HEADER_CHECK: u8 = 0x02;
const EXTRA: u8 = 0x04;
const NAME: u8 = 0x08;
const COMMENT: u8 = 0x10;
const RESERVED: u8 = 0xe0;

/// All members, one after another, or why that is impossible. What comes to more than `most` bytes is cut off behind one byte more.
///
/// # Errors
/// In a few words.
pub fn unpack(data: &[u8], most: usize) -> Result<Vec<u8>, &'static str> {
    let mut unpacked = Vec::new();
    let mut rest = data;
    while !rest.is_empty() && unpacked.len() <= most {
        rest = member(rest, &mut unpacked, most)?;
    }
    unpacked.truncate(most + 1);
    Ok(unpacked)
}

/// Unpacks the first member; gives what follows it.
fn member<'a>(data: &'a [u8], unpacked: &mut Vec<u8>, most: usize) -> Result<&'a [u8], &'static str> {
    const CUT: &str = "it ends too early";
    let body = header(data)?;
    let start = unpacked.len();
    let read = inflate(body, unpacked, most)?;
    if unpacked.len() > most {
        return Ok(&[]);
    }
    let trailer = body.get(read..).and_then(|rest| rest.split_at_checked(8)).ok_or(CUT)?;
    let (sum, length) = trailer.0.split_at(4);
    let content = unpacked.get(start..).unwrap_or_default();
    let whole = u32::try_from(content.len()).is_ok_and(|found| found.to_le_bytes() == length);
    if !whole || checksum(content).to_le_bytes() != sum {
        return Err("wrong checksum");
    }
    Ok(trailer.1)
}

/// What follows a member's header.
fn header(data: &[u8]) -> Result<&[u8], &'static str> {
    const CUT: &str = "its header ends too early";
    let (fixed, mut rest) = data.split_at_checked(10).ok_or(CUT)?;
    let [first, second, method, flags, ..] = fixed else { return Err(CUT) };
    if [*first, *second] != MAGIC || *method != DEFLATE || flags & RESERVED != 0 {
        return Err("no gzip header");
    }
    if flags & EXTRA != 0 {
        let (length, more) = rest.split_first_chunk::<2>().ok_or(CUT)?;
        rest = more.get(usize::from(u16::from_le_bytes(*length))..).ok_or(CUT)?;
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            let end = rest.iter().position(|byte| *byte == 0).ok_or(CUT)?;
            rest = rest.get(end + 1..).ok_or(CUT)?;
        }
    }
    if flags & HEADER_CHECK == 0 { Ok(rest) } else { rest.get(2..).ok_or(CUT) }
}

/// Inflates behind what is there already, up to one byte more than `most`; gives how much it has read.
fn inflate(data: &[u8], unpacked: &mut Vec<u8>, most: usize) -> Result<usize, &'static str> {
    let flags = inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
    let mut state = Box::<DecompressorOxide>::default();
    let (mut read, mut at) = (0, 0);
    let mut content = vec![0; data.len().saturating_mul(4).max(64)];
    loop {
        let rest = data.get(read..).unwrap_or_default();
        let (status, taken, given) = decompress(&mut state, rest, &mut content, at, flags);
        (read, at) = (read + taken, at + given);
        let room = most.saturating_add(1).saturating_sub(unpacked.len());
        match status {
            TINFLStatus::HasMoreOutput if at < room => content.resize(content.len().saturating_mul(2), 0),
            TINFLStatus::Done | TINFLStatus::HasMoreOutput => {
                content.truncate(at.min(room));
                unpacked.append(&mut content);
                return Ok(read);
            }
            TINFLStatus::FailedCannotMakeProgress | TINFLStatus::NeedsMoreInput => return Err("it ends too early"),
            _ => return Err("its content is damaged"),
        }
    }
}

/// CRC-32, a bit at a time.
fn checksum(data: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg()))
    };
    !data.iter().fold(u32::MAX, step)
}
