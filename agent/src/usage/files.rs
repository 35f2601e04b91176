//! How files are read here: from their beginning each time, into one buffer for all, and no more of them kept open than may be.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;

use super::parse;
use crate::files::FileBackup;

/// `/proc/vmstat` is the longest, with 5 KiB.
const BUFFER: usize = 16 * 1024;
/// Open files that are the rest of the agent's: connections, the journal, programs that it runs.
const OTHERS: usize = 256;
/// Where nobody says how many there may be.
const USUAL: u64 = 1024;

/// The buffer, and how many files are kept open.
#[derive(Debug)]
pub(super) struct Reader {
    buffer: Vec<u8>,
    open: usize,
    most: usize,
}

impl Reader {
    pub(super) fn new() -> Self {
        let mut limits = Vec::new();
        let read = File::open("/proc/self/limits").and_then(|mut file| file.read_to_end(&mut limits));
        let soft = read.ok().and_then(|_| parse::open_files(&limits)).unwrap_or(USUAL);
        let most = usize::try_from(soft).unwrap_or(usize::MAX).saturating_sub(OTHERS);
        Self { buffer: vec![0; BUFFER], open: 0, most }
    }

    /// A round of reading begins: files are counted anew as they are read, so that those of pods that went are not.
    pub(super) fn begin(&mut self) {
        self.open = 0;
    }

    /// What the file holds now; `None` when it cannot be read.
    pub(super) fn read(&mut self, kept: &mut FileBackup) -> Option<&[u8]> {
        let length = kept.read(|file| file.read_at(&mut self.buffer, 0).ok())?;
        if self.open < self.most {
            self.open += 1;
        } else {
            kept.close();
        }
        self.buffer.get(..length)
    }
}
