//! Carries a launch out: templates first, then the fleet. Makes no choices.

use jiff::Timestamp;
use thiserror::Error;

use super::{LaunchChoice, TEMPLATE_PREFIX, Templates};
use crate::calls::{Cloud, FleetAnswer, FleetRequest};
use crate::error::{CloudError, ErrorKind};

/// At which step a launch failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BuyError {
    /// A launch template could not be made; nothing was bought.
    #[error("failed to create launch template {TEMPLATE_PREFIX}*")]
    Template(#[source] CloudError),
    /// The fleet failed; [`CloudError::outcome_unknown`] says whether something may have been bought.
    #[error("failed to create fleet")]
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

/// Makes the templates that are not known to exist and creates the fleet. Templates that someone deleted behind our back
/// are made again, once.
///
/// # Errors
/// When EC2 refuses or does not answer.
pub async fn buy(
    cloud: &dyn Cloud,
    templates: &Templates,
    choice: &LaunchChoice,
    request: &FleetRequest,
    now: Timestamp,
) -> Result<FleetAnswer, BuyError> {
    make_templates(cloud, templates, choice, now).await.map_err(BuyError::Template)?;
    match cloud.create_fleet(request).await {
        Err(error) if error.kind == ErrorKind::NotFound && error.code.starts_with("InvalidLaunchTemplate") => {
            templates.forget(choice.templates.iter().map(|template| &template.name));
            make_templates(cloud, templates, choice, now).await.map_err(BuyError::Template)?;
            cloud.create_fleet(request).await.map_err(BuyError::Fleet)
        }
        answer => answer.map_err(BuyError::Fleet),
    }
}

/// One that exists already is the right one: its name is a hash of its content. Launches that come together have each made once.
async fn make_templates(
    cloud: &dyn Cloud,
    templates: &Templates,
    choice: &LaunchChoice,
    now: Timestamp,
) -> Result<(), CloudError> {
    for template in templates.missing(choice, now) {
        let making = templates.turn(&template.name);
        let _turn = making.lock().await;
        if templates.is_known(&template.name) {
            continue;
        }
        match cloud.create_launch_template(template).await {
            Err(error) if error.kind != ErrorKind::AlreadyExists => return Err(error),
            _ => templates.exists(template, now),
        }
    }
    Ok(())
}
