//! `systemctl` of a machine in the node simulator: sends its arguments to the simulator over a unix socket and exits with the
//! simulator's result. The shim makes no decision.

use std::io::{Error, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

/// Variable with the socket of the caller's machine.
const SOCKET: &str = "KERF_MACHINE_SOCKET";

fn main() -> ExitCode {
    match ask() {
        Ok(answer) => follow(&answer),
        Err(error) => {
            eprintln!("systemctl: the node simulator does not answer at {SOCKET}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn ask() -> Result<String, Error> {
    let socket = std::env::var_os(SOCKET).ok_or_else(|| Error::other("it is not set"))?;
    let mut stream = UnixStream::connect(socket)?;
    let words: Vec<String> = std::env::args().skip(1).collect();
    stream.write_all(words.join("\n").as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Prints the result and returns the exit code. The first line is the exit code; the rest is the output, on standard error for
/// an error.
fn follow(answer: &str) -> ExitCode {
    let (code, text) = answer.split_once('\n').unwrap_or((answer, ""));
    let code: u8 = code.parse().unwrap_or(1);
    match code {
        0 | 3 => print!("{text}"),
        _ => eprint!("{text}"),
    }
    ExitCode::from(code)
}
