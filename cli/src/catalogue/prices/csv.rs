//! Incremental CSV parser for a download: quotes, doubled quotes, and commas and line ends inside quotes.

/// Splits bytes into records as they arrive.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    record: Vec<String>,
    field: Vec<u8>,
    quoted: bool,
    /// `true` if a quote inside quotes was read: the end of the quotes, or the first of two.
    quote: bool,
    /// `true` if a part of the current record was read.
    begun: bool,
}

impl Splitter {
    /// Parses the next piece, and calls `take` with every record that it completes.
    pub(super) fn feed<E>(&mut self, piece: &[u8], mut take: impl FnMut(&[String]) -> Result<(), E>) -> Result<(), E> {
        for byte in piece {
            if self.byte(*byte) {
                take(&self.record)?;
                self.record.clear();
                self.begun = false;
            }
        }
        Ok(())
    }

    /// Reports whether the bytes so far end at the end of a record.
    pub(super) fn is_at_rest(&self) -> bool {
        !self.begun
    }

    /// Parses one byte and returns true if a record is complete.
    fn byte(&mut self, byte: u8) -> bool {
        if self.quoted {
            match (byte, self.quote) {
                (b'"', false) => {
                    self.quote = true;
                    return false;
                }
                (b'"', true) => {
                    self.quote = false;
                    self.field.push(byte);
                    return false;
                }
                (_, false) => {
                    self.field.push(byte);
                    return false;
                }
                (_, true) => {
                    self.quote = false;
                    self.quoted = false;
                }
            }
        }
        match byte {
            b',' => self.end_field(),
            b'\n' if self.begun => {
                self.end_field();
                return true;
            }
            b'\n' | b'\r' => {}
            b'"' if self.field.is_empty() => {
                self.begun = true;
                self.quoted = true;
            }
            other => {
                self.begun = true;
                self.field.push(other);
            }
        }
        false
    }

    fn end_field(&mut self) {
        self.begun = true;
        let field = std::mem::take(&mut self.field);
        self.record.push(String::from_utf8_lossy(&field).into_owned());
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
    fn is_at_rest_returns_false_when_a_record_is_incomplete() {
        for text in ["a,b\nc", "a,b\n\"c", "a,b\nc,"] {
            assert!(!records(text, 3).1, "{text:?}");
        }
    }
}
