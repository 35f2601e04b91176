//! Delays between retries: exponential, with a jitter from a seed so that a replay has the same delays.

use std::time::Duration;

use api::hash::fnv1a;

use crate::settings::Settings;

/// Returns the delay after the `attempts`-th refusal (1 is the first) of the pod or budget `id`. The delay is between half of
/// and the full doubled minimum, from the settings' minimum to `longest`.
pub(crate) fn wait(settings: &Settings, id: &str, attempts: u32, longest: Duration) -> Duration {
    let doubled = settings.retry_min.saturating_mul(1_u32 << attempts.saturating_sub(1).min(20));
    let full = doubled.min(longest);
    let half = full / 2;
    let share = u32::try_from(mix(settings.seed, id, attempts) % 1024).unwrap_or(0);
    (half + half.saturating_mul(share) / 1024).max(settings.retry_min)
}

/// Returns FNV-1a over seed, id and attempt, finished by a splitmix step: well distributed and identical on every platform.
fn mix(seed: u64, id: &str, attempts: u32) -> u64 {
    let bytes = seed.to_le_bytes().into_iter().chain(id.bytes()).chain(attempts.to_le_bytes());
    let mut hash = fnv1a(bytes);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash ^ (hash >> 31)
}
