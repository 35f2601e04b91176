//! Content of the instance metadata.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::eks::RoleKeys;

/// Values behind the paths. A path without a value returns 404, as in the real service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Instance id, `i-...`.
    pub instance_id: String,
    /// Instance type, such as `m7g.large`.
    pub instance_type: String,
    /// Image id, `ami-...`.
    pub image_id: String,
    /// Architecture, `x86_64` or `arm64`.
    pub architecture: String,
    /// Zone name.
    pub zone: String,
    /// Zone id, such as `usw2-az1`; an empty id hides the path.
    pub zone_id: String,
    /// Region name.
    pub region: String,
    /// Private DNS name.
    pub local_hostname: String,
    /// Private IPv4 address.
    pub local_ipv4: String,
    /// Primary IPv6 address; an empty address hides the path.
    pub ipv6: String,
    /// Hardware address of the primary interface.
    pub mac: String,
    /// True for a spot instance.
    pub spot: bool,
    /// Raw user data, after EC2's base64 decoding; `None` returns 404.
    pub user_data: Option<Vec<u8>>,
    /// Current interruption notice.
    pub interruption: Option<Interruption>,
    /// Time of a rebalance recommendation.
    pub rebalance: Option<Timestamp>,
    /// Scheduled maintenance, as elements in the service's format.
    pub scheduled: Vec<Value>,
    /// Target lifecycle state of an Auto Scaling group; 404 outside of groups.
    pub target_lifecycle_state: Option<String>,
    /// Instance tags, if the launch template exposes them in the metadata.
    pub tags: BTreeMap<String, String>,
    /// Role of the instance and its credentials; 404 without a role.
    pub role: Option<Role>,
    /// True if the service is disabled (403 for everything).
    pub disabled: bool,
}

/// Role in the service's format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// Name of the role.
    pub name: String,
    /// Credentials of the role.
    pub keys: RoleKeys,
}

/// Spot interruption notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interruption {
    /// `terminate`, `stop` or `hibernate`.
    pub action: String,
    /// Time of the interruption.
    pub time: Timestamp,
}

impl Facts {
    /// Returns the body of a path below `/latest/`, or `None` for 404.
    pub(super) fn body(&self, path: &str) -> Option<Vec<u8>> {
        let text = match path {
            "user-data" => return self.user_data.clone(),
            "dynamic/instance-identity/document" => format!("{:#}", self.identity()),
            _ => self.meta_data(path.strip_prefix("meta-data/")?)?,
        };
        Some(text.into_bytes())
    }

    fn meta_data(&self, path: &str) -> Option<String> {
        let seconds = |time: &Timestamp| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let text = match path {
            "instance-id" => self.instance_id.clone(),
            "instance-type" => self.instance_type.clone(),
            "instance-life-cycle" => if self.spot { "spot" } else { "on-demand" }.to_owned(),
            "ami-id" => self.image_id.clone(),
            "local-hostname" | "hostname" => self.local_hostname.clone(),
            "local-ipv4" => self.local_ipv4.clone(),
            "mac" => self.mac.clone(),
            "placement/availability-zone" => self.zone.clone(),
            "placement/availability-zone-id" => Some(&self.zone_id).filter(|id| !id.is_empty())?.clone(),
            "placement/region" => self.region.clone(),
            "spot/instance-action" => {
                let notice = self.interruption.as_ref()?;
                json!({"action": notice.action, "time": seconds(&notice.time)}).to_string()
            }
            "spot/termination-time" => {
                seconds(&self.interruption.as_ref().filter(|notice| notice.action == "terminate")?.time)
            }
            "events/recommendations/rebalance" => json!({"noticeTime": seconds(self.rebalance.as_ref()?)}).to_string(),
            "events/maintenance/scheduled" => Value::from(self.scheduled.clone()).to_string(),
            "events/maintenance/history" => "[]".to_owned(),
            "autoscaling/target-lifecycle-state" => self.target_lifecycle_state.clone()?,
            "network/interfaces/macs/" => format!("{}/", self.mac),
            "iam/security-credentials" | "iam/security-credentials/" => self.role.as_ref()?.name.clone(),
            other => return self.interface(other).or_else(|| self.tag(other)).or_else(|| self.credentials(other)),
        };
        Some(text)
    }

    fn interface(&self, path: &str) -> Option<String> {
        let key = path.strip_prefix("network/interfaces/macs/")?.strip_prefix(&self.mac)?.strip_prefix('/')?;
        match key {
            "device-number" => Some("0".to_owned()),
            "local-ipv4s" => Some(self.local_ipv4.clone()),
            "mac" => Some(self.mac.clone()),
            "ipv6s" => Some(self.ipv6.clone()).filter(|address| !address.is_empty()),
            _ => None,
        }
    }

    fn credentials(&self, path: &str) -> Option<String> {
        let role = self.role.as_ref()?;
        let RoleKeys { access_key, session } = &role.keys;
        (path.strip_prefix("iam/security-credentials/") == Some(role.name.as_str())).then(|| {
            let document = json!({
                "Code": "Success",
                "LastUpdated": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
                "Type": "AWS-HMAC",
                "AccessKeyId": access_key,
                "SecretAccessKey": session.secret_key,
                "Token": session.session_token,
                "Expiration": session.end.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            });
            format!("{document:#}")
        })
    }

    fn tag(&self, path: &str) -> Option<String> {
        self.tags.get(path.strip_prefix("tags/instance/")?).cloned()
    }

    fn identity(&self) -> Value {
        json!({
            "accountId": "123456789012",
            "architecture": self.architecture,
            "availabilityZone": self.zone,
            "billingProducts": null,
            "imageId": self.image_id,
            "instanceId": self.instance_id,
            "instanceType": self.instance_type,
            "privateIp": self.local_ipv4,
            "region": self.region,
            "version": "2017-09-30",
        })
    }
}
