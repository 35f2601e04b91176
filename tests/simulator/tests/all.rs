//! Integration tests of this crate as one program. Linking a program takes as long as compiling its tests.

mod moves;
mod panics;
mod soak;
