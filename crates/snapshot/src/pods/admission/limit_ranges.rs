//! LimitRanges: default requests and limits of containers, and bounds of containers and pods.

use std::collections::BTreeMap;
use std::convert::Infallible;

use api::objects::{
    Container, LimitRange, LimitRangeItem, PodSpec, ResourceList, ResourceRequirements, resource_totals,
};
use api::quantity::{CPU, MEMORY};

use super::error::{AdmissionError, Bound, BoundViolation, Violated};

/// Amounts by resource: millicores for CPU, whole units for all others.
type Amounts = BTreeMap<String, i64>;

/// Requests and limits as amounts.
struct RequestsAndLimits {
    requests: Amounts,
    limits: Amounts,
}

/// Adds the defaults: a limit of the container is its default request, then the LimitRanges apply in their order.
pub(super) fn add_defaults(ranges: &[&LimitRange], spec: &mut PodSpec) {
    let containers = spec.containers.iter_mut().chain(&mut spec.init_containers);
    for ResourceRequirements { requests, limits } in containers.map(|container| &mut container.resources) {
        add_missing(requests, limits);
        for item in container_items(ranges) {
            add_missing(limits, &item.default_limits());
            add_missing(requests, &item.default_requests());
        }
    }
}

fn add_missing(own: &mut ResourceList, defaults: &ResourceList) {
    for (resource, amount) in defaults {
        own.entry(resource.clone()).or_insert_with(|| amount.clone());
    }
}

fn container_items<'a>(ranges: &'a [&LimitRange]) -> impl Iterator<Item = &'a LimitRangeItem> {
    ranges.iter().flat_map(|range| &range.spec.limits).filter(|item| item.is_for_containers())
}

/// Checks the bounds of all LimitRanges. The first one with violations is the error.
pub(super) fn check(ranges: &[&LimitRange], spec: &PodSpec) -> Result<(), AdmissionError> {
    for range in ranges {
        let violations: Vec<BoundViolation> =
            range.spec.limits.iter().flat_map(|item| violations(item, spec)).collect();
        if !violations.is_empty() {
            return Err(AdmissionError::LimitRange { range: range.full_name(), violations });
        }
    }
    Ok(())
}

/// Checks that no request is greater than its limit. `written` is the pod before its defaults.
pub(super) fn check_limits(ranges: &[&LimitRange], written: &PodSpec, spec: &PodSpec) -> Result<(), AdmissionError> {
    for (own, container) in containers(written).zip(containers(spec)) {
        let RequestsAndLimits { requests, limits } = RequestsAndLimits::new(&container.resources);
        let above = |(resource, limit): &(&String, &i64)| requests.get(*resource).is_some_and(|own| own > *limit);
        let Some((resource, _)) = limits.iter().find(above) else { continue };
        let text = |list: &ResourceList| list.get(resource).map(|amount| amount.0.clone()).unwrap_or_default();
        let by_default = !own.resources.limits.contains_key(resource);
        return Err(AdmissionError::RequestAboveLimit {
            container: container.name.clone(),
            request: text(&container.resources.requests),
            limit: text(&container.resources.limits),
            default_of: ranges.iter().find(|range| by_default && has_default(range, resource)).map(|it| it.full_name()),
            resource: resource.clone(),
        });
    }
    Ok(())
}

fn has_default(range: &LimitRange, resource: &str) -> bool {
    container_items(&[range]).any(|item| item.default_limits().contains_key(resource))
}

fn containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.containers.iter().chain(&spec.init_containers)
}

fn violations(item: &LimitRangeItem, spec: &PodSpec) -> Vec<BoundViolation> {
    if item.is_for_pods() {
        return RequestsAndLimits::of_pod(spec).violations(item, None);
    }
    let of_container = |container: &Container| {
        RequestsAndLimits::new(&container.resources).violations(item, Some(container.name.as_str()))
    };
    containers(spec).filter(|_| item.is_for_containers()).flat_map(of_container).collect()
}

