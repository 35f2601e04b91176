//! Heartbeats of a node: the lease every ten seconds, and the status after a change and at intervals.

use std::time::Instant;

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::node::{self, Conditions};
use super::run::{PAUSE, Work};

/// Namespace of node leases.
const NAMESPACE: &str = "kube-node-lease";
/// Duration of a lease, in seconds.
const DURATION: u32 = 40;

/// Renews the lease forever. As in kubelet, a lease is never created for a removed Node, because nothing would delete it.
pub async fn renew_lease(work: &Work) {
    loop {
        let pause = match renew(work).await {
            Ok(()) => work.options.timing.lease,
            Err(error) => {
                work.log(format_args!("cannot renew the lease: {error:#}"));
                PAUSE.max(work.options.timing.lease / 2)
            }
        };
        tokio::time::sleep(pause).await;
    }
}

async fn renew(work: &Work) -> Result<()> {
    let name = &work.settings.name;
    let leases = Api::<Lease>::namespaced(work.client.clone(), NAMESPACE);
    let renewed = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let spec = json!({"holderIdentity": name, "leaseDurationSeconds": DURATION, "renewTime": renewed});
    let patched = leases.patch(name, &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await;
    match patched {
        Ok(_) => return Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => return Err(error.into()),
    }
    let node = Api::<Node>::all(work.client.clone()).get(name).await.context("the Node is gone")?;
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.metadata.uid});
    let lease = json!({"metadata": {"name": name, "ownerReferences": [owner]}, "spec": spec});
    let lease = serde_json::from_value(lease).context("the stand-in made a Lease that is none")?;
    leases.create(&PostParams::default(), &lease).await.context("cannot make the lease")?;
    Ok(())
}

/// Reports the status forever: at once, when the network becomes ready or not ready, and every [`Timing::status`].
///
/// [`Timing::status`]: super::Timing::status
pub async fn report_status(work: &Work, mut conditions: Conditions) {
    let mut last: Option<(bool, Instant)> = None;
    loop {
        let ready = work.network_ready();
        let has_news = work.takes_new_devices();
        let due = has_news
            || last.is_none_or(|(reported, at)| reported != ready || at.elapsed() >= work.options.timing.status);
        if due {
            match report(work, &mut conditions, ready).await {
                Ok(()) => last = Some((ready, Instant::now())),
                Err(error) => {
                    work.log(format_args!("cannot report the status: {error:#}"));
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        tokio::time::sleep(work.options.timing.poll).await;
    }
}

async fn report(work: &Work, conditions: &mut Conditions, ready: bool) -> Result<()> {
    let reported = conditions.report(ready, Timestamp::now());
    let mut status = node::status(&work.settings, &work.options.hardware, reported)?;
    for (resource, count) in work.devices() {
        status["capacity"][&resource] = json!(count.to_string());
        status["allocatable"][&resource] = json!(count.to_string());
    }
    if work.settings.external_cloud
        && let Some(status) = status.as_object_mut()
    {
        // The cloud provider's addresses are better, and it would restore them at once.
        status.remove("addresses");
    }
    let nodes = Api::<Node>::all(work.client.clone());
    let patch = Patch::Strategic(json!({"status": status}));
    nodes.patch_status(&work.settings.name, &PatchParams::default(), &patch).await?;
    work.log(if ready { "reported Ready" } else { "reported not Ready: no network" });
    Ok(())
}
