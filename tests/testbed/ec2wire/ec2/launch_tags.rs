//! Tags of the resources that EC2 creates with an instance: its volumes, network interfaces and spot request.

use std::collections::BTreeMap;

use cloud::Tags;

use super::describe::tags_of;
use crate::ec2wire::form::Form;

/// Tags by kind of resource, such as `volume`.
type ByKind = BTreeMap<String, Tags>;

/// Tag specifications of launch templates by name, and what they and CreateFleet gave to the resources of each instance.
#[derive(Debug, Default)]
pub(in crate::ec2wire) struct LaunchTags {
    templates: BTreeMap<String, ByKind>,
    instances: BTreeMap<String, ByKind>,
}

impl LaunchTags {
    /// Stores the specifications of a new launch template.
    pub(super) fn add_template(&mut self, name: &str, form: &Form) {
        self.templates.insert(name.to_owned(), specified(&form.at("LaunchTemplateData")));
    }

    /// Stores the tags of an instance that CreateFleet has launched from a template. The tags of CreateFleet win.
    pub(super) fn add_instance(&mut self, id: &str, template: &str, form: &Form) {
        let mut tags = self.templates.get(template).cloned().unwrap_or_default();
        for (kind, own) in specified(form) {
            tags.entry(kind).or_default().extend(own);
        }
        self.instances.insert(id.to_owned(), tags);
    }

    /// Returns the tags of an instance's resources of this kind.
    pub(super) fn of(&self, instance: &str, kind: &str) -> Tags {
        self.instances.get(instance).and_then(|tags| tags.get(kind)).cloned().unwrap_or_default()
    }
}

fn specified(form: &Form) -> ByKind {
    let all = form.list("TagSpecification");
    all.iter().map(|one| (one.owned("ResourceType"), tags_of(one))).collect()
}

#[cfg(test)]
mod tests {
    use super::{Form, LaunchTags};

    #[test]
    fn launch_tags_come_from_template_and_fleet() {
        let mut tags = LaunchTags::default();
        let interface = "TagSpecification.1.ResourceType=network-interface&TagSpecification.1.Tag.1.Key=a&TagSpecification.1.Tag.1.Value=1";
        let template = interface.replace("TagSpecification.1", "LaunchTemplateData.TagSpecification.1");
        tags.add_template("t", &Form::parse(&template));
        tags.add_instance(
            "i-1",
            "t",
            &Form::parse(&interface.replace("network-interface", "volume").replace("=a", "=b")),
        );
        assert_eq!(tags.of("i-1", "network-interface").keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!(tags.of("i-1", "volume").keys().collect::<Vec<_>>(), ["b"]);
        assert!(tags.of("i-2", "volume").is_empty());
    }
}
