//! Label values that nodes choose: condition types and reasons. A node may write any number of them, and Prometheus keeps each
//! series, so only a bounded number of well-formed names becomes labels.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;

/// Label value of names beyond the bound.
const OTHER: &str = "other";
/// Maximum number of names in a group: more than kubelet, the agent and EKS's node monitoring agent have for one condition.
const LIMIT: usize = 32;
/// Maximum length of a name.
const LONGEST: usize = 64;

/// Names that became labels, by group. The first names of a group are kept.
#[derive(Debug, Default)]
pub struct BoundedNames(Mutex<BTreeMap<String, BTreeSet<String>>>);

impl BoundedNames {
    /// Returns the name as a label of the group, or `other`.
    pub fn label<'n>(&self, group: &str, name: &'n str) -> &'n str {
        if name.is_empty() {
            return name;
        }
        let mut groups = self.0.lock();
        if let Some(known) = groups.get(group) {
            if known.contains(name) {
                return name;
            }
            if known.len() >= LIMIT {
                return OTHER;
            }
        }
        if !is_well_formed(name) {
            return OTHER;
        }
        // Groups are names of this type themselves.
        groups.entry(group.to_owned()).or_default().insert(name.to_owned());
        name
    }
}

fn is_well_formed(name: &str) -> bool {
    name.len() <= LONGEST && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"./-_,".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::{BoundedNames, LIMIT};

    #[test]
    fn label_is_other_beyond_the_limit_of_a_group() {
        let names = BoundedNames::default();
        let labels: Vec<String> = (0..100).map(|number| format!("Reason{number}")).collect();
        let kept = labels.iter().filter(|name| names.label("Ready", name) == **name).count();
        assert_eq!(kept, LIMIT);
        assert_eq!(names.label("Ready", "Reason0"), "Reason0", "a known name stays");
        assert_eq!(names.label("DiskPressure", "Reason99"), "Reason99", "each group has its own limit");
    }

    #[test]
    fn label_is_other_for_malformed_names() {
        let names = BoundedNames::default();
        assert_eq!(names.label("Ready", &"x".repeat(65)), "other");
        assert_eq!(names.label("Ready", "a \"quoted\" name"), "other");
        assert_eq!(names.label("Ready", ""), "");
        assert_eq!(names.label("", "kerf.sh/Ready"), "kerf.sh/Ready");
    }
}
