//! Settings of EC2NodeClasses that stood outside of manifests before v1beta1: role or instance profile, and tags. They come from
//! the command line, or from Helm values beside the manifests.

use std::cell::Cell;

use super::document::SourceText;
use super::object::Object;
use super::pool::quoted;
use super::tree::Node;

/// Identity of nodes in IAM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeIdentity {
    /// Name of a role.
    Role(String),
    /// Name of an instance profile.
    InstanceProfile(String),
}

impl NodeIdentity {
    /// Returns the field of the class, and its value.
    pub(super) fn field(&self) -> (&'static str, &str) {
        match self {
            Self::Role(name) => ("role", name),
            Self::InstanceProfile(name) => ("instanceProfile", name),
        }
    }

    const fn flag(&self) -> &'static str {
        match self {
            Self::Role(_) => "--role",
            Self::InstanceProfile(_) => "--instance-profile",
        }
    }
}

/// Settings for classes that lack them.
#[derive(Default)]
pub(super) struct ClassDefaults {
    identity: Option<(NodeIdentity, Source)>,
    /// Tags of all instances, with the place of the values.
    tags: Vec<(String, String, String)>,
    /// `true` once a class has got the identity.
    is_used: Cell<bool>,
}

/// Source of the identity.
enum Source {
    Flag,
    Values(String),
}

/// Paths of the instance profile in Helm values.
const PROFILES: [&[&str]; 2] = [&["settings", "aws", "defaultInstanceProfile"], &["aws", "defaultInstanceProfile"]];

impl ClassDefaults {
    /// Returns the identity of the command line, else that of the values, and the tags of the values.
    pub(super) fn new(identity: Option<&NodeIdentity>, values: &[SourceText]) -> Self {
        let roots: Vec<(String, &Node)> = values.iter().flat_map(SourceText::values_roots).collect();
        let profile = roots.iter().find_map(|(place, root)| {
            let name = PROFILES.iter().map(|path| root.text_at(path)).find(|name| !name.is_empty())?;
            Some((NodeIdentity::InstanceProfile(name.to_owned()), Source::Values(place.clone())))
        });
        let tags = roots.iter().flat_map(|(place, root)| {
            let tags = root.at(&["settings", "aws", "tags"]).map(Node::fields).unwrap_or_default();
            tags.iter().filter_map(move |tag| Some((tag.key.clone(), tag.value.scalar()?.to_owned(), place.clone())))
        });
        let given = identity.map(|identity| (identity.clone(), Source::Flag));
        Self { identity: given.or(profile), tags: tags.collect(), is_used: Cell::new(false) }
    }

    /// Adds the identity to a class that has none. Rejects a class that has not exactly one of role and instance profile.
    pub(super) fn identify(&self, class: &mut Object) {
        let has = |field: &str| !class.root.text_at(&["spec", field]).is_empty();
        match (has("role"), has("instanceProfile"), &self.identity) {
            (false, false, Some((identity, source))) => {
                let (field, name) = identity.field();
                let why = match source {
                    Source::Flag => format!("from {}", identity.flag()),
                    Source::Values(place) => format!("from aws.defaultInstanceProfile in {place}"),
                };
                class.rewrite(&["spec", field], name, &why);
                self.is_used.set(true);
            }
            (false, false, None) => {
                let cure = "set one of them, use --role NAME or --instance-profile NAME, or convert it together with the \
                            Helm values that have aws.defaultInstanceProfile";
                class.refuse("spec.role", "neither role nor instanceProfile is set", cure);
            }
            (true, true, _) => class.refuse("spec.instanceProfile", "role is set too", "remove one of them"),
            _ => {}
        }
    }

    /// Adds the tags of the values that a class has not set itself.
    pub(super) fn tag(&self, class: &mut Object) {
        for (key, value, place) in &self.tags {
            if class.root.at(&["spec", "tags", key]).is_none() {
                class.changed("spec.tags", &format!("added {key}, from settings.aws.tags in {place}"));
                class.root.enter(&["spec", "tags"]).set(key, quoted(value));
            }
        }
    }

    /// Returns a note about a flag that no class needed.
    pub(super) fn unused(&self) -> Option<String> {
        let Some((identity, Source::Flag)) = &self.identity else { return None };
        let text = format!("{} was not used: every EC2NodeClass has a role or an instance profile", identity.flag());
        (!self.is_used.get()).then_some(text)
    }
}
