//! All integration tests of this crate as one program, because linking a program takes as long as compiling its tests.

mod ami;
mod bottlerocket;
mod forge;
mod images;
mod packages;
mod prepare;
mod progress;
mod publish;
mod release;
