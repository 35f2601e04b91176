//! Kernel messages. The kernel's ring buffer survives the agent: a restart reads it from the beginning and reaches the same
//! verdicts, because records have their time since boot.
//!
//! A crate such as `rmesg` would only replace the parser of the few numbers before the text of a record.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use drain::Millis;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc::{S_IFCHR, S_IFMT};
use nix::sys::stat::{fstat, major, minor};

use super::{Incident, patterns};

/// Greatest length of a record, in bytes.
const RECORD: usize = 8192;
/// Greatest number of records per check; the next check reads the rest.
const MOST: usize = 2000;
/// Facility of messages of the kernel itself; programs that write to the log have others.
const KERNEL: u32 = 0;

/// Reader of the kernel's log.
#[derive(Debug)]
pub(super) struct Kmsg {
    path: PathBuf,
    file: Option<File>,
    boot: Option<Millis>,
    /// Start of a record whose end was not available yet; only in files that are no device.
    rest: Vec<u8>,
}

impl Kmsg {
    pub(super) fn new(root: &Path) -> Self {
        Self { path: root.join("dev/kmsg"), file: None, boot: boot(root), rest: Vec::new() }
    }

    /// Returns the incidents since the last check. An unreadable log counts as empty.
    pub(super) fn read(&mut self) -> Vec<Incident> {
        let mut incidents = Vec::new();
        let mut buffer = [0; RECORD];
        for _ in 0..MOST {
            match self.next(&mut buffer) {
                Ok(0) => break,
                Ok(length) => self.rest.extend_from_slice(buffer.get(..length).unwrap_or_default()),
                // The kernel has overwritten records before they were read.
                Err(error) if error.raw_os_error() == Some(nix::errno::Errno::EPIPE as i32) => continue,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break,
            }
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                incidents.extend(incident(&String::from_utf8_lossy(&line), self.boot.unwrap_or_default()));
            }
        }
        incidents
    }

    fn next(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.file.is_none() {
            self.file = handed_over(&self.path);
        }
        if self.file.is_none() {
            let mut options = OpenOptions::new();
            self.file = Some(options.read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&self.path)?);
        }
        self.file.as_mut().map_or(Ok(0), |file| file.read(buffer))
    }
}

/// Returns the kernel's log on standard input, where systemd opens it for a unit that may open no device itself.
fn handed_over(path: &Path) -> Option<File> {
    let input = std::io::stdin();
    let found = fstat(&input).ok()?;
    let is_kmsg = (major(found.st_rdev), minor(found.st_rdev)) == (1, 11) && found.st_mode & S_IFMT == S_IFCHR;
    if !is_kmsg || path != Path::new("/dev/kmsg") {
        return None;
    }
    fcntl(&input, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).ok()?;
    input.as_fd().try_clone_to_owned().ok().map(File::from)
}

/// Returns the time of the boot.
fn boot(root: &Path) -> Option<Millis> {
    let text = std::fs::read_to_string(root.join("proc/stat")).ok()?;
    let seconds: u64 = text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(Millis(seconds * 1000))
}

/// Parses `PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;TEXT`, where the priority contains the facility. Records of programs are ignored.
fn incident(line: &str, boot: Millis) -> Option<Incident> {
    let (head, text) = line.trim_end().split_once(';')?;
    let mut fields = head.split(',');
    let priority: u32 = fields.next()?.parse().ok()?;
    let micros: u64 = fields.nth(1)?.parse().ok()?;
    if priority >> 3 != KERNEL {
        return None;
    }
    let (check, quota) = patterns::classify(text)?;
    let text = text.chars().take(200).collect();
    Some(Incident { check, quota, at: boot + Duration::from_micros(micros), text })
}
