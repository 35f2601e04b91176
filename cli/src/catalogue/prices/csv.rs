//! Incremental CSV parser for a download: csv-core's state machine, fed with each piece as it arrives. The crate `csv` pulls its
//! input instead, and does not report a file that ends in the middle of a record.

use csv_core::{ReadRecordResult, Reader};

/// Splits bytes into records as they arrive.
pub(super) struct Splitter {
    reader: Reader,
    /// Text of the current record, of which `text_length` bytes are known.
    text: Vec<u8>,
    text_length: usize,
    /// Ends of the fields in the text, of which `fields` are known.
    ends: Vec<usize>,
    fields: usize,
    is_at_rest: bool,
}

impl Default for Splitter {
    fn default() -> Self {
        Self { reader: Reader::new(), text: Vec::new(), text_length: 0, ends: Vec::new(), fields: 0, is_at_rest: true }
    }
}

impl Splitter {
    /// Parses the next piece, and calls `take` with every record that it completes.
    pub(super) fn feed<E>(
        &mut self,
        mut piece: &[u8],
        mut take: impl FnMut(&[String]) -> Result<(), E>,
    ) -> Result<(), E> {
        // csv-core reads an empty piece as the end of the file.
        while !piece.is_empty() {
            // No byte of a piece adds more than one byte and one field, so neither buffer can be full.
            self.text.resize(self.text_length + piece.len(), 0);
            self.ends.resize(self.fields + piece.len(), 0);
            let (text, ends) = (&mut self.text[self.text_length..], &mut self.ends[self.fields..]);
            let (result, read, written, ended) = self.reader.read_record(piece, text, ends);
            self.text_length += written;
            self.fields += ended;
            let (parsed, rest) = piece.split_at(read);
            // Line ends between two records are part of neither.
            self.is_at_rest &= parsed.iter().all(|byte| matches!(byte, b'\r' | b'\n'));
            piece = rest;
            if matches!(result, ReadRecordResult::Record) {
                take(&self.record())?;
                (self.text_length, self.fields, self.is_at_rest) = (0, 0, true);
            }
        }
        Ok(())
    }

    /// Returns the size of the record that is not complete yet, in bytes.
    pub(super) fn incomplete(&self) -> usize {
        self.text_length
    }

    /// Reports whether the bytes so far end at the end of a record.
    pub(super) fn is_at_rest(&self) -> bool {
        self.is_at_rest
    }

    fn record(&self) -> Vec<String> {
        let mut start = 0;
        let field = |end: &usize| {
            let field = String::from_utf8_lossy(&self.text[start..*end]).into_owned();
            start = *end;
            field
        };
        self.ends[..self.fields].iter().map(field).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(text: &str, piece: usize) -> (Vec<Vec<String>>, bool) {
        let mut splitter = Splitter::default();
        let mut found = Vec::new();
        for piece in text.as_bytes().chunks(piece) {
            let taken: Result<(), ()> = splitter.feed(piece, |record| {
                found.push(record.to_vec());
                Ok(())
            });
            taken.unwrap();
        }
        (found, splitter.is_at_rest())
    }

    #[test]
    fn feed_returns_the_same_records_for_any_piece_size() {
        let text = "a,b,c\r\n\"x, y\",\"say \"\"hi\"\"\",\"two\nlines\"\n,,\n\n\"\",é,z\n";
        let expected =
            [vec!["a", "b", "c"], vec!["x, y", "say \"hi\"", "two\nlines"], vec!["", "", ""], vec!["", "é", "z"]];
        for piece in 1..=text.len() {
            let (found, at_rest) = records(text, piece);
            assert_eq!(found, expected, "pieces of {piece}");
            assert!(at_rest);
        }
    }

    #[test]
    fn incomplete_counts_the_bytes_of_an_open_record() {
        let mut splitter = Splitter::default();
        let feed = |splitter: &mut Splitter, text: &str| splitter.feed(text.as_bytes(), |_| Ok::<(), ()>(())).unwrap();
        feed(&mut splitter, "a,b\n\"open");
        assert_eq!(splitter.incomplete(), 4);
        feed(&mut splitter, &"x".repeat(100));
        assert_eq!(splitter.incomplete(), 104);
        feed(&mut splitter, "\"\n");
        assert_eq!(splitter.incomplete(), 0);
    }

    #[test]
    fn is_at_rest_returns_false_when_a_record_is_incomplete() {
        for text in ["a,b\nc", "a,b\n\"c", "a,b\nc,", "a,b\n\"", "a,b\n\"c\n"] {
            assert!(!records(text, 3).1, "{text:?}");
        }
    }
}
