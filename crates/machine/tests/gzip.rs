//! gzip: what another writer packs is unpacked as it was, in as many members as it likes; what is cut, damaged or too much is not.

use std::io::Write as _;

use flate2::{Compression, GzBuilder};
use machine::gzip::unpack;
use proptest::prelude::*;

const MOST: usize = 4096;

/// A member with every field that a header may have.
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
    fn members_are_unpacked_one_after_another(
        members in prop::collection::vec((content(), 0_u32..10, any::<bool>()), 1..3),
    ) {
        let data: Vec<u8> = members.iter().flat_map(|(content, level, plain)| packed(content, *level, *plain)).collect();
        let expected: Vec<u8> = members.into_iter().flat_map(|(content, ..)| content).collect();
        prop_assert_eq!(unpack(&data, MOST).ok(), Some(expected));
    }

    #[test]
    fn what_is_cut_or_damaged_is_refused(content in content(), decorated in any::<bool>(), at in any::<prop::sample::Index>(), bit in 0_u32..8) {
        let whole = packed(&content, 6, decorated);
        let at = at.index(whole.len());
        if at > 0 {
            prop_assert!(unpack(&whole[..at], MOST).is_err(), "cut at {}", at);
        }
        let mut damaged = whole.clone();
        damaged[at] ^= 1_u8 << bit;
        // Most of a header is nobody's concern: the time, the system, the texts.
        let harmless = unpack(&damaged, MOST).is_ok_and(|unpacked| unpacked == content);
        prop_assert!(harmless || unpack(&damaged, MOST).is_err(), "bit {} of byte {}", bit, at);
    }

    #[test]
    fn anything_else_is_refused_or_small(data in prop::collection::vec(any::<u8>(), 0..200)) {
        let gzip = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0][..], &data].concat();
        for data in [data, gzip] {
            prop_assert!(unpack(&data, MOST).map_or(0, |unpacked| unpacked.len()) <= MOST + 1);
        }
    }
}

#[test]
fn what_unpacks_to_too_much_is_cut_off_one_byte_behind() {
    for length in [MOST, MOST + 1, MOST * 1000] {
        let unpacked = unpack(&packed(&vec![b'a'; length], 9, false), MOST).map(|unpacked| unpacked.len());
        assert_eq!(unpacked.ok(), Some(length.min(MOST + 1)), "{length}");
    }
    let two = [packed(&[b'a'; 3000], 9, false), packed(&[b'b'; 3000], 9, false)].concat();
    assert_eq!(unpack(&two, MOST).map(|unpacked| unpacked.len()).ok(), Some(MOST + 1));
}
