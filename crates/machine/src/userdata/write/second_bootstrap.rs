//! The bootstrap script of an image, called by the user's own user data. Kerf's part of the user data joins the cluster itself.

use api::nodeclass::AmiFamily;

use super::{Bootstrap, Warning};

/// Bootstrap script of Amazon Linux 2.
const LINUX: &str = "/etc/eks/bootstrap.sh";
/// Bootstrap script of Windows.
const WINDOWS: &str = "Start-EKSBootstrap.ps1";

/// Returns a warning if the user data calls a bootstrap script.
pub(super) fn warning(family: AmiFamily, input: &Bootstrap) -> Option<Warning> {
    let script = match family {
        AmiFamily::Al2 | AmiFamily::Al2023 => LINUX,
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => WINDOWS,
        AmiFamily::Bottlerocket | AmiFamily::Custom => return None,
    };
    let is_call = |line: &str| !line.trim_start().starts_with('#') && line.contains(script);
    let exists = family != AmiFamily::Al2023;
    input.user_text().lines().any(is_call).then_some(Warning::SecondBootstrap { script, exists })
}
