//! What a node group means, wherever its description is from.

use std::collections::BTreeMap;

use crate::input::{InputError, Place};

/// The images of a group that does not say which: today's.
pub(super) const DEFAULT_ALIAS: &str = "al2023@latest";

/// A node group.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    pub(super) place: Place,
    /// Its name at AWS.
    pub(super) title: String,
    pub(super) cluster: Option<String>,
    /// The role of its nodes, without a path.
    pub(super) role: Option<String>,
    pub(super) subnets: Vec<String>,
    pub(super) alias: Option<&'static str>,
    /// Why no image is known, when none can be.
    pub(super) imageless: Option<String>,
    /// GiB of the disk that pods use.
    pub(super) disk: Option<u64>,
    pub(super) needs: Vec<Need>,
    pub(super) labels: BTreeMap<String, String>,
    /// Key, value, effect.
    pub(super) taints: Vec<(String, String, String)>,
    pub(super) tags: BTreeMap<String, String>,
    /// Nodes at most.
    pub(super) most: Option<u64>,
    /// Auto Scaling groups that belong to it.
    pub(super) scales: Vec<String>,
    /// What has no equal, one sentence each.
    pub(super) lost: Vec<String>,
}

/// A requirement of its nodes.
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
    /// The name of its pool: letters that a Kubernetes name may have.
    pub(super) fn name(&self) -> String {
        let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
        let name: String = self.title.chars().map(letter).take(63).collect();
        name.trim_matches('-').to_owned()
    }

    /// What a group must say of itself.
    pub(super) fn faults(&self) -> Vec<InputError> {
        let title = &self.title;
        let fault = |problem: String, cure: &str| InputError::new(&self.place, problem, cure);
        let mut faults = Vec::new();
        if self.name().is_empty() {
            faults.push(fault("a group has no name".to_owned(), "describe it with its name"));
        }
        if self.role.is_none() {
            faults.push(fault(format!("{title}: unknown role of its nodes"), "set --role NAME"));
        }
        if self.subnets.is_empty() {
            faults.push(fault(format!("{title}: no subnets"), "describe a group in a VPC"));
        }
        if self.cluster.is_none() {
            let cure = "add the tag kubernetes.io/cluster/NAME: owned to it, as the Cluster Autoscaler requires";
            faults.push(fault(format!("{title}: unknown cluster"), cure));
        }
        if let Some(why) = &self.imageless {
            let cure = "write the EC2NodeClass of the group by hand: amiSelectorTerms with the image of its launch \
                 template (examples/)";
            faults.push(fault(format!("{title}: {why}"), cure));
        }
        faults
    }

    /// Two groups whose pools would have one name.
    pub(super) fn namesake(&self, other: &Self) -> InputError {
        let problem = format!(
            "{}: its NodePool would have the name {} of the NodePool of {}",
            self.title,
            self.name(),
            other.title
        );
        InputError::new(&self.place, problem, "convert one of them separately and rename its objects")
    }

    /// Notes how many nodes it keeps and may have.
    pub(super) fn sizes(&mut self, least: Option<u64>, most: Option<u64>) {
        self.most = most;
        if let Some(least) = least.filter(|least| *least > 0) {
            self.lost.push(format!(
                "its minimum of {least} nodes: a NodePool has as many as pods need; keep free capacity with a \
                 CapacityBuffer, or nodes with a NodePool with replicas"
            ));
        }
    }

    /// Notes what its launch template says, which no description of a group holds.
    pub(super) fn template(&mut self, name: &str) {
        self.lost.push(format!(
            "launch template {name}: its user data, security groups, disks and metadata options are not in this \
             description; compare them with the EC2NodeClass"
        ));
    }
}
