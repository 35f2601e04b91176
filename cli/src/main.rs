//! The `kerf` program: a handshake with the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(std::env::args_os())
}
