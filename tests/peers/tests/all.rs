//! All integration tests of this crate as one program, because linking a program takes as long as compiling its tests.

mod bound;
mod oracle;
mod peers;
mod policies;
