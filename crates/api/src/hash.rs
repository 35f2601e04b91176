//! Drift hashes.
