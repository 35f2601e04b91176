//! Parsers for cgroup files and `/proc`. Every parser is total: invalid text is `None`. A last line without its end may be a
//! truncated number, so it counts as absent. `procfs` opens and reads the files itself, while the sampler reuses open files and
//! one buffer.

/// Nanoseconds of a tick of `/proc/stat`; the kernel guarantees user space 100 per second.
const TICK: u64 = 10_000_000;

/// Returns the complete lines.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let end = text.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
    text[..end].split(|byte| *byte == b'\n')
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty())
}

fn decimal(word: &[u8]) -> Option<u64> {
    let mut number: u64 = 0;
    for digit in word {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number = number.checked_mul(10)?.checked_add(digit.into())?;
    }
    (!word.is_empty()).then_some(number)
}

/// Parses a file of one number.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    decimal(words(lines(text).next()?).next()?)
}

/// Returns the number after `key` in a file of `key value` lines.
pub(super) fn keyed(text: &[u8], key: &str) -> Option<u64> {
    let found = lines(text).find(|line| words(line).next() == Some(key.as_bytes()))?;
    words(found).nth(1).and_then(decimal)
}

/// Microseconds in which processes were stalled: some of them, and all of them. Older kernels have no `full` line for CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stall {
    pub(super) some: Option<u64>,
    pub(super) full: Option<u64>,
}

/// Parses a pressure file.
pub(super) fn stall(text: &[u8]) -> Stall {
    let total = |kind: &str| {
        let line = lines(text).find(|line| words(line).next() == Some(kind.as_bytes()))?;
        words(line).find_map(|word| word.strip_prefix(b"total=")).and_then(decimal)
    };
    Stall { some: total("some"), full: total("full") }
}

/// Memory of the machine in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) total: u64,
    pub(super) working_set: u64,
}

/// Parses `/proc/meminfo`.
pub(super) fn memory(text: &[u8]) -> Option<Memory> {
    let bytes = |key| keyed(text, key).map(|kib| kib.saturating_mul(1024));
    let (total, free) = (bytes("MemTotal:")?, bytes("MemFree:")?);
    let inactive = bytes("Inactive(file):").unwrap_or(0);
    Some(Memory { total, working_set: total.saturating_sub(free).saturating_sub(inactive) })
}

/// Returns the busy time of all CPUs in nanoseconds, from `/proc/stat`.
pub(super) fn busy(text: &[u8]) -> Option<u64> {
    let mut words = words(lines(text).find(|line| line.starts_with(b"cpu "))?).skip(1).map(decimal);
    let mut next = || words.next().flatten();
    let (user, nice, system, _idle, _iowait) = (next()?, next()?, next()?, next()?, next()?);
    let (irq, softirq) = (next().unwrap_or(0), next().unwrap_or(0));
    let ticks = [user, nice, system, irq, softirq].into_iter().fold(0, u64::saturating_add);
    ticks.checked_mul(TICK)
}

/// Returns the soft limit of open files in `/proc/self/limits`.
pub(super) fn open_files(text: &[u8]) -> Option<u64> {
    let line = lines(text).find_map(|line| line.strip_prefix(b"Max open files"))?;
    words(line).next().and_then(decimal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_and_keyed_return_none_when_text_is_truncated() {
        assert_eq!(number(b"1234\n"), Some(1234));
        for text in ["", "\n", "1234", "max\n", "-1\n", "12x\n", "99999999999999999999\n", "\u{0}\n"] {
            assert_eq!(number(text.as_bytes()), None, "{text:?}");
        }
        let stat = b"anon 5\ninactive_file 77\nactive_file 1";
        assert_eq!([keyed(stat, "anon"), keyed(stat, "inactive_file")], [Some(5), Some(77)]);
        assert_eq!([keyed(stat, "active_file"), keyed(stat, "file"), keyed(b"anon\n", "anon")], [None; 3]);
    }

    #[test]
    fn stall_parses_pressure_with_and_without_full() {
        let whole =
            b"some avg10=0.00 avg60=1.50 avg300=0.20 total=123\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=45\n";
        assert_eq!(stall(whole), Stall { some: Some(123), full: Some(45) });
        assert_eq!(stall(b"some avg10=0.00 total=9\n"), Stall { some: Some(9), full: None });
        assert_eq!(stall(b"some total=\nfull total=x\n"), Stall::default());
    }

    #[test]
    fn memory_busy_and_open_files_parse_proc_files() {
        let meminfo = b"MemTotal:  1000 kB\nMemFree:  300 kB\nInactive(file):  100 kB\n";
        assert_eq!(memory(meminfo), Some(Memory { total: 1_024_000, working_set: 614_400 }));
        assert_eq!(memory(b"MemTotal: 10 kB\nMemFree: 30 kB\n"), Some(Memory { total: 10_240, working_set: 0 }));
        assert_eq!(memory(b"MemTotal: 10 kB\n"), None);
        assert_eq!(busy(b"cpu  10 1 4 900 50 2 3 7 0 0\ncpu0 1\n"), Some(20 * TICK));
        assert_eq!(busy(b"cpu0 10 1 4 900 50\n"), None);
        let limits = b"Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 524288               files\n";
        assert_eq!(open_files(limits), Some(1024));
    }
}
