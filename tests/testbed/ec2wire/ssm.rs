//! JSON protocol of SSM, of which Kerf uses one operation.

use cloud::Cloud;
use serde_json::Value;

use super::answer::{Failure, Reply, invalid, json};

/// Runs `operation`.
pub(super) async fn act(cloud: &dyn Cloud, operation: &str, body: &[u8]) -> Result<Reply, Failure> {
    if operation != "GetParameter" {
        return Err(invalid("UnknownOperationException", format!("{operation} is not known here")));
    }
    let request = json(body)?;
    let name = request.get("Name").and_then(Value::as_str).unwrap_or_default();
    let Some(value) = cloud.parameter(name).await? else {
        return Err(invalid("ParameterNotFound", format!("Parameter {name} not found.")));
    };
    let answer = serde_json::json!({"Parameter": {"Name": name, "Type": "String", "Value": value, "Version": 1}});
    Ok(Reply { body: answer.to_string(), summary: value })
}
