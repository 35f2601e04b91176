//! Files that are read again and again: opened once and read from their beginning each time, into one buffer for all.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use super::parse;

/// `/proc/vmstat` is the longest, with 5 KiB.
const BUFFER: usize = 16 * 1024;
/// Open files that are the rest of the agent's: connections, the journal, programs that it runs.
const OTHERS: usize = 256;
/// Where nobody says how many there may be.
const USUAL: u64 = 1024;

/// A file that may be there.
#[derive(Debug)]
pub(super) struct Kept {
    path: PathBuf,
    file: Option<File>,
}

impl Kept {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, file: None }
    }

    /// What it holds now; `None` when it cannot be read. A cgroup that was made anew is found again by its path.
    pub(super) fn read<'a>(&mut self, reader: &'a mut Reader) -> Option<&'a [u8]> {
        let kept = self.file.take().and_then(|file| Some((reader.fill(&file)?, file)));
        let (length, file) = kept.or_else(|| {
            let file = File::open(&self.path).ok()?;
            Some((reader.fill(&file)?, file))
        })?;
        if reader.open < reader.most {
            reader.open += 1;
            self.file = Some(file);
        }
        Some(&reader.buffer[..length])
    }
}

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

    fn fill(&mut self, file: &File) -> Option<usize> {
        file.read_at(&mut self.buffer, 0).ok()
    }
}
