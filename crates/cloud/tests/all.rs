//! All integration tests of this crate in one binary, because linking a binary takes as long as compiling its tests.

mod fake;
mod launch;
mod moulds;
mod nodeclass;
mod pace;
mod policy;
mod sizes;
mod types;
mod user_data;
