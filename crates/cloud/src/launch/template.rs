//! Launch templates: what all machines of one image and one number of pods have in common (aws 4.4).

use api::label;
use machine::userdata::{self, RenderError};
use planner::CapacityType;

use super::token::fingerprint;
use super::{Ask, CLUSTER_TAG, Offer, TEMPLATE_PREFIX};
use crate::calls::{LaunchTemplateRequest, Tags};
use crate::family;
use crate::user_data::{self, Machine};

/// The launch template for an image and a number of pods; its name is a hash of everything else.
pub(super) fn request(
    ask: &Ask,
    offer: &Offer<'_>,
    capacity_type: CapacityType,
    image_id: &str,
    max_pods: u32,
) -> Result<LaunchTemplateRequest, RenderError> {
    let class = offer.class;
    let machine = Machine { capacity_type: capacity_type.as_str(), image_id, max_pods };
    let text = user_data::render(class, offer.settings, ask, machine)?;
    let mut template = LaunchTemplateRequest {
        name: String::new(),
        image_id: image_id.to_owned(),
        instance_profile: class.instance_profile.clone(),
        security_group_ids: class.security_groups.iter().map(|group| group.id.clone()).collect(),
        user_data: userdata::encode(&text),
        block_devices: family::block_devices(&class.spec, class.family),
        metadata: family::metadata(&class.spec, &offer.settings.region),
        associate_public_ip: class.spec.associate_public_ip_address,
        detailed_monitoring: class.spec.detailed_monitoring.unwrap_or(false),
        tags: tags(ask, offer),
    };
    template.name = format!("{TEMPLATE_PREFIX}{}", fingerprint(&template));
    Ok(template)
}

/// Tags of everything that is launched for a pool and class.
pub(super) fn tags(ask: &Ask, offer: &Offer<'_>) -> Tags {
    let cluster = &offer.settings.cluster_name;
    let mut tags = offer.class.spec.tags.clone();
    tags.insert(format!("kubernetes.io/cluster/{cluster}"), "owned".to_owned());
    tags.insert(CLUSTER_TAG.to_owned(), cluster.clone());
    tags.insert(label::NODEPOOL.to_owned(), ask.pool.clone());
    tags.insert(label::EC2_NODE_CLASS.to_owned(), offer.class.name.clone());
    tags
}
