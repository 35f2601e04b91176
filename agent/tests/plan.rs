//! Plans of bootstrap, without a machine. Folders hold input and expected files (`cases/`), one folder for each published test
//! case of EKS's own bootstrap that is about data. Tables hold the other rules.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed assumption should fail the test")]

mod cases;
mod facts;
mod figures;
mod rules;
