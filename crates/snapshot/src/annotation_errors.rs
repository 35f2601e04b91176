//! Annotations of pods that cannot be parsed. All pods of a workload have the same annotations, so each problem is reported
//! once per workload.

use std::collections::BTreeMap;

use api::objects::Pod;
use api::{InvalidSplit, annotation};

use crate::Problem;
use crate::rescheduling::full_name;

/// Returns the annotation problems of a pod; `mix` has those of its workload's split.
pub(crate) fn of_pod(pod: &Pod, mix: Vec<InvalidSplit>) -> Vec<Problem> {
    if pod.is_terminal() || pod.is_terminating() || pod.metadata.annotations.is_none() && mix.is_empty() {
        return Vec::new();
    }
    let name = || full_name(pod);
    let mix = mix.into_iter().map(|error| Problem::Mix { pod: name(), others: 0, error });
    let protection = pod.misread_do_not_disrupt().map(str::to_owned);
    let rest = pod.rests_until().err();
    let resize = pod.annotation(annotation::RESIZE).filter(|word| *word != annotation::RESIZE_NEVER).map(str::to_owned);
    let surge = pod.misread_surge().map(str::to_owned);
    let words = [
        protection.map(|text| Problem::DoNotDisrupt { pod: name(), others: 0, text }),
        rest.map(|error| Problem::Rest { pod: name(), others: 0, error }),
        resize.map(|text| Problem::Resize { pod: name(), others: 0, text }),
        surge.map(|text| Problem::Surge { pod: name(), others: 0, text }),
    ];
    mix.chain(words.into_iter().flatten()).collect()
}

/// Returns the problems of all pods, once per workload and text.
pub(crate) fn of_workloads<'a>(pods: impl Iterator<Item = (&'a Pod, &'a [Problem])>) -> Vec<Problem> {
    let mut faults: Vec<(&Pod, &Problem)> =
        pods.flat_map(|(pod, faults)| faults.iter().map(move |fault| (pod, fault))).collect();
    faults.sort_by_key(|(pod, _)| (pod.namespace(), pod.name()));
    let owner = |pod: &'a Pod| pod.controller().map_or_else(|| pod.name(), |owner| owner.uid.as_str());
    once(faults.into_iter().map(|(pod, fault)| ((pod.namespace(), owner(pod)), fault.clone())))
}

/// Merges problems of a group that differ only in the object that they name.
pub(crate) fn once<G: Ord>(problems: impl Iterator<Item = (G, Problem)>) -> Vec<Problem> {
    let mut known: BTreeMap<(G, String), usize> = BTreeMap::new();
    let mut all: Vec<Problem> = Vec::new();
    for (group, problem) in problems {
        let Some(text) = problem.of_nobody() else {
            all.push(problem);
            continue;
        };
        let position = *known.entry((group, text)).or_insert(all.len());
        match all.get_mut(position) {
            Some(first) => first.count_another(),
            None => all.push(problem),
        }
    }
    all
}
