//! Settings of the agent in Bottlerocket's settings: a host container has its own user data, in base64.

use toml::Value;

use crate::agent::HOST_CONTAINER;
use crate::tables;

/// Returns the user data of the agent's host container, as written. Returns `None` if the text is not Bottlerocket settings, or
/// has no agent.
pub(super) fn user_data(data: &[u8]) -> Option<String> {
    let settings = tables::parse(std::str::from_utf8(data).ok()?).ok()?;
    let path = ["settings", "host-containers", HOST_CONTAINER];
    let container = path.iter().try_fold(&settings, |table, name| table.get(*name)?.as_table())?;
    container.get("user-data").and_then(Value::as_str).map(str::to_owned)
}
