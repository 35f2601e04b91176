//! FNV-1 and FNV-1a of 64 bits, and the rules that combine hashes of parts into the hash of a whole.

use std::collections::BTreeMap;

const OFFSET: u64 = 14_695_981_039_346_656_037;
const PRIME: u64 = 1_099_511_628_211;

/// Returns the FNV-1a hash (xor, then multiply) of bytes: well spread, and the same after each restart and upgrade.
pub fn fnv1a(input: impl IntoIterator<Item = u8>) -> u64 {
    input.into_iter().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// Returns the FNV-1 hash (multiply, then xor) of bytes, which Karpenter's hashes use.
pub(super) fn bytes(input: &[u8]) -> u64 {
    input.iter().fold(OFFSET, |hash, byte| hash.wrapping_mul(PRIME) ^ u64::from(*byte))
}

/// Returns the hash of a text.
pub(super) fn text(input: &str) -> u64 {
    bytes(input.as_bytes())
}

/// Returns the hash of a number of 64 bits.
pub(super) fn number(input: i64) -> u64 {
    bytes(&input.to_le_bytes())
}

/// Returns the hash of two hashes in order.
fn pair(a: u64, b: u64) -> u64 {
    let mut both = [0; 16];
    both[..8].copy_from_slice(&a.to_le_bytes());
    both[8..].copy_from_slice(&b.to_le_bytes());
    bytes(&both)
}

/// Finishes a hash that was combined without order.
fn finish(hash: u64) -> u64 {
    bytes(&hash.to_le_bytes())
}

/// Returns the hash of a map of texts.
pub(super) fn map(entries: &BTreeMap<String, String>) -> u64 {
    finish(entries.iter().fold(0, |hash, (k, v)| hash ^ pair(text(k), text(v))))
}

/// Returns the hash of a list without order. Two equal elements cancel each other. This flaw of Karpenter's hash is kept,
/// because the published hashes have it.
pub(super) fn unordered(elements: impl Iterator<Item = u64>) -> u64 {
    elements.fold(0, |hash, element| hash ^ element)
}

/// Returns the hash of a structure: its name, then its fields in declaration order. Absent fields are skipped.
pub(super) fn structure(name: &str, fields: &[(&str, Option<u64>)]) -> u64 {
    fields
        .iter()
        .fold(text(name), |hash, (field, value)| value.map_or(hash, |value| finish(hash ^ pair(text(field), value))))
}
