//! JSON protocol of SSM: GetParameter, which Kerf uses, and GetParametersByPath, which others use.

use cloud::Cloud;
use cloud::fake::FakeCloud;
use serde_json::{Value, json};

use super::answer::{self, Failure, Reply, invalid};

/// Runs `operation`.
pub(super) async fn act(cloud: &FakeCloud, operation: &str, body: &[u8]) -> Result<Reply, Failure> {
    let request = answer::json(body)?;
    let text = |field: &str| request.get(field).and_then(Value::as_str).unwrap_or_default();
    match operation {
        "GetParameter" => one(cloud, text("Name")).await,
        "GetParametersByPath" => Ok(below(cloud, text("Path"))),
        _ => Err(invalid("UnknownOperationException", format!("{operation} is not known here"))),
    }
}

async fn one(cloud: &FakeCloud, name: &str) -> Result<Reply, Failure> {
    let Some(value) = cloud.parameter(name).await? else {
        return Err(invalid("ParameterNotFound", format!("Parameter {name} not found.")));
    };
    let answer = json!({"Parameter": parameter(name, &value)});
    Ok(Reply { body: answer.to_string(), summary: value })
}

/// Returns the parameters of all levels below the path, on one page.
fn below(cloud: &FakeCloud, path: &str) -> Reply {
    let found = cloud.account().parameters_below(path);
    let parameters: Vec<Value> = found.iter().map(|(name, value)| parameter(name, value)).collect();
    let summary = format!("{} parameters", parameters.len());
    Reply { body: json!({"Parameters": parameters}).to_string(), summary }
}

fn parameter(name: &str, value: &str) -> Value {
    json!({"Name": name, "Type": "String", "Value": value, "Version": 1})
}
