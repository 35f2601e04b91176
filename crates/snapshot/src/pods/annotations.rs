//! Annotations of pods that cannot be parsed. All pods of a workload have the same annotations, so each problem is reported
//! once per workload.

use api::ineffective::{KeyOwner, keys};
use api::objects::{Pod, misread_surge, pod_group};
use api::{InvalidSplit, annotation};

use super::full_name;
use crate::Problem;
use crate::problem::{ineffective, merge_equal};

/// Returns the annotation problems of a pod, and its labels without effect; `mix` has those of its workload's split.
pub(crate) fn problems_of_pod(pod: &Pod, mix: Vec<InvalidSplit>) -> Vec<Problem> {
    let own = &pod.metadata;
    let has_none = own.annotations.is_none() && own.labels.is_none() && mix.is_empty();
    if pod.is_terminal() || pod.is_terminating() || has_none {
        return Vec::new();
    }
    let settings = keys(KeyOwner::Pod, "metadata", own.annotations.as_ref(), own.labels.as_ref());
    let name = || full_name(pod);
    let mix = mix.into_iter().map(|error| Problem::Mix { pod: name(), others: 0, error });
    let protection = pod.misread_do_not_disrupt().map(str::to_owned);
    let interval = pod.rests_until().err();
    let resize =
        pod.annotation(annotation::RESIZE).filter(|value| *value != annotation::RESIZE_NEVER).map(str::to_owned);
    let surge = misread_surge(pod).map(str::to_owned);
    let others = [
        protection.map(|text| Problem::DoNotDisrupt { pod: name(), others: 0, text }),
        interval.map(|error| Problem::Rest { pod: name(), others: 0, error }),
        resize.map(|text| Problem::Resize { pod: name(), others: 0, text }),
        surge.map(|text| Problem::Surge { pod: name(), others: 0, text }),
        pod_group(pod).err().map(|error| Problem::PodGroup { pod: name(), others: 0, error }),
    ];
    let without_effect = ineffective("Pod", Some(&name()), settings);
    mix.chain(others.into_iter().flatten()).chain(without_effect).collect()
}

/// Returns the problems of all pods, once per workload and text.
pub(crate) fn problems_of_workloads<'a>(pods: impl Iterator<Item = (&'a Pod, &'a [Problem])>) -> Vec<Problem> {
    let mut problems: Vec<(&Pod, &Problem)> =
        pods.flat_map(|(pod, problems)| problems.iter().map(move |problem| (pod, problem))).collect();
    problems.sort_by_key(|(pod, _)| (pod.namespace(), pod.name()));
    let owner = |pod: &'a Pod| pod.controller().map_or_else(|| pod.name(), |owner| owner.uid.as_str());
    merge_equal(problems.into_iter().map(|(pod, problem)| ((pod.namespace(), owner(pod)), problem.clone())))
}
