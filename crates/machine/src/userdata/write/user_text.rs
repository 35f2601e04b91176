//! Type of a class's user data: base64, NodeConfig, script, or a format of cloud-init.

use api::nodeclass::AmiFamily;

use super::{Document, Warning};
use crate::mime;
use crate::nodeconfig;
use crate::userdata::{NODE_CONFIG_TYPE, text, unpack};

/// Content type of a shell script.
pub(super) const SHELL_SCRIPT: &str = "text/x-shellscript; charset=\"us-ascii\"";

/// First words of cloud-init's formats, longer ones first, and their content types.
const CLOUD_INIT: [(&str, &str); 7] = [
    ("## template: jinja", "text/jinja2"),
    ("#include-once", "text/x-include-once-url"),
    ("#include", "text/x-include-url"),
    ("#cloud-config-archive", "text/cloud-config-archive"),
    ("#cloud-config", "text/cloud-config"),
    ("#cloud-boothook", "text/cloud-boothook"),
    ("#part-handler", "text/part-handler"),
];

/// Programs that the generated user data, or the image, runs by itself.
const BOOTSTRAP: [&str; 3] = ["/etc/eks/bootstrap.sh", "nodeadm init", "Start-EKSBootstrap.ps1"];

/// Returns the user data that a family's document contains, and warnings. User data that is base64, packed or not, is decoded
/// if the result is of a known kind. A NodeConfig is left out for families that cannot read it: their images would run it as a
/// script.
pub(super) fn without_unread(family: AmiFamily, user_text: &str) -> (Option<String>, Vec<Warning>) {
    if family == AmiFamily::Custom {
        return (Some(user_text.to_owned()), Vec::new());
    }
    let user_text = decoded(user_text).unwrap_or_else(|| user_text.to_owned());
    let runs_scripts = family == AmiFamily::Al2 || family.is_windows();
    if runs_scripts && !mime::is_mime(user_text.as_bytes()) && nodeconfig::is_node_config(&user_text) {
        return (None, vec![Warning::UnreadNodeConfig { family: family.as_str() }]);
    }
    (Some(user_text), Vec::new())
}

fn decoded(user_text: &str) -> Option<String> {
    let unpacked = unpack(user_text.as_bytes(), "").ok().filter(|unpacked| unpacked != user_text.as_bytes())?;
    let unpacked = text(&unpacked, "").ok()?.into_owned();
    let is_known = unpacked.starts_with(['#', '[', '<'])
        || mime::is_mime(unpacked.as_bytes())
        || nodeconfig::is_node_config(&unpacked);
    is_known.then_some(unpacked)
}

/// Returns the content type of user data that is no MIME document. As in Karpenter, a mapping is a NodeConfig on Amazon Linux 2023
/// and other text a script; but a NodeConfig is never a script, and cloud-init's formats keep their types.
pub(super) fn content_type(family: AmiFamily, user_text: &str) -> &'static str {
    if nodeconfig::is_node_config(user_text) {
        return NODE_CONFIG_TYPE;
    }
    let first_line = user_text.trim_start().lines().next().unwrap_or_default();
    let of_cloud_init = CLOUD_INIT.iter().find(|(word, _)| first_line.starts_with(word));
    if let Some((_, content_type)) = of_cloud_init {
        return content_type;
    }
    let is_mapping = family == AmiFamily::Al2023 && !first_line.starts_with("#!") && nodeconfig::is_mapping(user_text);
    if is_mapping { NODE_CONFIG_TYPE } else { SHELL_SCRIPT }
}

/// Returns the program that a script calls although the image runs it once more.
pub(super) fn second_bootstrap(script: &str) -> Option<Warning> {
    let is_called =
        |program: &&&str| script.lines().any(|line| !line.trim_start().starts_with('#') && line.contains(**program));
    BOOTSTRAP.iter().find(is_called).map(|program| Warning::SecondBootstrap { program })
}

impl Document {
    /// Adds warnings.
    pub(super) fn warned(mut self, warnings: impl IntoIterator<Item = Warning>) -> Self {
        self.warnings.extend(warnings);
        self
    }
}
