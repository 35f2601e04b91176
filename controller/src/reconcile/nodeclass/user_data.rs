//! User data of an EC2NodeClass, rendered before a launch: its size, and warnings for the owner. The validation of the
//! EC2NodeClass decides whether user data can be rendered at all.

use api::reason;
use cloud::Settings;
use cloud::nodeclass::ResolvedClass;
use cloud::nodeclass::user_data::{self, NodeUserData};

use super::{NodeClassView, dry_run};
use crate::write::events::{Event, ObjectReference};
use crate::write::writer::Operation;

/// Number of pods of a node whose instance type is not chosen yet.
const PODS: u32 = 110;

/// Result of the check of user data.
#[derive(Debug, Default)]
pub(super) struct UserDataCheck {
    /// Size of the largest document in bytes; `None` without a document.
    pub(super) bytes: Option<u32>,
    /// Warnings, as events of the EC2NodeClass.
    pub(super) notes: Vec<Operation>,
}

/// Renders a document for each NodePool of the EC2NodeClass, because NodePools add labels and taints.
pub(super) fn check(view: &NodeClassView, class: &ResolvedClass, settings: &Settings) -> UserDataCheck {
    let mut check = UserDataCheck::default();
    let Some(image) = class.images.first() else { return check };
    let capacity_type = api::label::CAPACITY_ON_DEMAND;
    let machine = NodeUserData { capacity_type, image_id: &image.image.id, max_pods: PODS };
    for ask in view.pools.iter().map(|pool| dry_run::ask(pool)) {
        let warnings = match user_data::document(class, settings, ask.registration(), machine) {
            Ok(document) => {
                check.bytes = check.bytes.max(u32::try_from(document.text.len()).ok());
                document.warnings.iter().map(ToString::to_string).collect()
            }
            Err(error) => vec![format!("no instance can be launched: {}", daemon::error::chain(&error))],
        };
        let note = |warning| {
            let message = format!("NodePool {}: {warning}", ask.pool);
            Operation::Note(Event::warning(ObjectReference::to(view.class.as_ref()), reason::USER_DATA, message))
        };
        check.notes.extend(warnings.into_iter().map(note));
    }
    check
}