impl RequestsAndLimits {
    fn new(resources: &ResourceRequirements) -> Self {
        Self { requests: amounts(&resources.requests), limits: amounts(&resources.limits) }
    }

    /// Returns the totals of a pod without its overhead. Resources of the pod as a whole replace the sums of CPU and memory.
    fn of_pod(spec: &PodSpec) -> Self {
        let whole = Self::new(spec.resources.as_ref().unwrap_or(&ResourceRequirements::default()));
        let total = |list_of: fn(&ResourceRequirements) -> &ResourceList, of_whole: &Amounts| {
            let Ok(mut total) = resource_totals::<Infallible>(spec, |resources| Ok(amounts(list_of(resources))));
            total.extend(supported(of_whole));
            total
        };
        let mut requests = total(|own| &own.requests, &whole.requests);
        supported(&whole.limits).for_each(|(resource, limit)| {
            requests.entry(resource).or_insert(limit);
        });
        Self { requests, limits: total(|own| &own.limits, &whole.limits) }
    }

    fn violations(&self, item: &LimitRangeItem, container: Option<&str>) -> Vec<BoundViolation> {
        let minima = amounts(&item.min).into_iter().map(|(resource, least)| (resource, Bound::Min(least)));
        let maxima = amounts(&item.max).into_iter().map(|(resource, most)| (resource, Bound::Max(most)));
        let ratios = item.max_limit_request_ratio.iter();
        let ratios = ratios.filter_map(|(resource, most)| Some((resource.clone(), Bound::Ratio(most.millis().ok()?))));
        let violation = |(resource, bound): (String, Bound)| {
            let found = violated(bound, self.requests.get(&resource).copied(), self.limits.get(&resource).copied())?;
            Some(BoundViolation { container: container.map(str::to_owned), resource, bound, found })
        };
        minima.chain(maxima).chain(ratios).filter_map(violation).collect()
    }
}

/// Returns the amounts that a pod as a whole may set.
fn supported(amounts: &Amounts) -> impl Iterator<Item = (String, i64)> {
    let supported = amounts.iter().filter(|(resource, _)| [CPU, MEMORY].contains(&resource.as_str()));
    supported.map(|(resource, amount)| (resource.clone(), *amount))
}

/// Returns how a request and a limit violate a bound. An absent value that a bound needs violates it too.
fn violated(bound: Bound, request: Option<i64>, limit: Option<i64>) -> Option<Violated> {
    match bound {
        Bound::Min(least) => match (request, limit) {
            (None, _) => Some(Violated::NoRequest),
            (Some(request), _) if request < least => Some(Violated::Request(request)),
            (_, Some(limit)) if limit < least => Some(Violated::Limit(limit)),
            _ => None,
        },
        Bound::Max(most) => match (limit, request) {
            (None, _) => Some(Violated::NoLimit),
            (Some(limit), _) if limit > most => Some(Violated::Limit(limit)),
            (_, Some(request)) if request > most => Some(Violated::Request(request)),
            _ => None,
        },
        Bound::Ratio(most) => match (request.filter(|it| *it != 0), limit.filter(|it| *it != 0)) {
            (None, _) => Some(Violated::NoRequest),
            (_, None) => Some(Violated::NoLimit),
            (Some(request), Some(limit)) => {
                let ratio = i128::from(limit) * 1000 / i128::from(request);
                let exceeds = i128::from(limit) * 1000 > i128::from(most) * i128::from(request);
                exceeds.then(|| Violated::Ratio(i64::try_from(ratio).unwrap_or(i64::MAX)))
            }
        },
    }
}

/// Returns the amounts of a list. Texts that are not quantities are reported where the pod is translated.
fn amounts(list: &ResourceList) -> Amounts {
    list.iter().filter_map(|(name, quantity)| Some((name.clone(), quantity.amount(name).ok()?))).collect()
}
