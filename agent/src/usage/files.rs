//! Reader of kernel files: from their beginning each time, into one shared buffer, with a limit on the number of open files.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;

use super::parse;
use crate::host::files::FileBackup;

/// Size of the buffer. `/proc/vmstat` is the longest file, with 5 KiB.
const BUFFER: usize = 16 * 1024;
/// Open files reserved for the rest of the agent: connections, the journal, child processes.
const OTHERS: usize = 256;
/// Assumed limit of open files where the limit cannot be read.
const USUAL: u64 = 1024;

/// The buffer, with the number of open files.
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

    /// Starts a round of reads. Files are counted anew in each round, so that files of deleted pods are no longer counted.
    pub(super) fn begin(&mut self) {
        self.open = 0;
    }

    /// Returns the content of the file; `None` when it cannot be read.
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
