//! Upper bounds of histogram buckets, in seconds.

/// Karpenter's buckets for durations.
pub(super) const DURATIONS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 120.0,
    150.0, 300.0, 450.0, 600.0,
];

/// Durations with fewer buckets, for metrics with many series.
pub(super) const STEPS: &[f64] = &[0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0];

/// Stages of the start of a node.
pub(super) const STAGES: &[f64] = &[1.0, 5.0, 15.0, 60.0, 300.0];

/// Durations of a termination.
pub(super) const ENDINGS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

/// Karpenter's buckets for metrics of objects with conditions.
pub(super) const OBJECTS: &[f64] =
    &[0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0];

/// Durations of a termination with fewer buckets, where Karpenter has a summary or series are per NodePool.
pub(super) const ENDS: &[f64] = &[1.0, 4.0, 16.0, 64.0, 256.0, 1024.0];

/// Lifetimes of nodes, from 15 minutes to 30 days.
pub(super) const LIFETIMES: &[f64] =
    &[900.0, 3600.0, 21_600.0, 86_400.0, 259_200.0, 604_800.0, 1_296_000.0, 2_592_000.0];
