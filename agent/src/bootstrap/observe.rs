//! Facts that the bootstrap of another program left on this machine: EKS's nodeadm, or Bottlerocket. The agent reads its files
//! for kubeconfig and node name, and never writes them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Paths of kubeconfigs: that of nodeadm and of our own bootstrap, then that of Bottlerocket.
const KUBECONFIGS: [&str; 2] = ["var/lib/kubelet/kubeconfig", "etc/kubernetes/kubelet/kubeconfig"];
/// Paths of kubelet's command line: that of nodeadm, then the two of Bottlerocket.
const COMMAND_LINES: [&str; 3] = [
    "etc/eks/kubelet/environment",
    "etc/kubernetes/kubelet/env",
    "etc/systemd/system/kubelet.service.d/exec-start.conf",
];
const FLAG: &str = "--hostname-override";
const VARIABLE: &str = "HOSTNAME_OVERRIDE=";
/// Cache of nodeadm.
const CACHE: &str = "run/eks/nodeadm/config.json";
/// Units of nodeadm, and below them the folders where systemd finds enabled units.
const UNITS: [&str; 2] = ["nodeadm-run.service", "nodeadm-config.service"];
const UNIT_FOLDERS: [&str; 2] = ["etc/systemd/system", "usr/lib/systemd/system"];

/// Another program that configures a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Configurator {
    /// EKS's nodeadm: one of its units is enabled and not masked.
    Nodeadm,
    /// Bottlerocket, by its os-release.
    Bottlerocket,
}

impl Configurator {
    /// Returns the name for users.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nodeadm => "nodeadm",
            Self::Bottlerocket => "Bottlerocket",
        }
    }

    /// Returns a hint on where to read the program's progress.
    #[must_use]
    pub fn hint(self) -> &'static str {
        match self {
            Self::Nodeadm => "see `journalctl -u nodeadm-config -u nodeadm-run`",
            Self::Bottlerocket => "see `apiclient get settings.kubernetes` and `journalctl -u settings-applier`",
        }
    }
}

/// Returns the other program that configures the machine below `root`; `None` where there is none.
#[must_use]
pub fn other(root: &Path) -> Option<Configurator> {
    if is_bottlerocket(root) {
        return Some(Configurator::Bottlerocket);
    }
    UNITS.iter().any(|unit| is_enabled(root, unit)).then_some(Configurator::Nodeadm)
}

/// Returns the path of kubelet's kubeconfig below `root`, or the path where it will be written.
#[must_use]
pub fn kubeconfig(root: &Path) -> PathBuf {
    let there = KUBECONFIGS.iter().map(|path| root.join(path)).find(|path| path.exists());
    there.unwrap_or_else(|| root.join(KUBECONFIGS[usize::from(is_bottlerocket(root))]))
}

/// Returns the name that kubelet registers, from its command line, else from nodeadm's cache; `None` before either is written.
#[must_use]
pub fn node_name(root: &Path) -> Option<String> {
    let texts = COMMAND_LINES.iter().filter_map(|path| fs::read_to_string(root.join(path)).ok());
    texts.into_iter().find_map(|text| in_command_line(&text)).or_else(|| in_cache(root))
}

pub(crate) fn is_bottlerocket(root: &Path) -> bool {
    let text = fs::read_to_string(root.join("etc/os-release")).unwrap_or_default();
    text.lines().any(|line| matches!(line, "ID=bottlerocket" | "ID=\"bottlerocket\""))
}

/// Reports whether a target wants the unit. A link to `/dev/null` in the first folder masks the unit.
pub(crate) fn is_enabled(root: &Path, unit: &str) -> bool {
    let masked =
        fs::read_link(root.join(UNIT_FOLDERS[0]).join(unit)).is_ok_and(|target| target == Path::new("/dev/null"));
    !masked && UNIT_FOLDERS.iter().any(|folder| is_wanted(&root.join(folder), unit))
}

fn is_wanted(folder: &Path, unit: &str) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let wants = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|name| name == "wants"));
    wants.into_iter().any(|wants| fs::symlink_metadata(wants.join(unit)).is_ok())
}

/// Returns the value of the flag, or of the variable. Both may be quoted; the flag may be followed by a blank or `=`.
fn in_command_line(text: &str) -> Option<String> {
    let flag = text.split_once(FLAG).and_then(|(_, rest)| rest.strip_prefix(['=', ' ']));
    let variable = || text.lines().find_map(|line| line.trim().strip_prefix(VARIABLE));
    let rest = flag.or_else(variable)?.trim_start_matches(['"', '\'']);
    let end = rest.find(|c: char| c.is_whitespace() || c == '"' || c == '\'' || c == '\\').unwrap_or(rest.len());
    Some(rest[..end].to_owned()).filter(|name| !name.is_empty() && !name.starts_with('$'))
}

