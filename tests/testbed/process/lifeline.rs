//! Helper that ends all children after the end of this process: a shell that reads a pipe whose only writer is this process.
//!
//! At any end of this process (return, panic, Ctrl-C, `kill -9`), the kernel closes the pipe. The shell then kills every
//! process group that is still registered and removes the registered folders. The shell has its own process group, so that
//! Ctrl-C in a terminal does not end it too early. The shell also ends children of a `static`, which Rust never drops.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::{Context, Result, anyhow};

/// Commands, one per line: `+ PGID` registers a group, `- PGID` removes it, `folder PATH` removes a folder at the end, unless
/// it contains a file of the name [`KEPT`].
///
/// A killed process may still write while its folder is being removed; hence the second attempt.
const SCRIPT: &str = r#"
groups=" "
folders=
while read -r verb value; do
    case $verb in
        +) groups="$groups$value " ;;
        -) case $groups in *" $value "*) groups="${groups%% "$value" *} ${groups#* "$value" }" ;; esac ;;
        folder) folders="$folders$value
" ;;
    esac
done
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
printf '%s' "$folders" | while read -r folder; do
    [ -e "$folder/kept" ] || rm -rf -- "$folder" || { sleep 1; rm -rf -- "$folder"; }
done
"#;

/// Name of a file that protects its folder from [`remove_at_end`].
pub const KEPT: &str = "kept";

static LINE: OnceLock<Result<Mutex<ChildStdin>, String>> = OnceLock::new();

/// Registers the process group `id`, which then ends with this process.
///
/// # Errors
/// Returns an error if the shell cannot be started or has ended.
pub fn guard_group(id: u32) -> Result<()> {
    send(&format!("+ {id}\n"))
}

/// Removes the registration of the process group `id` after its end, because its number may be reused.
///
/// # Errors
/// Returns the errors of [`guard_group`].
pub fn release_group(id: u32) -> Result<()> {
    send(&format!("- {id}\n"))
}

/// Registers `folder` for removal when this process ends, unless it contains a file [`KEPT`]. The folder may be missing at that
/// time.
///
/// # Errors
/// Returns the errors of [`guard_group`], or an error for a path that is not UTF-8 or contains a line break, which the shell
/// could not read.
pub fn remove_at_end(folder: &Path) -> Result<()> {
    let text = folder
        .to_str()
        .filter(|text| !text.contains('\n'))
        .with_context(|| format!("{} is no plain text path", folder.display()))?;
    send(&format!("folder {text}\n"))
}

fn send(line: &str) -> Result<()> {
    let pipe = LINE
        .get_or_init(|| start().map_err(|error| format!("{error:#}")))
        .as_ref()
        .map_err(|error| anyhow!(error.clone()))?;
    let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
    pipe.write_all(line.as_bytes()).context("the lifeline shell is gone; processes may be left behind")
}

fn start() -> Result<Mutex<ChildStdin>> {
    let child = Command::new("sh")
        .args(["-c", SCRIPT, "kerf-lifeline"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .context("cannot start sh, which ends child processes when this one is killed")?;
    child.stdin.map(Mutex::new).context("the lifeline shell has no standard input")
}
