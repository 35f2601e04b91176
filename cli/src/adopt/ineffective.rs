//! Settings without effect: keys, limits and fields that nothing reads, and user data that works against Kerf's own.

use std::collections::BTreeSet;

use api::annotation;
use serde_json::Value;

use super::report::Finding;
use super::{cluster, named, text};
use crate::input::{self, Objects};
use crate::instance::userdata;
use crate::plan;

pub(super) fn findings(objects: &[&Value]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = objects.iter().flat_map(|object| of_object(object)).collect();
    let known = read(objects);
    findings.extend(known.pools.iter().filter_map(|pool| plan::hints::hint(pool)).map(|hint| of_sentence(&hint)));
    findings.extend(userdata::warnings(&known).iter().map(|warning| of_sentence(warning)));
    findings
}

/// Returns the settings of one object. The kubelet settings of an annotation worked under Karpenter 1.0, so they come first.
fn of_object(object: &Value) -> Vec<Finding> {
    let settings = input::ineffective_settings(text(object, "/kind"), object).into_iter();
    let finding = |setting: api::ineffective::Ineffective| {
        let was_read = setting.field.contains(annotation::KUBELET_CONVERSION);
        let found = if was_read { Finding::before_start } else { Finding::no_effect };
        found(named(object), setting.to_string())
    };
    settings.map(finding).collect()
}

/// Returns the NodePools and classes that can be read; others are findings of their own.
fn read(objects: &[&Value]) -> Objects {
    let kinds = BTreeSet::from(["EC2NodeClass", "NodePool"]);
    let mut all = Objects::default();
    for object in objects.iter().filter(|object| kinds.contains(text(object, "/kind"))) {
        let written = serde_json::to_string(object).unwrap_or_default();
        let Ok(manifests) = input::read_text(&cluster().file, &written) else { continue };
        all.pools.extend(manifests.objects.pools);
        all.classes.extend(manifests.objects.classes);
    }
    all
}

/// Splits a sentence into its object and the rest.
fn of_sentence(sentence: &str) -> Finding {
    let (object, rest) = sentence.split_once(": ").unwrap_or(("", sentence));
    Finding::no_effect(object, rest)
}
