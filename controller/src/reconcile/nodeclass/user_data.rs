//! What the machines of a class receive, rendered before one is bought: its size, and what the class's owner should know
//! of it. Whether it can be made at all is part of the class's validation.

use api::reason;
use cloud::Settings;
use cloud::nodeclass::ResolvedClass;
use cloud::user_data::{self, NodeUserData};

use super::{NodeClassView, dry_run};
use crate::write::events::{Event, ObjectReference};
use crate::write::writer::Operation;

/// Pods of a machine that nobody has chosen yet.
const PODS: u32 = 110;

/// What was seen of the class's user data.
#[derive(Debug, Default)]
pub(super) struct UserDataCheck {
    /// The size of the largest document, bytes; `None` when there is none.
    pub(super) bytes: Option<u32>,
    /// Warnings, as events of the class.
    pub(super) notes: Vec<Operation>,
}

/// Renders a document for each pool of the class, which add labels and taints.
pub(super) fn check(view: &NodeClassView, class: &ResolvedClass, settings: &Settings) -> UserDataCheck {
    let mut told = UserDataCheck::default();
    let Some(image) = class.images.first() else { return told };
    let capacity_type = api::label::CAPACITY_ON_DEMAND;
    let machine = NodeUserData { capacity_type, image_id: &image.image.id, max_pods: PODS };
    for ask in view.pools.iter().map(|pool| dry_run::ask(pool)) {
        let warnings = match user_data::document(class, settings, &ask, machine) {
            Ok(document) => {
                told.bytes = told.bytes.max(u32::try_from(document.text.len()).ok());
                document.warnings.iter().map(ToString::to_string).collect()
            }
            Err(error) => vec![format!("no instance can be launched: {}", daemon::error::chain(&error))],
        };
        let note = |warning| {
            let message = format!("NodePool {}: {warning}", ask.pool);
            Operation::Note(Event::warning(ObjectReference::to(view.class.as_ref()), reason::USER_DATA, message))
        };
        told.notes.extend(warnings.into_iter().map(note));
    }
    told
}
