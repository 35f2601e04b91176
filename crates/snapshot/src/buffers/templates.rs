//! Pods of a PodTemplate or a workload, as the API server would admit them.

use std::fmt;

use api::capacitybuffer::ScalableRef;
use api::objects::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use planner::PodShape;

use crate::Input;
use crate::pods::admission::Admission;
use crate::pods::ignored::IgnoredReason;
use crate::pods::records::{NewestPods, PodOwner, Records};
use crate::pods::shapes;

/// The reason why the pods of a template cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateError {
    /// The PodTemplate does not exist.
    Missing {
        /// Name of the template.
        name: String,
    },
    /// A request is not a valid quantity.
    Quantity {
        /// Text of the quantity.
        text: String,
    },
    /// Kerf does not launch nodes for pods of this template.
    Pod {
        /// Reason.
        reason: IgnoredReason,
    },
}

impl fmt::Display for TemplateError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { name } => write!(out, "PodTemplate {name} does not exist: create it"),
            Self::Quantity { text } => {
                write!(out, "{text:?} is not a quantity: write an integer or decimal such as 2 or 4Gi")
            }
            Self::Pod { reason } => write!(out, "no node can be launched for its pods: {reason}"),
        }
    }
}

/// Objects that define the pods of buffers and requests.
pub(super) struct PodSource<'s, 'a> {
    pub(super) input: &'a Input<'a>,
    pub(super) admission: &'s Admission<'s>,
    pub(super) records: &'s Records,
}

impl PodSource<'_, '_> {
    /// Returns the shape of one pod of a PodTemplate, with the metadata of the template.
    pub(super) fn named(&self, namespace: &str, name: &str) -> Result<(PodShape, &ObjectMeta), TemplateError> {
        let found = self.input.pod_templates.iter().find(|it| is_named(&it.metadata, namespace, name));
        let found = found.ok_or_else(|| TemplateError::Missing { name: name.to_owned() })?;
        Ok((self.shape_of_template(namespace, &found.template)?, &found.metadata))
    }

    /// Returns the shape of one pod of a workload: that of its newest real pods, which admission and webhooks have changed already,
    /// else that of the template.
    pub(super) fn shape_of_workload(
        &self,
        namespace: &str,
        named: &ScalableRef,
        template: &PodTemplateSpec,
    ) -> Result<PodShape, TemplateError> {
        let owner = PodOwner { namespace, kind: &named.kind, name: &named.name, uid: None };
        let Some(NewestPods { shape, revision }) = self.records.newest_pods(&owner) else {
            return self.shape_of_template(namespace, template);
        };
        let mut labels = template.metadata.labels.clone().unwrap_or_default();
        labels.extend(revision);
        Ok(PodShape { labels, ..shape })
    }

    /// Returns the shape of one pod of a template, as the API server would admit it. Volumes are ignored, because the template's
    /// volumes belong to other pods.
    fn shape_of_template(&self, namespace: &str, template: &PodTemplateSpec) -> Result<PodShape, TemplateError> {
        let refused = |error| TemplateError::Pod { reason: IgnoredReason::Refused(error) };
        let spec = self.admission.admit(namespace, &template.spec).map_err(refused)?;
        let labels = template.metadata.labels.clone().unwrap_or_default();
        let parsed = shapes::pod_shape(namespace, &labels, &spec);
        match parsed.refusal {
            Some(IgnoredReason::Quantity { text }) => Err(TemplateError::Quantity { text }),
            Some(reason) => Err(TemplateError::Pod { reason }),
            None => Ok(PodShape { labels, ..parsed.shape }),
        }
    }
}

pub(super) fn is_named(metadata: &ObjectMeta, namespace: &str, name: &str) -> bool {
    metadata.name.as_deref() == Some(name) && metadata.namespace.as_deref().unwrap_or_default() == namespace
}

pub(super) fn full_name(metadata: &ObjectMeta) -> String {
    let text_of = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}/{}", text_of(&metadata.namespace), text_of(&metadata.name))
}
