//! Volumes that are being detached from the instance. Kubernetes removes a volume from the Node's list just before its
//! detachment. The VolumeAttachment shows whether the volume is detached. A node may not list VolumeAttachments, but may read
//! its own by name. The name follows from volume, driver and node.

use std::time::Duration;

use drain::Millis;
use ring::digest::{SHA256, digest};

use crate::run::lifecycle::AgentAction;
use crate::run::lifecycle::agent_state::AgentState;

/// Interval between two requests for the same volumes.
const EVERY: Duration = Duration::from_secs(2);
/// Prefix of the names of CSI volumes: `kubernetes.io/csi/DRIVER^HANDLE`. Other volumes have no VolumeAttachment of a known
/// name.
const CSI: &str = "kubernetes.io/csi/";

#[derive(Debug, Default)]
pub(in crate::run::lifecycle) struct Volumes {
    next: Millis,
}

impl Volumes {
    /// Records the attached volumes in our Node's status. A volume that disappears from the status counts as attached until its
    /// detachment is known.
    pub(in crate::run::lifecycle) fn observe(known: &mut AgentState, now: Millis) {
        let Some(node) = known.node() else {
            return;
        };
        let mut attached: Vec<String> = node.status.volumes_attached.iter().map(|volume| volume.name.clone()).collect();
        attached.extend(leaving(known).map(|(volume, _)| volume.to_owned()));
        known.with_drain(|drain| drain.attached(now, attached));
    }

    /// Records that a volume is detached from the instance, unless it has been attached again since.
    pub(in crate::run::lifecycle) fn detached(known: &mut AgentState, volume: &str, now: Millis) {
        if leaving(known).any(|(name, _)| name == volume) {
            known.with_drain(|drain| {
                let left = drain.volumes().iter().filter(|name| *name != volume).cloned().collect();
                drain.attached(now, left);
            });
        }
    }

    /// Requests the VolumeAttachments of all volumes that are being detached, once no pod is left to evict.
    pub(super) fn ask(&mut self, known: &AgentState, now: Millis) -> Vec<AgentAction> {
        if now < self.next || !is_waiting(known) {
            return Vec::new();
        }
        self.next = now + EVERY;
        let act = |(volume, attachment): (&str, String)| AgentAction::ReadAttachment {
            volume: volume.to_owned(),
            attachment,
        };
        leaving(known).map(act).collect()
    }

    pub(super) fn poll_timeout(&self, known: &AgentState) -> Option<Millis> {
        (is_waiting(known) && leaving(known).next().is_some()).then_some(self.next)
    }
}

fn is_waiting(known: &AgentState) -> bool {
    let drain = known.journal.drain.as_ref().filter(|_| known.journal.outcome.is_none());
    drain.is_some_and(|drain| drain.is_empty() && drain.detaches())
}

/// Returns the volumes that the Node listed before and no longer lists, each with the name of its VolumeAttachment.
fn leaving(known: &AgentState) -> impl Iterator<Item = (&str, String)> {
    let node = known.node();
    let volumes = known.journal.drain.iter().flat_map(|drain| drain.volumes());
    volumes.filter_map(move |volume| {
        let said = node?.status.volumes_attached.iter().any(|attached| attached.name == *volume);
        Some((volume.as_str(), attachment(volume, &known.name)?)).filter(|_| !said)
    })
}

/// Returns the name of a VolumeAttachment, as the attach-detach controller creates it.
fn attachment(volume: &str, node: &str) -> Option<String> {
    let (driver, handle) = volume.strip_prefix(CSI)?.split_once('^')?;
    let hash = digest(&SHA256, format!("{handle}{driver}{node}").as_bytes());
    Some(hash.as_ref().iter().fold("csi-".to_owned(), |name, byte| format!("{name}{byte:02x}")))
}

#[cfg(test)]
mod tests {
    use super::attachment;

    #[test]
    fn attachment_returns_the_name_that_kubernetes_uses() {
        // printf %s%s%s vol-1 ebs.csi.aws.com ip-10-0-0-1.ec2.internal | sha256sum
        let name = attachment("kubernetes.io/csi/ebs.csi.aws.com^vol-1", "ip-10-0-0-1.ec2.internal");
        assert_eq!(name.as_deref(), Some("csi-e09ea4997fa5fb4ea9bcb4b44edd7e4c23ec292cbca1e625eac2a065fb745413"));
        assert_eq!(attachment("kubernetes.io/aws-ebs/vol-1", "n"), None);
    }
}
