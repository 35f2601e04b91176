//! Capacity that a user takes from the emulated EC2 by [`annotation::EMULATED_SHORTAGE`] of an EC2NodeClass.

use std::collections::BTreeSet;

use anyhow::Context as _;
use api::{EC2NodeClass, annotation, label};
use cloud::data;
use cloud::fake::CapacityOutage;

/// Offerings of the emulated region, by which a request is checked.
pub(super) struct EmulatedRegion {
    name: String,
    zones: BTreeSet<String>,
    instance_types: BTreeSet<String>,
}

impl EmulatedRegion {
    /// Reads the offerings of a region.
    ///
    /// # Errors
    /// Returns an error for a region without data.
    pub(super) fn read(name: &str) -> anyhow::Result<Self> {
        let offerings = data::type_offerings(name).context("the emulated region has no data")?;
        Ok(Self {
            name: name.to_owned(),
            zones: offerings.iter().map(|offering| offering.zone.clone()).collect(),
            instance_types: offerings.iter().map(|offering| offering.instance_type.clone()).collect(),
        })
    }

    /// Returns the shortages that an EC2NodeClass requests, such as `spot/us-east-1a, c6a.2xlarge`; none without a request.
    ///
    /// # Errors
    /// Returns the first part that is unknown, with the fix.
    pub(super) fn shortages(&self, class: &EC2NodeClass) -> Result<Vec<CapacityOutage>, String> {
        let annotations = class.metadata.annotations.as_ref();
        let Some(text) = annotations.and_then(|all| all.get(annotation::EMULATED_SHORTAGE)) else {
            return Ok(Vec::new());
        };
        text.split(',').map(|part| self.shortage(part.trim())).collect()
    }

    fn shortage(&self, text: &str) -> Result<CapacityOutage, String> {
        let mut outage = CapacityOutage::default();
        for part in text.split('/') {
            let field = match part {
                label::CAPACITY_SPOT | label::CAPACITY_ON_DEMAND => &mut outage.capacity_type,
                zone if self.zones.contains(zone) => &mut outage.zone,
                name if self.instance_types.contains(name) => &mut outage.instance_type,
                _ => {
                    return Err(format!(
                        "{part:?} is not a capacity type, zone or instance type of {}: write for example \
                         spot/{}/m5.large",
                        self.name,
                        self.zones.first().map_or("", String::as_str)
                    ));
                }
            };
            if field.replace(part.to_owned()).is_some() {
                return Err(format!("{text:?} has two values of one kind: separate shortages by commas"));
            }
        }
        Ok(outage)
    }
}

#[cfg(test)]
mod tests {
    use api::EC2NodeClass;
    use api::nodeclass::EC2NodeClassSpec;
    use cloud::fake::CapacityOutage;
    use serde_json::json;

    use super::EmulatedRegion;

    fn shortages(text: &str) -> Result<Vec<CapacityOutage>, String> {
        let mut class = EC2NodeClass::new("trial", EC2NodeClassSpec::default());
        class.metadata.annotations = serde_json::from_value(json!({"kerf.sh/emulated-shortage": text})).unwrap();
        EmulatedRegion::read("us-east-1").unwrap().shortages(&class)
    }

    fn outage(capacity_type: &str, zone: &str, instance_type: &str) -> CapacityOutage {
        let [capacity_type, zone, instance_type] =
            [capacity_type, zone, instance_type].map(|part| Some(part.to_owned()).filter(|part| !part.is_empty()));
        CapacityOutage { capacity_type, instance_type, zone }
    }

    #[test]
    fn shortages_are_parts_in_any_order() {
        let rows = [
            ("spot", vec![outage("spot", "", "")]),
            ("us-east-1a/spot", vec![outage("spot", "us-east-1a", "")]),
            (
                "c6a.2xlarge, on-demand/us-east-1b/m5.large",
                vec![outage("", "", "c6a.2xlarge"), outage("on-demand", "us-east-1b", "m5.large")],
            ),
        ];
        for (text, expected) in rows {
            assert_eq!(shortages(text), Ok(expected), "{text}");
        }
        let region = EmulatedRegion::read("us-east-1").unwrap();
        assert_eq!(region.shortages(&EC2NodeClass::new("trial", EC2NodeClassSpec::default())), Ok(Vec::new()));
    }

    #[test]
    fn shortages_name_the_part_that_is_unknown() {
        let rows = [
            (
                "spot/eu-west-1a",
                "\"eu-west-1a\" is not a capacity type, zone or instance type of us-east-1: write for example spot/us-east-1a/m5.large",
            ),
            (
                "spot,",
                "\"\" is not a capacity type, zone or instance type of us-east-1: write for example spot/us-east-1a/m5.large",
            ),
            ("spot/on-demand", "\"spot/on-demand\" has two values of one kind: separate shortages by commas"),
        ];
        for (text, expected) in rows {
            assert_eq!(shortages(text), Err(expected.to_owned()), "{text}");
        }
    }
}
