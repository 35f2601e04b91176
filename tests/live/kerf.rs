//! The side of Kerf: the controller with its chart's RBAC and a fake of EC2 over the wire.

use anyhow::Result;
use cloud::fake::FakeCloud;
use jiff::SignedDuration;
use serde_json::{Value, json};
use testbed::controller::{Aws, Ports, command};
use testbed::controlplane::ControlPlane;
use testbed::ec2wire::Ec2Wire;

use crate::catalogue::Catalogue;
use crate::machines::Machines;
use crate::subject::Subject;

const CLUSTER: &str = "live";
/// Region of the instance types in the fixtures.
const REGION: &str = "us-east-1";
/// Seconds from the launch of an instance to its Node: the same on both sides.
pub const BOOT: i64 = 1;

/// Fake of EC2 and the simulated nodes of its instances.
pub struct Ec2 {
    _wire: Ec2Wire,
    _machines: Machines,
}

pub async fn furnish(control_plane: &ControlPlane, catalogue: &Catalogue) -> Result<Subject> {
    control_plane.apply_crds().await?;
    control_plane.apply_rights().await?;
    let ec2 = FakeCloud::builder(REGION)
        .cluster(CLUSTER)
        .only_types(&catalogue.names())
        .pending_for(SignedDuration::from_secs(BOOT))
        .build()?;
    let wire = Ec2Wire::start(ec2.clone(), None).await?;
    let url = wire.url();
    let command = command(control_plane, Aws { endpoint: &url, region: REGION, cluster: CLUSTER }, Ports::choose()?)?;
    let machines = Machines::start(control_plane.admin().await?, ec2, catalogue.clone());
    Ok(Subject { command, class: class(), ec2: Some(Ec2 { _wire: wire, _machines: machines }) })
}

fn class() -> Value {
    let ours = json!([{"tags": {"karpenter.sh/discovery": CLUSTER}}]);
    json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {
            "amiSelectorTerms": [{"alias": "al2023@latest"}], "instanceProfile": format!("KerfNodeInstanceProfile-{CLUSTER}"),
            "subnetSelectorTerms": ours, "securityGroupSelectorTerms": ours,
        },
    })
}
