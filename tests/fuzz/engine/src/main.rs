//! libFuzzer, driving the one target that `KERF_FUZZ_TARGET` names. What a target does with bytes stands in the crate `fuzz`.

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
