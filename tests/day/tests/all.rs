//! All integration tests of this crate as one program, because linking a program takes as long as compiling its tests.

mod cost_limit;
mod day;
mod faults;
mod mass;
mod packing;
mod replay;
mod rest;
mod switch;
mod verifier;
