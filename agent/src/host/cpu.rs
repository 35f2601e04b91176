//! Number of CPUs that kubelet will detect. The count follows the kernel's topology as nodeadm does, because the reserved CPU
//! depends on it and the controller calculated with the same number.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Returns the number of online CPUs, from the kernel's folders of CPUs and NUMA nodes (`cpu` and `node` below
/// `/sys/devices/system`). Counts the CPUs of all online NUMA nodes, else every online `cpuN`, else the CPUs that this process
/// may use.
pub(super) fn count(cpu_folder: &Path, node_folder: &Path) -> u32 {
    let online = fs::read_to_string(cpu_folder.join("online")).ok().and_then(|list| parse(&list));
    let mut numa = BTreeSet::new();
    for node in numbered(node_folder, "node") {
        numa.extend(numbered(&node_folder.join(format!("node{node}")), "cpu"));
    }
    let cpus = if numa.is_empty() { numbered(cpu_folder, "cpu") } else { numa };
    let counted = cpus.iter().filter(|cpu| online.as_ref().is_none_or(|online| online.contains(cpu))).count();
    match u32::try_from(counted) {
        Ok(counted) if counted > 0 => counted,
        _ => std::thread::available_parallelism().map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX)),
    }
}

/// Returns the numbers N of entries `prefixN` in a folder.
fn numbered(folder: &Path, prefix: &str) -> BTreeSet<u32> {
    let Ok(entries) = fs::read_dir(folder) else { return BTreeSet::new() };
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix(prefix)?.parse::<u32>().ok();
    let mut numbers = BTreeSet::new();
    numbers.extend(entries.flatten().filter_map(number));
    numbers
}

/// Parses a kernel CPU list such as `0,2-4,6`.
fn parse(list: &str) -> Option<BTreeSet<u32>> {
    let mut cpus = BTreeSet::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        cpus.extend(first..=last.min(65_535));
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_reads_kernel_cpu_lists() {
        assert_eq!(parse("0,2-4,6\n"), Some([0, 2, 3, 4, 6].into()));
        assert_eq!(parse("0-95"), Some((0..96).collect()));
        assert_eq!(parse(""), None);
        assert_eq!(parse("a-b"), None);
    }
}
