//! Conversion of selectors into EC2 queries, and their execution.

use std::collections::{BTreeMap, BTreeSet};

use api::EC2NodeClass;
use api::nodeclass::{Alias, AmiSelectorTerm, CapacityReservationSelectorTerm, EC2NodeClassSpec};
use jiff::Timestamp;

use super::cache::{Keep, ResolutionCache};
use super::variant::Variant;
use super::{alias, profile};
use crate::calls::{
    Call, CapacityReservation, Cloud, CloudError, ErrorKind, Filter, Image, InstanceProfile, PlacementGroup,
    PlacementGroupQuery, ReservationFilter, SecurityGroup, Subnet, Tags,
};
use crate::settings::Settings;

/// All queries of one EC2NodeClass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queries {
    /// One filter per selector term.
    pub subnets: Vec<Filter>,
    /// One filter per selector term.
    pub security_groups: Vec<Filter>,
    /// Queries in the order of the terms; terms with an id share one query.
    pub images: Vec<ImageQuery>,
    /// One filter per selector term; empty without the ReservedCapacity feature gate.
    pub reservations: Vec<ReservationFilter>,
    /// Placement group of the EC2NodeClass, if it selects one.
    pub placement_group: Option<PlacementGroupQuery>,
    /// Names of instance profiles that may exist.
    pub profiles: Vec<String>,
}

/// A query for images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageQuery {
    /// Images that match a filter.
    Filter(Filter),
    /// The image whose id is the value of an SSM parameter.
    Parameter {
        /// Name or ARN of the parameter.
        name: String,
        /// Variants that the image is for.
        variants: Vec<Variant>,
        /// Expected change of the value, which sets its lifetime in the cache.
        keep: Keep,
    },
}

/// Images with the variants that they are for.
pub type FoundImages = Vec<(Variant, Image)>;

/// Answers to the queries; each part fails independently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    /// Subnets that match any term.
    pub subnets: Result<Vec<Subnet>, CloudError>,
    /// Security groups that match any term.
    pub security_groups: Result<Vec<SecurityGroup>, CloudError>,
    /// Images that match any term.
    pub images: Result<FoundImages, CloudError>,
    /// Active capacity reservations that match any term.
    pub reservations: Result<Vec<CapacityReservation>, CloudError>,
    /// Placement group, if it exists.
    pub placement_group: Result<Option<PlacementGroup>, CloudError>,
    /// Existing instance profiles.
    pub profiles: Result<Vec<InstanceProfile>, CloudError>,
}

/// Returns the queries of an EC2NodeClass. An alias that does not support the cluster's Kubernetes version has no query.
#[must_use]
pub fn queries(class: &EC2NodeClass, settings: &Settings) -> Queries {
    let spec = &class.spec;
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
    Queries {
        subnets: subnets.collect(),
        security_groups: groups.collect(),
        images,
        reservations: if settings.reserved_capacity { reservations(spec) } else { Vec::new() },
        placement_group: placement_group(spec),
        profiles: profile::questions(class, settings),
    }
}

/// Returns one filter per term. An unknown id fails its query, and must not fail the others.
fn reservations(spec: &EC2NodeClassSpec) -> Vec<ReservationFilter> {
    let filter = |term: &CapacityReservationSelectorTerm| match &term.id {
        Some(id) => ReservationFilter { ids: vec![id.clone()], ..ReservationFilter::default() },
        None => ReservationFilter {
            ids: Vec::new(),
            owner: term.owner_id.clone(),
            match_criteria: term.instance_match_criteria.clone(),
            tags: term.tags.clone(),
        },
    };
    spec.capacity_reservation_selector_terms.iter().map(filter).collect()
}

fn placement_group(spec: &EC2NodeClassSpec) -> Option<PlacementGroupQuery> {
    let selector = spec.placement_group_selector.as_ref()?;
    let by_name = || selector.name.clone().map(PlacementGroupQuery::Name);
    selector.id.clone().map(PlacementGroupQuery::Id).or_else(by_name)
}

fn filter(id: Option<&String>, name: Option<&String>, tags: &Tags) -> Filter {
    match id {
        Some(id) => Filter { ids: vec![id.clone()], ..Filter::default() },
        None => Filter { names: name.into_iter().cloned().collect(), tags: tags.clone(), ..Filter::default() },
    }
}

fn image_queries(term: &AmiSelectorTerm, settings: &Settings) -> Vec<ImageQuery> {
    if let Some(alias) = &term.alias {
        return Alias::parse(alias).map_or_else(Vec::new, |alias| alias_queries(&alias, settings));
    }
    if let Some(name) = &term.ssm_parameter {
        return vec![ImageQuery::Parameter { name: name.clone(), variants: vec![Variant::Any], keep: Keep::Custom }];
    }
    let owners = match (&term.owner, &term.name) {
        (Some(owner), _) => vec![owner.clone()],
        (None, Some(_)) => vec!["self".to_owned(), "amazon".to_owned()],
        (None, None) => Vec::new(),
    };
    let names = term.name.iter().cloned().collect();
    vec![ImageQuery::Filter(Filter { ids: Vec::new(), names, owners, tags: term.tags.clone() })]
}

