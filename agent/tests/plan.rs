//! What bootstrap decides, without a machine: folders of input and expected files (`cases/`), one folder for each published
//! case of EKS's own bootstrap that is about data, and rules by table.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed assumption should fail the test")]

mod cases;
mod facts;
mod figures;
mod rules;
