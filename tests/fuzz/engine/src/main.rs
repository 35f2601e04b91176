//! libFuzzer with the one target that `KERF_FUZZ_TARGET` names. The crate `fuzz` contains the targets.

#![no_main]

use std::sync::LazyLock;

use fuzz::Target;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("KERF_FUZZ_TARGET").unwrap_or_default();
    Target::named(&name).unwrap_or_else(|| panic!("KERF_FUZZ_TARGET is `{name}`; name a folder of tests/fuzz/corpus"))
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    (TARGET.check)(data);
});
