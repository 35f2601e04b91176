//! The independent checker.
