//! Versions of kubelet and containerd, as far as their configuration depends on them.

/// A minor release of Kubernetes; kubelet's configuration never depends on patch or vendor suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KubeletVersion {
    /// Major version, always 1 so far.
    pub major: u32,
    /// Minor version, such as 36.
    pub minor: u32,
}

impl KubeletVersion {
    /// Parses `v1.36.0`, `1.36.3-eks-1234567` or kubelet's own `Kubernetes v1.36.3`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let version = text.split_whitespace().last()?;
        let mut numbers = version.strip_prefix('v').unwrap_or(version).split('.');
        let major = numbers.next()?.parse().ok()?;
        let minor = numbers.next()?.parse().ok()?;
        Some(Self { major, minor })
    }

    /// Reports whether this is Kubernetes 1.`minor` or later.
    #[must_use]
    pub fn at_least(self, minor: u32) -> bool {
        self >= Self { major: 1, minor }
    }
}

/// Version of containerd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerdVersion {
    /// Major version, 1 or 2 so far.
    pub major: u32,
    /// Minor version, such as 7.
    pub minor: u32,
}

impl ContainerdVersion {
    /// Parses `2.0.5`, `v1.7.27` or containerd's own `containerd github.com/containerd/containerd 1.7.27 COMMIT`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.split_whitespace().find_map(|word| {
            let mut numbers = word.strip_prefix('v').unwrap_or(word).split('.');
            let (major, minor) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
            Some(Self { major, minor })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubelet_version_parses_all_spellings() {
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

    #[test]
    fn containerd_version_parses_all_spellings() {
        for (text, expected) in [
            (
                "containerd github.com/containerd/containerd 1.7.27 05044ec0a9a75232cad458027ca83437aae3f4da\n",
                Some((1, 7)),
            ),
            (
                "containerd github.com/containerd/containerd/v2 v2.0.5 fb4c30d4ede3531652d86197bf3fc9515e5276d9",
                Some((2, 0)),
            ),
            ("2.1.4\n", Some((2, 1))),
            ("v2.2.0-rc.0", Some((2, 2))),
            ("", None),
            ("containerd", None),
        ] {
            let found = ContainerdVersion::parse(text).map(|version| (version.major, version.minor));
            assert_eq!(found, expected, "{text:?}");
        }
    }
}
