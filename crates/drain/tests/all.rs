//! All integration tests of this crate as one program, because linking a program takes as long as compiling its tests.

mod hands;
mod rules;
mod simulation;
mod stories;
