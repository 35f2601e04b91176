//! Insufficient capacity of the cheapest offerings: the same NodeClaim is launched with other offerings at once, and no
//! offering is requested twice.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use api::label;
use cloud::FleetRequest;
use cloud::fake::CapacityOutage;
use kube::ResourceExt;
use testbed::eventually;

use super::{Demo, PATIENCE};

pub async fn run(demo: &mut Demo) -> Result<()> {
    let Demo { reporter, environment, cluster, .. } = demo;
    reporter.section("5. Insufficient spot capacity");
    let spot = CapacityOutage { capacity_type: Some(label::CAPACITY_SPOT.to_owned()), ..CapacityOutage::default() };
    let dry = async {
        environment.ec2.start_outage(spot);
        Ok(())
    };
    reporter.line("no zone has spot capacity of any type", dry).await?;
    let before: Vec<String> = cluster.claims().await?.iter().map(ResourceExt::name_any).collect();
    let fleets = environment.ec2.fleets().len();
    let free: usize = cluster.free_cpus().await?.iter().map(|(_, free)| free).sum();
    let wanted = cluster.running().await?.len() + free + 1;
    reporter.line(&format!("inflate is scaled to {wanted}, one more than fits"), cluster.scale(wanted)).await?;
    let running = eventually("all pods to run", PATIENCE, async || {
        let running = cluster.running().await?.len();
        ensure!(running == wanted, "{running} of {wanted} pods run");
        Ok(Some(()))
    });
    reporter.line("all of them run", running).await?;
    let calls = environment.ec2.fleets().split_off(fleets);
    let tried = async { on_demand_at_last(&calls) };
    reporter
        .line(
            "CreateFleet for spot was refused, no offering was requested twice, and the last request was on-demand",
            tried,
        )
        .await?;
    let one = async {
        let claims = cluster.claims().await?;
        let new: Vec<_> = claims.iter().filter(|claim| !before.contains(&claim.name_any())).collect();
        ensure!(new.len() == 1, "{} new NodeClaims", new.len());
        let bought = new[0].labels().get(label::CAPACITY_TYPE).context("it has no capacity type")?;
        ensure!(bought == label::CAPACITY_ON_DEMAND, "it was bought as {bought}");
        Ok(())
    };
    reporter.line("all for the same NodeClaim", one).await?;
    environment.ec2.end_outages();
    Ok(())
}

fn on_demand_at_last(calls: &[FleetRequest]) -> Result<()> {
    let bought: Vec<&str> = calls.iter().map(|call| call.capacity_type.as_str()).collect();
    let (last, refused) = bought.split_last().context("CreateFleet was not called")?;
    let spot_first = !refused.is_empty() && refused.iter().all(|one| *one == label::CAPACITY_SPOT);
    ensure!(spot_first && *last == label::CAPACITY_ON_DEMAND, "CreateFleet asked for {bought:?}");
    let overrides = calls
        .iter()
        .flat_map(|call| call.configs.iter().flat_map(|config| &config.overrides).zip(std::iter::repeat(call)));
    let mut asked = BTreeSet::new();
    for (pool, call) in overrides {
        let name = (&call.capacity_type, &pool.instance_type, &pool.zone);
        ensure!(asked.insert(name), "{name:?} was asked twice");
    }
    Ok(())
}
