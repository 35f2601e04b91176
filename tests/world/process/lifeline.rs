//! The one helper that ends everything when this process is gone: a shell that reads a pipe whose only writer we are.
//!
//! However this process ends (return, panic, Ctrl-C, `kill -9`), the kernel closes the pipe; the shell then kills every
//! process group that is still registered and removes the folders that were given to it. It runs in a group of its own,
//! so that Ctrl-C in a terminal does not end it before its work. It also ends what a `static` owns, which Rust never drops.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::{Context, Result, anyhow};

/// Commands, one a line: `+ PGID` guards a group, `- PGID` forgets it, `folder PATH` removes a folder
/// at the end, unless it holds a file of the name [`KEPT`].
///
/// A killed process may still write while its folder is being removed, hence the second attempt.
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

/// A file of this name protects its folder from [`remove_at_end`].
pub const KEPT: &str = "kept";

static LINE: OnceLock<Result<Mutex<ChildStdin>, String>> = OnceLock::new();

/// From now on the process group `id` ends with this process.
///
/// # Errors
/// When the shell cannot be started or is gone.
pub fn guard_group(id: u32) -> Result<()> {
    tell(&format!("+ {id}\n"))
}

/// The process group `id` is over and its number may belong to somebody else soon.
///
/// # Errors
/// As [`guard_group`].
pub fn release_group(id: u32) -> Result<()> {
    tell(&format!("- {id}\n"))
}

/// Removes `folder` when this process ends, unless it holds a file [`KEPT`]; it need not exist any more then.
///
/// # Errors
/// As [`guard_group`]; also for a path that is not UTF-8 or has a line break, which the shell could not read back.
pub fn remove_at_end(folder: &Path) -> Result<()> {
    let text = folder
        .to_str()
        .filter(|text| !text.contains('\n'))
        .with_context(|| format!("{} is no plain text path", folder.display()))?;
    tell(&format!("folder {text}\n"))
}

fn tell(line: &str) -> Result<()> {
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
