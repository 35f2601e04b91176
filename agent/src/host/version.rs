//! kubelet's version, as far as its configuration depends on it.

/// A minor release of Kubernetes; patch and vendor suffix never matter to kubelet's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KubeletVersion {
    /// Always 1 so far.
    pub major: u32,
    /// Such as 36.
    pub minor: u32,
}

impl KubeletVersion {
    /// Reads `v1.36.0`, `1.36.3-eks-1234567` or kubelet's own `Kubernetes v1.36.3`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let version = text.split_whitespace().last()?;
        let mut numbers = version.strip_prefix('v').unwrap_or(version).split('.');
        let major = numbers.next()?.parse().ok()?;
        let minor = numbers.next()?.parse().ok()?;
        Some(Self { major, minor })
    }

    /// Whether this is Kubernetes 1.`minor` or later.
    #[must_use]
    pub fn at_least(self, minor: u32) -> bool {
        self >= Self { major: 1, minor }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        for (text, expected) in [
            ("v1.36.0\n", Some((1, 36))),
            ("1.27.16", Some((1, 27))),
            ("Kubernetes v1.35.0-eks-1234567\n", Some((1, 35))),
            ("v2.0.0", Some((2, 0))),
            ("", None),
            ("unknown", None),
        ] {
            let found = KubeletVersion::parse(text).map(|version| (version.major, version.minor));
            assert_eq!(found, expected, "{text:?}");
        }
        assert!(KubeletVersion { major: 1, minor: 34 }.at_least(34));
        assert!(!KubeletVersion { major: 1, minor: 33 }.at_least(34));
    }
}
