//! All integration tests of this crate as one program: linking one takes as long as compiling its tests.

mod day;
mod judge;
mod mass;
mod packing;
mod rest;
mod switch;
