//! A small file of the kernel's that is read again and again: opened once, read into the same memory.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

/// More than any of these files has; what is beyond is left out.
const MOST: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct Kept {
    path: PathBuf,
    file: Option<File>,
    buffer: Vec<u8>,
}

impl Kept {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, file: None, buffer: Vec::new() }
    }

    /// The text as it is now; `None` where there is no such file.
    pub(super) fn read(&mut self) -> Option<&str> {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let file = self.file.as_ref()?;
        let mut length = 0;
        loop {
            if self.buffer.len() == length {
                self.buffer.resize((length + 4096).min(MOST), 0);
            }
            let free = self.buffer.get_mut(length..).filter(|free| !free.is_empty());
            match free.map(|free| file.read_at(free, length as u64)) {
                None | Some(Ok(0)) => break,
                Some(Ok(more)) => length += more,
                Some(Err(_)) => {
                    self.file = None;
                    return None;
                }
            }
        }
        std::str::from_utf8(self.buffer.get(..length)?).ok()
    }
}
