//! Execution of a launch without any choice: first the launch templates, then the fleet.

use jiff::Timestamp;
use thiserror::Error;

use super::{LaunchChoice, Templates};
use crate::calls::{Cloud, CloudError, ErrorKind, FleetAnswer, FleetRequest};
use crate::tags::TEMPLATE_PREFIX;

/// The step at which a launch failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CreateFleetError {
    /// A launch template could not be created; nothing was launched.
    #[error("failed to create launch template {TEMPLATE_PREFIX}*")]
    Template(#[source] CloudError),
    /// The fleet failed; [`CloudError::outcome_unknown`] reports whether instances may have been launched.
    #[error("failed to create fleet")]
    Fleet(#[source] CloudError),
}

impl CreateFleetError {
    /// Returns the error of the failed call.
    #[must_use]
    pub fn cause(&self) -> &CloudError {
        match self {
            Self::Template(error) | Self::Fleet(error) => error,
        }
    }

    /// Reports whether instances may have been launched nevertheless. The caller then retries with the same request.
    #[must_use]
    pub fn may_have_launched(&self) -> bool {
        matches!(self, Self::Fleet(error) if error.outcome_unknown())
    }
}

/// Creates the missing launch templates and the fleet. Templates that another program has deleted are created again, once.
///
/// # Errors
/// When EC2 refuses a call or does not answer.
pub async fn create_fleet(
    cloud: &dyn Cloud,
    templates: &Templates,
    choice: &LaunchChoice,
    request: &FleetRequest,
    now: Timestamp,
) -> Result<FleetAnswer, CreateFleetError> {
    make_templates(cloud, templates, choice, now).await.map_err(CreateFleetError::Template)?;
    match cloud.create_fleet(request).await {
        Err(error) if error.kind == ErrorKind::NotFound && error.code.starts_with("InvalidLaunchTemplate") => {
            templates.forget(choice.templates.iter().map(|template| &template.name));
            make_templates(cloud, templates, choice, now).await.map_err(CreateFleetError::Template)?;
            cloud.create_fleet(request).await.map_err(CreateFleetError::Fleet)
        }
        answer => answer.map_err(CreateFleetError::Fleet),
    }
}

/// Creates the missing launch templates. An existing template is the right one, because its name is a hash of its content.
/// Concurrent launches create each template once.
async fn make_templates(
    cloud: &dyn Cloud,
    templates: &Templates,
    choice: &LaunchChoice,
    now: Timestamp,
) -> Result<(), CloudError> {
    for template in templates.missing(choice, now) {
        let lock = templates.creation_lock(&template.name);
        let _creating = lock.lock().await;
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
