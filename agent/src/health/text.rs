//! A small kernel file as text, read into the same buffer each time.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use crate::host::files::FileBackup;

/// Greatest number of bytes that are read, more than any of these files has.
const MOST: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct Text {
    file: FileBackup,
    buffer: Vec<u8>,
}

impl Text {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { file: FileBackup::new(path), buffer: Vec::new() }
    }

    /// Returns the current text; `None` where the file does not exist.
    pub(super) fn read(&mut self) -> Option<&str> {
        let length = self.file.read(|file| fill(file, &mut self.buffer))?;
        std::str::from_utf8(self.buffer.get(..length)?).ok()
    }
}

/// Reads to the end of the file, or up to the limit. Returns the length.
fn fill(file: &File, buffer: &mut Vec<u8>) -> Option<usize> {
    let mut length = 0;
    loop {
        if buffer.len() == length {
            buffer.resize((length + 4096).min(MOST), 0);
        }
        let free = buffer.get_mut(length..).filter(|free| !free.is_empty());
        match free.map(|free| file.read_at(free, length as u64)) {
            None | Some(Ok(0)) => return Some(length),
            Some(Ok(more)) => length += more,
            Some(Err(_)) => return None,
        }
    }
}