fn in_cache(root: &Path) -> Option<String> {
    let cache: Value = serde_json::from_slice(&fs::read(root.join(CACHE)).ok()?).ok()?;
    let by_id = cache["spec"]["featureGates"]["InstanceIdNodeName"] == true;
    let name = &cache["status"]["instance"][if by_id { "id" } else { "privateDnsName" }];
    name.as_str().filter(|name| !name.is_empty()).map(str::to_lowercase)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn in_command_line_finds_the_node_name_in_all_forms() {
        let name = Some("ip-10-0-0-1.us-west-2.compute.internal".to_owned());
        let rows = [
            ("ARGS=\"--x=1 --hostname-override=ip-10-0-0-1.us-west-2.compute.internal --y\"", name.clone()),
            ("ARGS=\"--hostname-override=ip-10-0-0-1.us-west-2.compute.internal\"\n", name.clone()),
            ("ARGS=--hostname-override=ip-10-0-0-1.us-west-2.compute.internal", name.clone()),
            (
                "ExecStart=/usr/bin/kubelet \\\n  --hostname-override ip-10-0-0-1.us-west-2.compute.internal \\\n",
                name.clone(),
            ),
            ("NODE_IP=10.0.0.1\nHOSTNAME_OVERRIDE=ip-10-0-0-1.us-west-2.compute.internal\n", name),
            ("ExecStart=/usr/bin/kubelet --hostname-override ${HOSTNAME_OVERRIDE}", None),
            ("ARGS=--hostname-override=", None),
            ("ARGS=--node-ip=1.2.3.4", None),
        ];
        for (text, expected) in rows {
            assert_eq!(in_command_line(text), expected, "{text}");
        }
    }

    struct SocketFolder(PathBuf);

    impl SocketFolder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("kerf-observe-{name}-{}", std::process::id()));
            drop(fs::remove_dir_all(&folder));
            Self(folder)
        }

        fn put(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            let made = path.parent().map_or(Ok(()), fs::create_dir_all);
            assert!(made.and_then(|()| fs::write(path, text)).is_ok());
        }
    }

    impl Drop for SocketFolder {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    #[test]
    fn other_returns_nodeadm_when_its_unit_is_enabled() {
        let host = SocketFolder::new("nodeadm");
        host.put("usr/lib/systemd/system/nodeadm-run.service", "");
        host.put("etc/os-release", "ID=\"amzn\"\n");
        assert_eq!(other(&host.0), None);
        host.put("etc/systemd/system/multi-user.target.wants/nodeadm-run.service", "");
        assert_eq!(other(&host.0), Some(Configurator::Nodeadm));
        assert!(symlink("/dev/null", host.0.join("etc/systemd/system/nodeadm-run.service")).is_ok());
        assert_eq!(other(&host.0), None, "masked");
        assert_eq!(kubeconfig(&host.0), host.0.join("var/lib/kubelet/kubeconfig"));

        host.put(CACHE, r#"{"spec":{},"status":{"instance":{"id":"i-1","privateDnsName":"IP-1.ec2.internal"}}}"#);
        assert_eq!(node_name(&host.0).as_deref(), Some("ip-1.ec2.internal"));
        let by_id = r#"{"spec":{"featureGates":{"InstanceIdNodeName":true}},"status":{"instance":{"id":"i-1"}}}"#;
        host.put(CACHE, by_id);
        assert_eq!(node_name(&host.0).as_deref(), Some("i-1"));
        host.put(COMMAND_LINES[0], "NODEADM_KUBELET_ARGS=\"--hostname-override=other\"");
        assert_eq!(node_name(&host.0).as_deref(), Some("other"), "the command line of kubelet takes precedence");
    }

    #[test]
    fn other_returns_bottlerocket_when_os_release_names_it() {
        let host = SocketFolder::new("bottlerocket");
        host.put("etc/os-release", "NAME=Bottlerocket\nID=bottlerocket\n");
        assert_eq!(other(&host.0), Some(Configurator::Bottlerocket));
        assert_eq!((kubeconfig(&host.0), node_name(&host.0)), (host.0.join(KUBECONFIGS[1]), None));
        host.put(KUBECONFIGS[1], "");
        host.put(COMMAND_LINES[2], "ExecStart=/usr/bin/kubelet --hostname-override ip-2.ec2.internal");
        assert_eq!(
            (kubeconfig(&host.0), node_name(&host.0)),
            (host.0.join(KUBECONFIGS[1]), Some("ip-2.ec2.internal".into()))
        );
    }
}
