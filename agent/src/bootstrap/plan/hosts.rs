//! Names that must resolve while an Outpost is disconnected from its region. The API server's name is written into the hosts
//! file between two marker lines. A change of addresses replaces only the lines of the agent.

use machine::nodeconfig::NodeConfigError;

use super::{BootstrapPlan, PlanPart};
use crate::bootstrap::facts::{Facts, HOSTS_FILE, api_host};

const BEGIN: &str = "# BEGIN kerf-agent: the cluster's API server";
const END: &str = "# END kerf-agent";

pub(super) fn add(plan: &mut BootstrapPlan, facts: &Facts) -> Result<(), NodeConfigError> {
    let cluster = &facts.user_data.config.spec.cluster;
    if !cluster.on_outpost() {
        return Ok(());
    }
    let name = api_host(&cluster.api_server_endpoint)?;
    let lines: String = facts.api_addresses.iter().map(|address| format!("{address}\t{name}\n")).collect();
    plan.put(PlanPart::Kubelet, HOSTS_FILE, with_block(&facts.software.hosts, &lines));
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
