//! One source of a NodeConfig: user data, a file, or a folder of files.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context as _;
use machine::nodeconfig::NodeConfig;
use machine::userdata::{self, UserDataError};

use super::Machine;

const USER_DATA: &str = "imds://user-data";
const FILE: &str = "file://";

/// Ends of the names of files that are read in a folder.
const ENDS: [&str; 3] = [".yaml", ".yml", ".json"];

/// Source of a NodeConfig, written as a URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// `imds://user-data`: the instance's user data.
    UserData,
    /// `file://PATH`: a file with content as user data may have it, or a folder whose `.yaml`, `.yml` and `.json` files are read in
    /// order of their names. An absolute path is resolved below the machine's root, another one from the working folder.
    Path(PathBuf),
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == USER_DATA {
            return Ok(Self::UserData);
        }
        match text.strip_prefix(FILE) {
            Some(path) if !path.is_empty() => Ok(Self::Path(PathBuf::from(path))),
            _ => Err(format!("write {USER_DATA}, or {FILE} and the path of a file or folder")),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UserData => formatter.write_str(USER_DATA),
            Self::Path(path) => write!(formatter, "{FILE}{}", path.display()),
        }
    }
}

/// Content of a source.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceContent {
    /// One or several NodeConfigs, merged in order.
    Config {
        /// The merged NodeConfig.
        config: Box<NodeConfig>,
        /// Ignored input, one sentence each.
        warnings: Vec<String>,
    },
    /// No NodeConfig, with the reason; other sources or the cache may have one.
    Nothing(String),
}

impl Source {
    /// Reads the source.
    ///
    /// # Errors
    /// The source is unusable, as opposed to empty. IMDS does not respond, a path does not exist, a file is no NodeConfig, or
    /// compressed user data is damaged.
    pub async fn read(&self, machine: &Machine) -> anyhow::Result<SourceContent> {
        let found = match self {
            Self::UserData => from_user_data(machine).await,
            Self::Path(path) => from_path(&machine.host.locate(path)),
        };
        found.with_context(|| format!("cannot use {self}"))
    }
}

async fn from_user_data(machine: &Machine) -> anyhow::Result<SourceContent> {
    let Some(raw) = machine.metadata().user_data().await? else {
        return Ok(SourceContent::Nothing("the instance has no user data".to_owned()));
    };
    match userdata::parse(&raw) {
        Ok(user_data) => Ok(SourceContent::Config { config: Box::new(user_data.config), warnings: user_data.warnings }),
        Err(error) if may_be_for_others(&error) => Ok(SourceContent::Nothing(daemon::error::chain(&error))),
        Err(error) => Err(error.into()),
    }
}

/// Reports whether user data may simply be meant for another program (a shell script, cloud-init's own), rather than damaged.
fn may_be_for_others(error: &UserDataError) -> bool {
    match error {
        UserDataError::Empty
        | UserDataError::NotText { .. }
        | UserDataError::Document { .. }
        | UserDataError::NoNodeConfig { .. } => true,
        UserDataError::Gzip { .. } | UserDataError::TooLarge { .. } | UserDataError::Mime(_) => false,
    }
}

fn from_path(path: &Path) -> anyhow::Result<SourceContent> {
    if !path.is_dir() {
        return from_files(&[path.to_owned()]);
    }
    let files = documents(path)?;
    if files.is_empty() {
        return Ok(SourceContent::Nothing(format!("{} holds no .yaml, .yml or .json file", path.display())));
    }
    from_files(&files)
}

/// Returns the documents of a folder, in order of their names. Files of another kind are skipped.
fn documents(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if is_document(&path) && path.is_file() {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Reports whether the name ends as that of a document, in any case. As nodeadm, hidden files count.
fn is_document(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    ENDS.iter().any(|end| name.ends_with(end))
}

fn from_files(files: &[PathBuf]) -> anyhow::Result<SourceContent> {
    let mut sum = NodeConfig::new();
    let mut all = Vec::new();
    for file in files {
        let name = file.display();
        let content = std::fs::read(file).with_context(|| format!("cannot read {name}"))?;
        let parsed = userdata::parse(&content).with_context(|| format!("{name} is not a NodeConfig"))?;
        let of_file = |warning: &String| format!("{name}: {}", warning.strip_prefix("user data: ").unwrap_or(warning));
        all.extend(parsed.warnings.iter().map(of_file));
        sum.merge(parsed.config);
    }
    Ok(SourceContent::Config { config: Box::new(sum), warnings: all })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_from_str_parses_supported_uris() {
        for text in ["imds://user-data", "file:///etc/eks/nodeadm.d/", "file://config.yaml"] {
            assert_eq!(text.parse::<Source>().map(|source| source.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "file://", "imds://meta-data", "https://example.com/config.yaml", "/etc/eks/config.yaml"] {
            assert!(text.parse::<Source>().is_err(), "{text}");
        }
    }

    #[test]
    fn is_document_accepts_yaml_and_json_files() {
        for (name, expected) in [
            ("a.yaml", true),
            ("a.YAML", true),
            ("a.yml", true),
            ("a.Json", true),
            ("a.b.json", true),
            (".yaml", true),
            (".a.yaml", true),
            ("a.yaml~", false),
            ("a.toml", false),
            ("yaml", false),
            ("a.", false),
        ] {
            assert_eq!(is_document(&Path::new("/folder").join(name)), expected, "{name}");
        }
    }
}
