//! Names that must resolve while an Outpost is disconnected from its region. The API server's name is written into the hosts
//! file between two marker lines. A change of addresses replaces only the lines of the agent.

use machine::nodeconfig::NodeConfigError;
use machine::quote::quote;

use super::facts::Facts;
use super::plan::{BootstrapPlan, PlanPart};

/// The hosts file.
pub const PATH: &str = "/etc/hosts";
const BEGIN: &str = "# BEGIN kerf-agent: the cluster's API server";
const END: &str = "# END kerf-agent";

pub(super) fn add(plan: &mut BootstrapPlan, facts: &Facts) -> Result<(), NodeConfigError> {
    let cluster = &facts.user_data.config.spec.cluster;
    if !cluster.on_outpost() {
        return Ok(());
    }
    let name = api_host(&cluster.api_server_endpoint)?;
    let lines: String = facts.api_addresses.iter().map(|address| format!("{address}\t{name}\n")).collect();
    plan.put(PlanPart::Kubelet, PATH, with_block(&facts.software.hosts, &lines));
    Ok(())
}

/// Returns `hosts` with our block at its end, in place of an earlier block.
fn with_block(hosts: &str, lines: &str) -> String {
    let mut ours = false;
    let mut kept = String::new();
    for line in hosts.lines() {
        ours = ours || line == BEGIN;
        if !ours {
            kept.push_str(line);
            kept.push('\n');
        }
        ours = ours && line != END;
    }
    format!("{kept}{BEGIN}\n{lines}{END}\n")
}

/// Returns the host of a URL, without scheme, port and path.
///
/// # Errors
/// [`NodeConfigError::Invalid`] for text that is no URL of a host.
pub fn api_host(endpoint: &str) -> Result<&str, NodeConfigError> {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[').and_then(|v6| v6.split_once(']')) {
        Some((address, _)) => address,
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    if host.is_empty() || host.contains(char::is_whitespace) {
        let (field, cure) = ("spec.cluster.apiServerEndpoint", "write the URL of the API server, such as https://NAME");
        return Err(NodeConfigError::Invalid { field, value: quote(endpoint), cure });
    }
    Ok(host)
}
