//! Aliases of AWS's own images: their SSM parameters, and the Kubernetes versions that they support.

use api::nodeclass::{Alias, AmiFamily};

use super::variant::Variant;

/// An SSM parameter that may hold an image, with the variants that the image is for.
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) variants: Vec<Variant>,
}

/// Returns the parameters of an alias, one per image. A release may lack some of them.
pub(super) fn parameters(alias: &Alias, minor: &str) -> Vec<Parameter> {
    match alias.family {
        AmiFamily::Al2 => al2(&alias.version, minor),
        AmiFamily::Al2023 => al2023(&alias.version, minor),
        AmiFamily::Bottlerocket => bottlerocket(&alias.version, minor),
        AmiFamily::Windows2019 => windows("2019", "10.0.17763", minor),
        AmiFamily::Windows2022 => windows("2022", "10.0.20348", minor),
        AmiFamily::Windows2025 => windows("2025", "10.0.26100", minor),
        AmiFamily::Custom => Vec::new(),
    }
}

/// Reports whether the alias means the latest release, so that the values of its parameters change.
pub(super) fn moves(alias: &Alias) -> bool {
    alias.version == Alias::LATEST || alias.family.is_windows()
}

fn al2(version: &str, minor: &str) -> Vec<Parameter> {
    let kinds = [
        ("", vec![Variant::Standard]),
        ("-arm64", vec![Variant::Standard]),
        ("-gpu", vec![Variant::Nvidia, Variant::Neuron]),
    ];
    let parameter = |(kind, variants): (&str, Vec<Variant>)| {
        let release = match version {
            Alias::LATEST => "recommended".to_owned(),
            version => format!("amazon-eks{kind}-node-{minor}-{version}"),
        };
        let name = format!("/aws/service/eks/optimized-ami/{minor}/amazon-linux-2{kind}/{release}/image_id");
        Parameter { name, variants }
    };
    kinds.map(parameter).into()
}

fn al2023(version: &str, minor: &str) -> Vec<Parameter> {
    let kinds = [
        ("x86_64", "standard", Variant::Standard),
        ("arm64", "standard", Variant::Standard),
        ("x86_64", "nvidia", Variant::Nvidia),
        ("arm64", "nvidia", Variant::Nvidia),
        ("x86_64", "neuron", Variant::Neuron),
    ];
    let parameter = |(arch, kind, variant): (&str, &str, Variant)| {
        let release = match version {
            Alias::LATEST => "recommended".to_owned(),
            version => format!("amazon-eks-node-al2023-{arch}-{kind}-{minor}-{version}"),
        };
        let name = format!("/aws/service/eks/optimized-ami/{minor}/amazon-linux-2023/{arch}/{kind}/{release}/image_id");
        Parameter { name, variants: vec![variant] }
    };
    kinds.map(parameter).into()
}

/// Returns the parameters of Bottlerocket. Its versions begin with a `v` everywhere except in its parameters.
fn bottlerocket(version: &str, minor: &str) -> Vec<Parameter> {
    let version = version.strip_prefix('v').unwrap_or(version);
    let kinds = [
        ("", "x86_64", vec![Variant::Standard, Variant::Neuron]),
        ("", "arm64", vec![Variant::Standard]),
        ("-nvidia", "x86_64", vec![Variant::Nvidia]),
        ("-nvidia", "arm64", vec![Variant::Nvidia]),
    ];
    let parameter = |(kind, arch, variants): (&str, &str, Vec<Variant>)| {
        let name = format!("/aws/service/bottlerocket/aws-k8s-{minor}{kind}/{arch}/{version}/image_id");
        Parameter { name, variants }
    };
    kinds.map(parameter).into()
}

fn windows(year: &str, build: &'static str, minor: &str) -> Vec<Parameter> {
    let name =
        format!("/aws/service/ami-windows-latest/Windows_Server-{year}-English-Core-EKS_Optimized-{minor}/image_id");
    vec![Parameter { name, variants: vec![Variant::Windows { build }] }]
}

/// Returns why the alias never has images for this Kubernetes version, with a hint.
pub(super) fn unsupported(alias: &Alias, minor: &str) -> Option<String> {
    let release = release(minor)?;
    let (limit, hint) = match alias.family {
        AmiFamily::Al2 if release >= (1, 33) => {
            ("AL2 ends with Kubernetes 1.32", "al2023@latest or bottlerocket@latest")
        }
        AmiFamily::Windows2025 if release < (1, 35) => {
            ("Windows2025 begins with Kubernetes 1.35", "windows2022@latest")
        }
        _ => return None,
    };
    Some(format!("there are no images for the cluster's Kubernetes {minor}: {limit}; use {hint}"))
}

fn release(minor: &str) -> Option<(u32, u32)> {
    let (major, minor) = minor.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
