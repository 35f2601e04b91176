//! Carries a launch out: templates first, then the fleet. Makes no choices.

use std::collections::BTreeSet;

use api::label;
use thiserror::Error;

use super::{CLUSTER_TAG, Choice, TEMPLATE_PREFIX};
use crate::calls::{Cloud, FleetAnswer, FleetRequest, Tags};
use crate::error::{CloudError, Kind};

/// At which step a launch failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BuyError {
    /// A launch template could not be made; nothing was bought.
    #[error("launch template {TEMPLATE_PREFIX}* could not be made")]
    Template(#[source] CloudError),
    /// The fleet failed; [`CloudError::outcome_unknown`] says whether something may have been bought.
    #[error("the fleet could not be made")]
    Fleet(#[source] CloudError),
}

impl BuyError {
    /// The failed call.
    #[must_use]
    pub fn cause(&self) -> &CloudError {
        match self {
            Self::Template(error) | Self::Fleet(error) => error,
        }
    }

    /// Whether instances may have been bought nevertheless: try again with the same request.
    #[must_use]
    pub fn may_have_bought(&self) -> bool {
        matches!(self, Self::Fleet(error) if error.outcome_unknown())
    }
}

/// Makes the templates that are missing and creates the fleet. A template that somebody deleted in between is made again,
/// once.
///
/// # Errors
/// When EC2 refuses or does not answer.
pub async fn buy(cloud: &dyn Cloud, choice: &Choice, request: &FleetRequest) -> Result<FleetAnswer, BuyError> {
    let known = templates_of_class(cloud, choice).await.map_err(BuyError::Template)?;
    make_templates(cloud, choice, &known).await.map_err(BuyError::Template)?;
    match cloud.create_fleet(request).await {
        Err(error) if error.kind == Kind::NotFound && error.code.starts_with("InvalidLaunchTemplateName") => {
            make_templates(cloud, choice, &BTreeSet::new()).await.map_err(BuyError::Template)?;
            cloud.create_fleet(request).await.map_err(BuyError::Fleet)
        }
        answer => answer.map_err(BuyError::Fleet),
    }
}

/// Names of the class's templates, in one question: most launches find all of theirs there.
async fn templates_of_class(cloud: &dyn Cloud, choice: &Choice) -> Result<BTreeSet<String>, CloudError> {
    let shared = |key: &str| choice.tags.get(key).map(|value| (key.to_owned(), value.clone()));
    let tags: Tags = [CLUSTER_TAG, label::EC2_NODE_CLASS].into_iter().filter_map(shared).collect();
    let found = cloud.launch_templates(&tags).await?;
    Ok(found.into_iter().map(|template| template.name).collect())
}

/// A template's name is a hash of its content: one that exists is the right one.
async fn make_templates(cloud: &dyn Cloud, choice: &Choice, known: &BTreeSet<String>) -> Result<(), CloudError> {
    for template in choice.templates.iter().filter(|template| !known.contains(&template.name)) {
        match cloud.create_launch_template(template).await {
            Err(error) if error.kind != Kind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
