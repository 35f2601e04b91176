//! The `kerf` program: a handshake with the library.

fn main() {}
