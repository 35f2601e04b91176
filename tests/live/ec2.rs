//! The sides that launch on EC2: Kerf's controller with its chart's RBAC, and the real Karpenter with its AWS provider and
//! administrator rights. Both use a fake of EC2 over the wire.

use std::process::Command;

use anyhow::Result;
use cloud::fake::FakeCloud;
use jiff::SignedDuration;
use serde_json::{Value, json};
use testbed::controller::{self, Aws, Ports};
use testbed::controlplane::{Account, ControlPlane};
use testbed::ec2wire::Ec2Wire;
use testbed::environment::SERVICE_CIDR;
use testbed::karpenter;

use crate::catalogue::Catalogue;
use crate::machines::Machines;
use crate::subject::Subject;

const CLUSTER: &str = "live";
/// Region of the instance types in the fixtures.
const REGION: &str = "us-east-1";
/// Seconds from the launch of an instance to its Node: the same on all sides.
pub const BOOT: i64 = 1;

/// Fake of EC2 and the simulated nodes of its instances.
pub struct Ec2 {
    wire: Ec2Wire,
    _machines: Machines,
}

impl Ec2 {
    async fn start(control_plane: &ControlPlane, catalogue: &Catalogue) -> Result<Self> {
        control_plane.apply_crds().await?;
        let cloud = FakeCloud::builder(REGION)
            .cluster(CLUSTER)
            .only_types(&catalogue.names())
            .pending_for(SignedDuration::from_secs(BOOT))
            .build()?;
        let wire = Ec2Wire::start(cloud.clone(), None).await?;
        let machines = Machines::start(control_plane.admin().await?, cloud, catalogue.clone());
        Ok(Self { wire, _machines: machines })
    }

    fn subject(self, command: impl FnOnce(Aws<'_>, Ports) -> Result<Command>) -> Result<Subject> {
        let url = self.wire.url();
        let aws = Aws { endpoint: &url, region: REGION, cluster: CLUSTER, service_cidr: SERVICE_CIDR };
        Ok(Subject { command: command(aws, Ports::choose()?)?, class: class(), ec2: Some(self) })
    }
}

/// Furnishes the side of Kerf.
pub async fn furnish_kerf(control_plane: &ControlPlane, catalogue: &Catalogue) -> Result<Subject> {
    let ec2 = Ec2::start(control_plane, catalogue).await?;
    control_plane.apply_rights(Account::Controller).await?;
    ec2.subject(|aws, ports| controller::command(control_plane, aws, ports))
}

/// Furnishes the side of Karpenter with its AWS provider.
pub async fn furnish_karpenter(control_plane: &ControlPlane, catalogue: &Catalogue) -> Result<Subject> {
    let program = karpenter::program().await?;
    let ec2 = Ec2::start(control_plane, catalogue).await?;
    ec2.subject(|aws, ports| Ok(karpenter::command(&program, control_plane, aws, ports)))
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
