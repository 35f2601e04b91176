//! Settings of a node group, independent of the origin of its description.

use std::collections::BTreeMap;

use crate::convert::NodeIdentity;
use crate::input::{InputError, Place};

/// Image alias of a group whose description names no image: the latest AL2023.
pub(super) const DEFAULT_ALIAS: &str = "al2023@latest";

/// Prefix of tags that describe future nodes to the Cluster Autoscaler.
pub(super) const TEMPLATE: &str = "k8s.io/cluster-autoscaler/node-template/";

/// A node group.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    pub(super) place: Place,
    /// Name of the group in AWS.
    pub(super) title: String,
    pub(super) cluster: Option<String>,
    /// Identity of its nodes in IAM, without a path.
    pub(super) identity: Option<NodeIdentity>,
    /// Source of its labels and taints.
    pub(super) origin: Origin,
    pub(super) subnets: Vec<String>,
    pub(super) alias: Option<&'static str>,
    /// Reason why no image is known.
    pub(super) imageless: Option<String>,
    /// Size of the disk for pods, in GiB.
    pub(super) disk: Option<u64>,
    pub(super) needs: Vec<Need>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) taints: Vec<Taint>,
    pub(super) tags: BTreeMap<String, String>,
    /// Maximum number of nodes.
    pub(super) most: Option<u64>,
    /// Time after which an unneeded node is removed; `None` for the default of the Cluster Autoscaler.
    pub(super) unneeded: Option<String>,
    /// Devices that a program on the nodes offers, by resource.
    pub(super) devices: BTreeMap<String, String>,
    /// Auto Scaling groups that belong to the group.
    pub(super) scales: Vec<String>,
    /// Settings in another form, one sentence each.
    pub(super) changed: Vec<String>,
    /// Settings without an equivalent, one sentence each.
    pub(super) lost: Vec<String>,
    /// Settings that cannot be converted, each with its fix.
    pub(super) wrong: Vec<(String, String)>,
}

/// A taint of the group's nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Taint {
    pub(super) key: String,
    pub(super) value: String,
    pub(super) effect: String,
}

/// Description from which labels and taints come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Origin {
    /// Fields of a managed node group.
    #[default]
    NodeGroup,
    /// Tags of an Auto Scaling group.
    Tags,
}

/// A requirement of the group's nodes.
#[derive(Clone, Debug)]
pub(super) struct Need {
    pub(super) key: &'static str,
    pub(super) operator: &'static str,
    pub(super) values: Vec<String>,
}

impl Need {
    pub(super) fn one_of(key: &'static str, values: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { key, operator: "In", values: values.into_iter().map(Into::into).collect() }
    }

    pub(super) fn bound(key: &'static str, operator: &'static str, value: u64) -> Self {
        Self { key, operator, values: vec![value.to_string()] }
    }
}

impl Group {
    /// Returns the name of the group's NodePool, with only characters that a Kubernetes name may have.
    pub(super) fn name(&self) -> String {
        let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
        let name: String = self.title.chars().map(letter).take(63).collect();
        name.trim_matches('-').to_owned()
    }

    /// Returns an error for each required setting that the description lacks.
    pub(super) fn faults(&self) -> Vec<InputError> {
        let title = &self.title;
        let fault = |problem: String, cure: &str| InputError::new(&self.place, problem, cure);
        let mut faults = Vec::new();
        if self.name().is_empty() {
            faults.push(fault("a group has no name".to_owned(), "describe it with its name"));
        }
        if self.identity.is_none() {
            let cure = "set --role NAME or --instance-profile NAME";
            faults.push(fault(format!("{title}: unknown role of its nodes"), cure));
        }
        if self.subnets.is_empty() {
            faults.push(fault(format!("{title}: no subnets"), "describe a group in a VPC"));
        }
        if self.cluster.is_none() {
            let cure = "set --cluster-name NAME, or add the tag kubernetes.io/cluster/NAME: owned to it";
            faults.push(fault(format!("{title}: unknown cluster"), cure));
        }
        if let Some(why) = &self.imageless {
            let cure = "write the EC2NodeClass of the group by hand: amiSelectorTerms with the image of its launch \
                 template (examples/)";
            faults.push(fault(format!("{title}: {why}"), cure));
        }
        faults.extend(self.wrong.iter().map(|(problem, cure)| fault(format!("{title}: {problem}"), cure)));
        faults
    }

    /// Returns an error about an object of the group in terms of the description: the tag or field that causes it.
    pub(super) fn described(&self, error: InputError) -> InputError {
        let Some(source) = self.source(&error.field) else { return InputError { place: self.place.clone(), ..error } };
        let (_, problem) = error.problem.split_once(&format!("{}: ", error.field)).unwrap_or(("", &error.problem));
        InputError { place: self.place.clone(), problem: format!("{}: {source}: {problem}", self.title), ..error }
    }

    /// Returns the tag or field from which a field of the NodePool comes.
    fn source(&self, field: &str) -> Option<String> {
        const LABELS: &str = "spec.template.metadata.labels[";
        const TAINTS: &str = "spec.template.spec.taints[";
        if let Some(key) = field.strip_prefix(LABELS).and_then(|rest| rest.strip_suffix(']')) {
            return Some(match self.origin {
                Origin::Tags => format!("tag {TEMPLATE}label/{key}"),
                Origin::NodeGroup => format!("labels.{key}"),
            });
        }
        let (index, _) = field.strip_prefix(TAINTS)?.split_once(']')?;
        let taint = self.taints.get(index.parse::<usize>().ok()?)?;
        Some(match self.origin {
            Origin::Tags => format!("tag {TEMPLATE}taint/{}", taint.key),
            Origin::NodeGroup => format!("taints[{index}]"),
        })
    }

    /// Returns the error for two groups whose NodePools would have the same name.
    pub(super) fn namesake(&self, other: &Self) -> InputError {
        let problem = format!(
            "{}: its NodePool would have the name {} of the NodePool of {}",
            self.title,
            self.name(),
            other.title
        );
        InputError::new(&self.place, problem, "convert one of them separately and rename its objects")
    }

    /// Stores the maximum number of nodes, and reports the minimum, which has no equivalent.
    pub(super) fn sizes(&mut self, least: Option<u64>, most: Option<u64>) {
        self.most = most;
        if let Some(least) = least.filter(|least| *least > 0) {
            self.lost.push(format!(
                "its minimum of {least} nodes: a NodePool has as many as pods need; keep free capacity with a \
                 CapacityBuffer, or nodes with a NodePool with replicas"
            ));
        }
    }

    /// Reports the settings of the group's launch template, which no description of a group contains.
    pub(super) fn template(&mut self, name: &str) {
        self.lost.push(format!(
            "launch template {name}: its user data, security groups, disks and metadata options are not in this \
             description; compare them with the EC2NodeClass"
        ));
    }
}
