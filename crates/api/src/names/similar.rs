//! Similar names, for hints about typing mistakes.

/// Maximum number of edits between similar names.
const MOST_EDITS: usize = 2;

/// Returns the known name that is similar to this one (an edit distance of at most 2), if there is one. Letter case does not
/// matter.
#[must_use]
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let near = known.iter().map(|known| (distance(&name.to_lowercase(), &known.to_lowercase()), *known));
    near.min().filter(|(distance, _)| *distance <= MOST_EDITS).map(|(_, known)| known)
}

/// Returns the edit distance: the number of insertions, deletions and substitutions that change one name into the other.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (i, left) in one.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, right) in other.chars().enumerate() {
            let changed = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_names_within_two_edits() {
        let known = ["maxPods", "clusterDNS", "podsPerCore"];
        let rows = [("maxpods", Some("maxPods")), ("maxPod", Some("maxPods")), ("clusterDns", Some("clusterDNS"))];
        for (name, expected) in rows.into_iter().chain([("pods", None), ("", None)]) {
            assert_eq!(nearest(name, &known), expected, "{name}");
        }
        assert_eq!(nearest("x", &[]), None);
    }
}
