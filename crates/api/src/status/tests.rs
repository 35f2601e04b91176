//! Rows of how conditions change.
