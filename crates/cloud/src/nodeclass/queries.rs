//! From selectors to the questions that EC2 understands, and the round trip with them.

use std::collections::{BTreeMap, BTreeSet};

use api::nodeclass::{Alias, AmiFamily, AmiSelectorTerm, EC2NodeClassSpec};

use super::images::Variant;
use crate::calls::{Call, Cloud, Filter, Image, SecurityGroup, Subnet, Tags};
use crate::error::CloudError;
use crate::settings::Settings;

/// All that must be asked for one class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queries {
    /// One a term.
    pub subnets: Vec<Filter>,
    /// One a term.
    pub security_groups: Vec<Filter>,
    /// In the order of the terms; terms with an id share one.
    pub images: Vec<ImageQuery>,
}

/// A way to images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageQuery {
    /// Images that match.
    Filter(Filter),
    /// The image whose id an SSM parameter holds.
    Parameter {
        /// Name or ARN of the parameter.
        name: String,
        /// What kind of machine the image is for.
        variant: Variant,
    },
}

/// Images with the kind of machine that they are for.
pub type FoundImages = Vec<(Variant, Image)>;

/// What EC2 said; each part fails by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    /// Subnets that some term selects.
    pub subnets: Result<Vec<Subnet>, CloudError>,
    /// Security groups that some term selects.
    pub security_groups: Result<Vec<SecurityGroup>, CloudError>,
    /// Images that some term selects.
    pub images: Result<FoundImages, CloudError>,
}

/// The questions of a class. An alias of a family that this version cannot boot asks nothing.
#[must_use]
pub fn queries(spec: &EC2NodeClassSpec, settings: &Settings) -> Queries {
    let subnets = spec.subnet_selector_terms.iter().map(|term| filter(term.id.as_ref(), None, &term.tags));
    let groups = spec.security_group_selector_terms.iter();
    let groups = groups.map(|term| filter(term.id.as_ref(), term.name.as_ref(), &term.tags));
    let mut images = Vec::new();
    let ids: BTreeSet<String> = spec.ami_selector_terms.iter().filter_map(|term| term.id.clone()).collect();
    if !ids.is_empty() {
        images.push(ImageQuery::Filter(Filter { ids: ids.into_iter().collect(), ..Filter::default() }));
    }
    for term in spec.ami_selector_terms.iter().filter(|term| term.id.is_none()) {
        images.extend(image_queries(term, settings));
    }
    Queries { subnets: subnets.collect(), security_groups: groups.collect(), images }
}

fn filter(id: Option<&String>, name: Option<&String>, tags: &Tags) -> Filter {
    match id {
        Some(id) => Filter { ids: vec![id.clone()], ..Filter::default() },
        None => Filter { names: name.into_iter().cloned().collect(), tags: tags.clone(), ..Filter::default() },
    }
}

fn image_queries(term: &AmiSelectorTerm, settings: &Settings) -> Vec<ImageQuery> {
    if let Some(alias) = &term.alias {
        return Alias::parse(alias).map_or_else(Vec::new, |alias| alias_parameters(&alias, settings));
    }
    if let Some(name) = &term.ssm_parameter {
        return vec![ImageQuery::Parameter { name: name.clone(), variant: Variant::Any }];
    }
    let owners = match (&term.owner, &term.name) {
        (Some(owner), _) => vec![owner.clone()],
        (None, Some(_)) => vec!["self".to_owned(), "amazon".to_owned()],
        (None, None) => Vec::new(),
    };
    let names = term.name.iter().cloned().collect();
    vec![ImageQuery::Filter(Filter { ids: Vec::new(), names, owners, tags: term.tags.clone() })]
}

/// The parameters behind an alias of Amazon Linux 2023 (aws 2.2).
fn alias_parameters(alias: &Alias, settings: &Settings) -> Vec<ImageQuery> {
    if alias.family != AmiFamily::Al2023 {
        return Vec::new();
    }
    let minor = &settings.kubernetes;
    let variants = [
        ("x86_64", Variant::Standard),
        ("arm64", Variant::Standard),
        ("x86_64", Variant::Nvidia),
        ("arm64", Variant::Nvidia),
        ("x86_64", Variant::Neuron),
    ];
    let parameter = |(arch, variant): (&str, Variant)| {
        let kind = variant.as_str();
        let release = match alias.version.as_str() {
            Alias::LATEST => "recommended".to_owned(),
            version => format!("amazon-eks-node-al2023-{arch}-{kind}-{minor}-{version}"),
        };
        let name = format!("/aws/service/eks/optimized-ami/{minor}/amazon-linux-2023/{arch}/{kind}/{release}/image_id");
        ImageQuery::Parameter { name, variant }
    };
    variants.map(parameter).to_vec()
}

/// A term as a person would say it.
pub(super) fn describe(id: Option<&str>, name: Option<&str>, tags: &Tags) -> String {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(id.map(|id| format!("id {id}")));
    parts.extend(name.map(|name| format!("name {name}")));
    parts.extend(tags.iter().map(|(key, value)| format!("tag {key}={value}")));
    parts.join(" and ")
}

/// Asks EC2.
pub async fn fetch(cloud: &dyn Cloud, queries: &Queries) -> Answers {
    Answers {
        subnets: each(&queries.subnets, |filter| cloud.subnets(filter)).await,
        security_groups: each(&queries.security_groups, |filter| cloud.security_groups(filter)).await,
        images: fetch_images(cloud, &queries.images).await,
    }
}

async fn each<'a, T>(
    filters: &'a [Filter],
    ask: impl Fn(&'a Filter) -> Call<'a, Vec<T>>,
) -> Result<Vec<T>, CloudError> {
    let mut all = Vec::new();
    for filter in filters {
        all.extend(ask(filter).await?);
    }
    Ok(all)
}

/// Parameters first, then one question for all the images that they name. A parameter that does not exist, or holds no
/// image id, is skipped: not every release has every variant.
async fn fetch_images(cloud: &dyn Cloud, queries: &[ImageQuery]) -> Result<FoundImages, CloudError> {
    let mut found = FoundImages::new();
    let mut variants: BTreeMap<String, Vec<Variant>> = BTreeMap::new();
    for query in queries {
        match query {
            ImageQuery::Filter(filter) => {
                found.extend(cloud.images(filter).await?.into_iter().map(|image| (Variant::Any, image)));
            }
            ImageQuery::Parameter { name, variant } => {
                let id = cloud.parameter(name).await?.filter(|id| id.starts_with("ami-"));
                if let Some(id) = id {
                    variants.entry(id).or_default().push(*variant);
                }
            }
        }
    }
    if !variants.is_empty() {
        let filter = Filter { ids: variants.keys().cloned().collect(), ..Filter::default() };
        for image in cloud.images(&filter).await? {
            let kinds = variants.get(&image.id).into_iter().flatten();
            found.extend(kinds.map(|variant| (*variant, image.clone())));
        }
    }
    Ok(found)
}
