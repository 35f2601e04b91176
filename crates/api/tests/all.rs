//! All integration tests of this crate as one program, because linking one takes as long as compiling its tests.

mod generated;
mod objects;
mod resources;
mod rows;
mod usage;
mod workloads;
