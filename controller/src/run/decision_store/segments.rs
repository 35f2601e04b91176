//! Segments of a ring: lines of JSON, of which only the last segment still grows. Pure.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read as _, Write as _};

use api::decisions::storage::{LINES, NUMBER, Ring};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;

/// Maximum size of a segment before compression. A ConfigMap may have 1 MiB, and lines of JSON become much smaller.
const LARGEST: usize = 768 << 10;

/// Segments of one ring.
pub(super) struct Segments {
    ring: Ring,
    /// Number of the segment that grows.
    number: u64,
    /// Its lines that are written or in the next write.
    text: String,
    /// Number of bytes of `text` that are written.
    written: usize,
    /// Lines for this and later segments.
    waiting: VecDeque<String>,
}

impl Segments {
    pub(super) fn new(ring: Ring) -> Self {
        Self { ring, number: 0, text: String::new(), written: 0, waiting: VecDeque::new() }
    }

    /// Returns the names of all ConfigMaps of the ring.
    pub(super) fn names(&self) -> Vec<String> {
        self.ring.names().collect()
    }

    /// Continues the newest stored segment. If it cannot be read, the next segment begins.
    pub(super) fn restore(&mut self, found: &[ConfigMap]) {
        let number = |map: &ConfigMap| map.data.as_ref()?.get(NUMBER)?.parse::<u64>().ok();
        let Some((number, newest)) = found.iter().filter_map(|map| Some((number(map)?, map))).max_by_key(|it| it.0)
        else {
            return;
        };
        let lines = newest.binary_data.as_ref().and_then(|data| data.get(LINES));
        match lines.map(|bytes| decompress(&bytes.0)) {
            Some(Ok(text)) if text.ends_with('\n') => {
                (self.number, self.written, self.text) = (number, text.len(), text);
            }
            _ => {
                tracing::warn!(
                    segment = number as i64,
                    "cannot read the last decisions, continuing in another ConfigMap"
                );
                self.number = number + 1;
            }
        }
    }

    pub(super) fn add(&mut self, lines: impl Iterator<Item = String>) {
        self.waiting.extend(lines);
    }

    pub(super) fn has_changes(&self) -> bool {
        !self.waiting.is_empty() || self.written < self.text.len()
    }

    /// Returns the next ConfigMap to write, until nothing is left.
    pub(super) fn next_write(&mut self) -> io::Result<Option<ConfigMap>> {
        self.fill();
        if self.written == self.text.len() {
            return Ok(None);
        }
        Ok(Some(ConfigMap {
            metadata: ObjectMeta { name: Some(self.ring.name(self.number)), ..ObjectMeta::default() },
            data: Some(BTreeMap::from([(NUMBER.to_owned(), self.number.to_string())])),
            binary_data: Some(BTreeMap::from([(LINES.to_owned(), ByteString(compress(&self.text)?))])),
            ..ConfigMap::default()
        }))
    }

    /// Confirms the last write.
    pub(super) fn written(&mut self) {
        self.written = self.text.len();
    }

    /// Adds waiting lines to the growing segment. A full segment that is written gives way to the next one.
    fn fill(&mut self) {
        while let Some(line) = self.waiting.front() {
            let is_full = !self.text.is_empty() && self.text.len() + line.len() >= LARGEST;
            if is_full && self.written < self.text.len() {
                return;
            }
            if is_full {
                (self.number, self.written) = (self.number + 1, 0);
                self.text.clear();
            }
            self.text.extend(self.waiting.pop_front());
            self.text.push('\n');
        }
    }
}

fn compress(text: &str) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes())?;
    encoder.finish()
}

/// Returns the text of a segment, which is never larger than the limit.
fn decompress(bytes: &[u8]) -> io::Result<String> {
    let mut text = String::new();
    GzDecoder::new(bytes).take(LARGEST as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use api::decisions::storage::Ring;
    use k8s_openapi::ByteString;
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::{LARGEST, LINES, NUMBER, Segments, decompress};

    const RING: Ring = Ring { prefix: "ring", size: 3 };

    fn write_all(segments: &mut Segments) -> Vec<ConfigMap> {
        let mut maps = Vec::new();
        while let Some(map) = segments.next_write().unwrap() {
            segments.written();
            maps.push(map);
        }
        maps
    }

    fn content(map: &ConfigMap) -> (String, String, String) {
        let lines = &map.binary_data.as_ref().unwrap()[LINES];
        (map.metadata.name.clone().unwrap(), map.data.as_ref().unwrap()[NUMBER].clone(), decompress(&lines.0).unwrap())
    }

    fn lines(all: &[&str]) -> std::vec::IntoIter<String> {
        all.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>().into_iter()
    }

    #[test]
    fn a_restarted_process_continues_the_last_segment() {
        let mut first = Segments::new(RING);
        first.add(lines(&["one"]));
        let stored = write_all(&mut first);
        assert!(!first.has_changes());
        let mut second = Segments::new(RING);
        second.add(lines(&["two"]));
        second.restore(&stored);
        let maps: Vec<_> = write_all(&mut second).iter().map(content).collect();
        assert_eq!(maps, [("ring-0".to_owned(), "0".to_owned(), "one\ntwo\n".to_owned())]);
    }

    #[test]
    fn a_full_segment_is_followed_by_the_next_and_the_oldest_is_replaced() {
        let mut segments = Segments::new(RING);
        let large: Vec<String> = (0..4).map(|number| number.to_string().repeat(LARGEST / 2 + 1)).collect();
        segments.add(large.clone().into_iter());
        let maps: Vec<_> = write_all(&mut segments).iter().map(content).collect();
        let written: Vec<(&str, &str, &str)> =
            maps.iter().map(|(name, number, text)| (name.as_str(), number.as_str(), text.trim_end())).collect();
        let names = [("ring-0", "0"), ("ring-1", "1"), ("ring-2", "2"), ("ring-0", "3")];
        let expected: Vec<_> =
            names.into_iter().zip(&large).map(|((name, number), line)| (name, number, line.as_str())).collect();
        assert_eq!(written, expected);
    }

    #[test]
    fn a_failed_write_is_repeated_with_the_lines_since() {
        let mut segments = Segments::new(RING);
        segments.add(lines(&["one"]));
        assert!(segments.next_write().unwrap().is_some());
        segments.add(lines(&["two"]));
        assert!(segments.has_changes());
        let maps: Vec<_> = write_all(&mut segments).iter().map(|map| content(map).2).collect();
        assert_eq!(maps, ["one\ntwo\n"]);
    }

    #[test]
    fn an_unreadable_segment_is_kept() {
        let mut first = Segments::new(RING);
        first.add(lines(&["one"]));
        let mut stored = write_all(&mut first);
        let data = stored[0].binary_data.as_mut().unwrap();
        data.insert(LINES.to_owned(), ByteString(b"not gzip".to_vec()));
        let mut second = Segments::new(RING);
        second.restore(&stored);
        second.add(lines(&["two"]));
        let maps: Vec<_> = write_all(&mut second).iter().map(content).collect();
        assert_eq!(maps, [("ring-1".to_owned(), "1".to_owned(), "two\n".to_owned())]);
    }
}