fn alias_queries(alias: &Alias, settings: &Settings) -> Vec<ImageQuery> {
    if alias::unsupported(alias, &settings.kubernetes).is_some() {
        return Vec::new();
    }
    let keep = if alias::moves(alias) { Keep::Latest } else { Keep::Pinned };
    let query = |parameter: alias::Parameter| {
        let alias::Parameter { name, variants } = parameter;
        ImageQuery::Parameter { name, variants, keep }
    };
    alias::parameters(alias, &settings.kubernetes).into_iter().map(query).collect()
}

/// Describes a selector term for messages.
pub(super) fn describe(id: Option<&str>, name: Option<&str>, tags: &Tags) -> String {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(id.map(|id| format!("id {id}")));
    parts.extend(name.map(|name| format!("name {name}")));
    parts.extend(tags.iter().map(|(key, value)| format!("tag {key}={value}")));
    parts.join(" and ")
}

/// Queries EC2, and also SSM and IAM unless `cache` has fresh answers.
pub async fn fetch(cloud: &dyn Cloud, queries: &Queries, cache: &ResolutionCache, now: Timestamp) -> Answers {
    Answers {
        subnets: each(&queries.subnets, |filter| cloud.subnets(filter)).await,
        security_groups: each(&queries.security_groups, |filter| cloud.security_groups(filter)).await,
        images: fetch_images(cloud, &queries.images, cache, now).await,
        reservations: reservations_of(cloud, &queries.reservations).await,
        placement_group: match &queries.placement_group {
            Some(query) => cloud.placement_group(query).await,
            None => Ok(None),
        },
        profiles: profiles(cloud, &queries.profiles, cache, now).await,
    }
}

/// Returns the reservations that match any filter. A reservation that does not exist is no error.
async fn reservations_of(
    cloud: &dyn Cloud,
    filters: &[ReservationFilter],
) -> Result<Vec<CapacityReservation>, CloudError> {
    let mut found = Vec::new();
    for filter in filters {
        match cloud.capacity_reservations(filter).await {
            Err(error) if error.kind == ErrorKind::NotFound => {}
            answer => found.extend(answer?),
        }
    }
    Ok(found)
}

async fn profiles(
    cloud: &dyn Cloud,
    names: &[String],
    cache: &ResolutionCache,
    now: Timestamp,
) -> Result<Vec<InstanceProfile>, CloudError> {
    let mut found = Vec::new();
    for name in names {
        found.extend(cache.profile(cloud, name, now).await?);
    }
    Ok(found)
}

async fn each<'a, T>(
    filters: &'a [Filter],
    query: impl Fn(&'a Filter) -> Call<'a, Vec<T>>,
) -> Result<Vec<T>, CloudError> {
    let mut all = Vec::new();
    for filter in filters {
        all.extend(query(filter).await?);
    }
    Ok(all)
}

/// Reads the parameters first, then all their images in one query. Skips a parameter that does not exist or holds no image id,
/// because a release may lack some variants.
async fn fetch_images(
    cloud: &dyn Cloud,
    queries: &[ImageQuery],
    cache: &ResolutionCache,
    now: Timestamp,
) -> Result<FoundImages, CloudError> {
    let mut found = FoundImages::new();
    let mut named: Vec<(&str, String, &[Variant])> = Vec::new();
    for query in queries {
        match query {
            ImageQuery::Filter(filter) => {
                found.extend(cloud.images(filter).await?.into_iter().map(|image| (Variant::Any, image)));
            }
            ImageQuery::Parameter { name, variants, keep } => {
                let id = cache.parameter(cloud, name, *keep, now).await?;
                named.extend(id.filter(|id| id.starts_with("ami-")).map(|id| (name.as_str(), id, variants.as_slice())));
            }
        }
    }
    if named.is_empty() {
        return Ok(found);
    }
    let ids: BTreeSet<String> = named.iter().map(|(_, id, _)| id.clone()).collect();
    let filter = Filter { ids: ids.into_iter().collect(), ..Filter::default() };
    let images: BTreeMap<String, Image> =
        cloud.images(&filter).await?.into_iter().map(|image| (image.id.clone(), image)).collect();
    for (name, id, variants) in named {
        let image = images.get(&id);
        if image.is_none_or(|image| image.deprecated) {
            cache.doubt(name);
        }
        found.extend(image.into_iter().flat_map(|image| variants.iter().map(|variant| (*variant, image.clone()))));
    }
    Ok(found)
}
