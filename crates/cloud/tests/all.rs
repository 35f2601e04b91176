//! All integration tests of this crate as one program: linking one takes as long as compiling its tests.

mod fake;
mod launch;
mod moulds;
mod nodeclass;
mod pace;
mod policy;
mod sizes;
mod types;
mod user_data;
