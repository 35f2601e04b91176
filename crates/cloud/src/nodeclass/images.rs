//! Images of an EC2NodeClass, and the instance types of each image: the newest of each variant.

use std::collections::BTreeMap;

use api::nodeclass::{Ami, EC2NodeClassSpec};
use api::{Operator, Requirement, condition, label, reason};
use planner::ValueSet;

use super::{Finding, alias, queries};
use crate::calls::Image;
use crate::requirements::requirements;
use crate::settings::Settings;

/// An image with the labels of the instance types that can run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedImage {
    /// The image.
    pub image: Image,
    /// Requirements on the labels, ordered by length of the key and then by key.
    pub requirements: Vec<Requirement>,
}

impl ResolvedImage {
    /// Reports whether an instance type with these labels can run the image.
    #[must_use]
    pub fn fits(&self, labels: &BTreeMap<String, Vec<String>>) -> bool {
        fit(&self.requirements, labels)
    }

    /// Returns the image for the status of the EC2NodeClass.
    #[must_use]
    pub fn status(&self) -> Ami {
        Ami {
            id: self.image.id.clone(),
            deprecated: self.image.deprecated,
            name: self.image.name.clone(),
            requirements: self.requirements.clone(),
        }
    }
}

/// Reports whether labels satisfy the requirements of an image.
pub(super) fn fit(required: &[Requirement], labels: &BTreeMap<String, Vec<String>>) -> bool {
    let values = |key: &str| labels.get(key).map_or(&[][..], Vec::as_slice);
    let set = |one: &Requirement| requirements(std::slice::from_ref(one)).get(&one.key).cloned();
    let fits = |one: &Requirement| set(one).is_none_or(|set: ValueSet| set.allows_any(values(&one.key)));
    required.iter().all(fits)
}

/// Returns the best image of every set of requirements, newest first, then by id.
pub(super) fn resolve(found: queries::FoundImages) -> Vec<ResolvedImage> {
    let mut best: BTreeMap<Vec<Requirement>, Image> = BTreeMap::new();
    for (variant, image) in found {
        let Some(arch) = arch(&image) else { continue };
        let mut requirements = variant.requirements();
        requirements.push(Requirement::new(label::ARCH, Operator::In, [arch]));
        requirements.sort_by(|a, b| a.key.len().cmp(&b.key.len()).then_with(|| a.key.cmp(&b.key)));
        match best.get(&requirements) {
            Some(held) if rank(held) >= rank(&image) => {}
            _ => {
                best.insert(requirements, image);
            }
        }
    }
    let mut images: Vec<ResolvedImage> =
        best.into_iter().map(|(requirements, image)| ResolvedImage { image, requirements }).collect();
    images.sort_by(|a, b| b.image.created.cmp(&a.image.created).then_with(|| a.image.id.cmp(&b.image.id)));
    images
}

/// Returns the rank of an image. Greater is better: not deprecated, then newer, then the greater name, then the greater id.
fn rank(image: &Image) -> (bool, &str, &str, &str) {
    (!image.deprecated, &image.created, &image.name, &image.id)
}

fn arch(image: &Image) -> Option<&'static str> {
    match image.architecture.as_str() {
        "x86_64" => Some(label::ARCH_AMD64),
        "arm64" => Some(label::ARCH_ARM64),
        _ => None,
    }
}

pub(super) fn finding(spec: &EC2NodeClassSpec, images: &[ResolvedImage], settings: &Settings) -> Finding {
    let bad = |reason, message| Finding::bad(condition::AMIS_READY, reason, message);
    let refused = spec.alias().and_then(|alias| alias::unsupported(&alias, &settings.kubernetes));
    if let Some(message) = refused {
        return bad(reason::UNSUPPORTED_ALIAS, message);
    }
    if images.is_empty() {
        let terms = spec.ami_selector_terms.iter().map(|term| {
            let mut parts: Vec<String> = term.alias.iter().map(|alias| format!("alias {alias}")).collect();
            parts.extend(term.ssm_parameter.iter().map(|name| format!("ssmParameter {name}")));
            parts.extend(term.owner.iter().map(|owner| format!("owner {owner}")));
            let rest = queries::describe(term.id.as_deref(), term.name.as_deref(), &term.tags);
            parts.extend((!rest.is_empty()).then_some(rest));
            parts.join(" and ")
        });
        let message = format!(
            "no x86_64 or arm64 image matches amiSelectorTerms ({}) in {} for Kubernetes {}; correct the terms, or make \
             the image available to this account",
            super::listed(terms),
            settings.region,
            settings.kubernetes
        );
        return bad(reason::AMI_NOT_FOUND, message);
    }
    Finding::good(condition::AMIS_READY)
}
