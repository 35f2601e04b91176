//! SSM parameters, with which AWS publishes the newest image ids.

use aws_sdk_ssm::Client;
use cloud::{CloudError, ErrorKind};

use crate::failure::failure;

pub(crate) async fn parameter(ssm: &Client, name: &str) -> Result<Option<String>, CloudError> {
    match ssm.get_parameter().name(name).send().await.map_err(|error| failure("GetParameter", error)) {
        Ok(answer) => Ok(answer.parameter.and_then(|parameter| parameter.value)),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
