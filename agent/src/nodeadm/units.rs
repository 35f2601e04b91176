//! Start of systemd units through `systemctl`, and the wait for them.

use std::time::Duration;

use super::Machine;
use crate::bootstrap::plan::BootstrapPlan;
use crate::bootstrap::run_after;
use crate::host::{Host, HostError};

/// Interval between checks of a unit's state.
const POLL: Duration = Duration::from_millis(250);

/// Restarts units without waiting for a state, once systemd has read their files.
pub(super) async fn restart(machine: &Machine, units: &[String]) -> Result<(), HostError> {
    machine.host.systemctl(&["daemon-reload"]).await?;
    for unit in units {
        machine.host.systemctl(&["restart", unit]).await?;
        log::info!(unit = unit.as_str(); "restarted unit");
    }
    Ok(())
}

/// Starts the units of the requested daemons, in order. Each starts once the unit before is active and its programs have run.
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

/// Restarts a unit. systemd retries a unit whose first start fails; a missing unit is an error.
async fn restart_loaded(host: &Host, unit: &str) -> Result<(), HostError> {
    let Err(error) = host.output_within("systemctl", &["restart", unit], None).await else { return Ok(()) };
    let state = host.output("systemctl", &["show", "--property=LoadState", "--value", unit]).await?;
    if state.trim() != "loaded" {
        return Err(error);
    }
    log::warn!(error:% = error; "unit failed, waiting for systemd to restart it");
    Ok(())
}

/// Waits until a unit is active. The wait has no deadline: systemd continues to restart the unit, and a caller may set a limit
/// of its own.
pub async fn until_active(host: &Host, unit: &str) {
    let mut logged = false;
    while host.systemctl(&["is-active", "--quiet", unit]).await.is_err() {
        if !logged {
            log::info!(unit; "waiting for a unit to become active");
            logged = true;
        }
        tokio::time::sleep(POLL).await;
    }
}
