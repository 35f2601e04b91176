//! All integration tests of this crate as one program: linking one takes as long as compiling its tests.

mod hands;
mod rules;
mod simulation;
mod stories;
