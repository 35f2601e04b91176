//! Image families, and the aliases of AWS's own images.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Image family, which defines how an instance receives the settings to join the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum AmiFamily {
    /// Amazon Linux 2: a shell script.
    #[serde(rename = "AL2")]
    Al2,
    /// Amazon Linux 2023: a NodeConfig document.
    #[serde(rename = "AL2023")]
    Al2023,
    /// Bottlerocket: TOML settings.
    Bottlerocket,
    /// Custom images: the user data as it is.
    Custom,
    /// Windows Server 2019: PowerShell.
    Windows2019,
    /// Windows Server 2022: PowerShell.
    Windows2022,
    /// Windows Server 2025: PowerShell.
    Windows2025,
}

impl AmiFamily {
    /// Families that an alias can name, with their spelling in aliases.
    pub const ALIASES: [(&'static str, Self); 6] = [
        ("al2", Self::Al2),
        ("al2023", Self::Al2023),
        ("bottlerocket", Self::Bottlerocket),
        ("windows2019", Self::Windows2019),
        ("windows2022", Self::Windows2022),
        ("windows2025", Self::Windows2025),
    ];

    /// Returns the family's name in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Al2 => "AL2",
            Self::Al2023 => "AL2023",
            Self::Bottlerocket => "Bottlerocket",
            Self::Custom => "Custom",
            Self::Windows2019 => "Windows2019",
            Self::Windows2022 => "Windows2022",
            Self::Windows2025 => "Windows2025",
        }
    }

    /// Reports whether the family runs Windows.
    #[must_use]
    pub const fn is_windows(self) -> bool {
        matches!(self, Self::Windows2019 | Self::Windows2022 | Self::Windows2025)
    }
}

/// Alias of images: `family@version`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// Image family.
    pub family: AmiFamily,
    /// Version: `latest`, or a release in the family's own spelling.
    pub version: String,
}

impl Alias {
    /// Version of the newest release.
    pub const LATEST: &'static str = "latest";

    /// Parses `family@version`. Returns `None` for unknown families and texts without `@`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (family, version) = text.split_once('@')?;
        let (_, family) = AmiFamily::ALIASES.into_iter().find(|(name, _)| *name == family)?;
        (!version.is_empty()).then(|| Self { family, version: version.to_owned() })
    }
}
