//! Units of systemd, started through `systemctl` and waited for.

use std::time::Duration;

use super::Machine;
use crate::bootstrap::plan::BootstrapPlan;
use crate::bootstrap::run_after;
use crate::host::{Host, HostError};

/// How often to look whether a unit is active.
const POLL: Duration = Duration::from_millis(250);

/// Restarts units that have no state to wait for, once systemd has read their files.
pub(super) async fn restart(machine: &Machine, units: &[String]) -> Result<(), HostError> {
    machine.host.systemctl(&["daemon-reload"]).await?;
    for unit in units {
        machine.host.systemctl(&["restart", unit]).await?;
        log::info!(unit = unit.as_str(); "restarted unit");
    }
    Ok(())
}

/// Starts the units of the daemons that were asked for, in order, each once the one before is active and its programs
/// have run.
pub(super) async fn start(machine: &Machine, plan: &BootstrapPlan, daemons: &[String]) -> Result<(), HostError> {
    let wanted = |unit: &&String| daemons.iter().any(|name| unit.strip_suffix(".service").unwrap_or(unit) == name);
    let units: Vec<&String> = plan.units.iter().filter(wanted).collect();
    if units.is_empty() {
        return Ok(());
    }
    machine.host.systemctl(&["daemon-reload"]).await?;
    for unit in units {
        restart_loaded(&machine.host, unit).await?;
        until_active(&machine.host, unit).await;
        log::info!(unit = unit.as_str(); "a unit is active");
        run_after(&machine.host, plan, unit).await?;
    }
    Ok(())
}

/// Restarts a unit; one whose first start fails is left to systemd, which tries again, unless there is no such unit.
async fn restart_loaded(host: &Host, unit: &str) -> Result<(), HostError> {
    let Err(error) = host.output_within("systemctl", &["restart", unit], None).await else { return Ok(()) };
    let state = host.output("systemctl", &["show", "--property=LoadState", "--value", unit]).await?;
    if state.trim() != "loaded" {
        return Err(error);
    }
    log::warn!(error:% = error; "unit failed, waiting for systemd to restart it");
    Ok(())
}

/// Waits until a unit is active. There is no deadline: systemd goes on restarting it, and whoever wants one sets it.
pub async fn until_active(host: &Host, unit: &str) {
    let mut said = false;
    while host.systemctl(&["is-active", "--quiet", unit]).await.is_err() {
        if !said {
            log::info!(unit; "waiting for a unit to become active");
            said = true;
        }
        tokio::time::sleep(POLL).await;
    }
}
