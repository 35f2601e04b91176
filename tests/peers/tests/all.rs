//! All integration tests of this crate as one program, because linking a program takes as long as compiling its tests.

mod bound;
mod peers;
mod policies;
mod referee;
