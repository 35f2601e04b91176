//! Runtime validation.
