//! gzip: data of another writer is unpacked correctly, in any number of members; truncated, corrupt or too large data is not.

use std::io::Write as _;

use flate2::{Compression, GzBuilder};
use machine::gzip::unpack;
use proptest::prelude::*;

const MOST: usize = 4096;

/// Returns a member with every header field if `decorated`.
fn packed(content: &[u8], level: u32, decorated: bool) -> Vec<u8> {
    let builder = GzBuilder::new();
    let builder = if decorated {
        builder.filename("user-data").comment("made by hand").extra(vec![1, 2, 3]).mtime(7)
    } else {
        builder
    };
    let mut writer = builder.write(Vec::new(), Compression::new(level));
    writer.write_all(content).and_then(|()| writer.finish()).unwrap_or_default()
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    let text = prop::collection::vec(prop::sample::select(b"abc\n".to_vec()), 0..1500);
    prop_oneof![prop::collection::vec(any::<u8>(), 0..600), text]
}

proptest! {
    #[test]
    fn unpack_concatenates_all_members(
        members in prop::collection::vec((content(), 0_u32..10, any::<bool>()), 1..3),
    ) {
        let data: Vec<u8> = members.iter().flat_map(|(content, level, plain)| packed(content, *level, *plain)).collect();
        let expected: Vec<u8> = members.into_iter().flat_map(|(content, ..)| content).collect();
        prop_assert_eq!(unpack(&data, MOST).ok(), Some(expected));
    }

    #[test]
    fn unpack_returns_an_error_when_data_is_truncated_or_corrupt(content in content(), decorated in any::<bool>(), at in any::<prop::sample::Index>(), bit in 0_u32..8) {
        let whole = packed(&content, 6, decorated);
        let at = at.index(whole.len());
        if at > 0 {
            prop_assert!(unpack(&whole[..at], MOST).is_err(), "cut at {}", at);
        }
        let mut damaged = whole.clone();
        damaged[at] ^= 1_u8 << bit;
        // Most bytes of a header have no effect: the time, the system, the texts.
        let harmless = unpack(&damaged, MOST).is_ok_and(|unpacked| unpacked == content);
        prop_assert!(harmless || unpack(&damaged, MOST).is_err(), "bit {} of byte {}", bit, at);
    }

    #[test]
    fn unpack_respects_the_limit_when_data_is_random(data in prop::collection::vec(any::<u8>(), 0..200)) {
        let gzip = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0][..], &data].concat();
        for data in [data, gzip] {
            prop_assert!(unpack(&data, MOST).map_or(0, |unpacked| unpacked.len()) <= MOST + 1);
        }
    }
}

#[test]
fn unpack_truncates_one_byte_after_the_limit() {
    for length in [MOST, MOST + 1, MOST * 1000] {
        let unpacked = unpack(&packed(&vec![b'a'; length], 9, false), MOST).map(|unpacked| unpacked.len());
        assert_eq!(unpacked.ok(), Some(length.min(MOST + 1)), "{length}");
    }
    let two = [packed(&[b'a'; 3000], 9, false), packed(&[b'b'; 3000], 9, false)].concat();
    assert_eq!(unpack(&two, MOST).map(|unpacked| unpacked.len()).ok(), Some(MOST + 1));
}
