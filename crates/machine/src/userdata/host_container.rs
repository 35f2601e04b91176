//! Where Bottlerocket's settings hold the agent's: a host container gets a text of its own, in base64.

use toml::{Table, Value};

use crate::agent::HOST_CONTAINER;

/// What the agent's host container is told, as it is written; `None` where these are no settings of Bottlerocket, or not with an agent.
pub(super) fn user_data(data: &[u8]) -> Option<String> {
    let settings: Table = std::str::from_utf8(data).ok()?.parse().ok()?;
    let path = ["settings", "host-containers", HOST_CONTAINER];
    let container = path.iter().try_fold(&settings, |table, name| table.get(*name)?.as_table())?;
    container.get("user-data").and_then(Value::as_str).map(str::to_owned)
}
