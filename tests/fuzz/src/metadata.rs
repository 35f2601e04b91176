//! Bodies of the metadata service. The path determines the kind of body, but proxies, emulators and truncated responses can
//! return any bytes under any path. Each parser therefore receives the same bytes.

use std::time::Duration;

use agent::aws::identity::credentials::{self, Credentials};
use agent::aws::identity::{Audience, token};
use agent::aws::imds::{IdentityDocument, plain_text};
use agent::cluster::Node;
use agent::host::clock::WallOffset;
use agent::notices::{Item, NoticeReading, NoticeStore};
use agent::run::journal::Journal;
use agent::run::lifecycle::{AgentAction, Input, Lifecycle};
use serde_json::json;

use crate::ParseResult;
use crate::journal::{HOURS, INSTANCE, NOON, node};
use crate::sentence;

/// Longest identifier: longer than any name, state or code of EC2.
const MAX_TOKEN: usize = 64;
/// Highest number of bytes in a patch or journal. etcd accepts a Node of 1.5 MB, and the Node has other content too.
const STATEMENT: usize = 32 * 1024;

pub(crate) fn check(bytes: &[u8]) -> ParseResult {
    let words = [plain_text(bytes), credentials::role_name(bytes)];
    for word in words.iter().flatten() {
        assert!(!word.is_empty() && !word.contains(char::is_control), "{word:?}");
    }
    let mut accepted = words.iter().any(Option::is_some);
    accepted |= identity(bytes) | role(bytes);
    for item in Item::ALL {
        accepted |= item.read(bytes).is_some_and(|message| noticed(NoticeReading { value: message, date: None }));
    }
    if accepted { ParseResult::Accepted } else { ParseResult::Refused("nothing that metadata says".to_owned()) }
}

/// Checks the identity document, whose fields become parts of names, paths and host names.
fn identity(bytes: &[u8]) -> bool {
    let Some(read) = IdentityDocument::read(bytes) else { return false };
    for word in [&read.instance_id, &read.instance_type, &read.region, &read.availability_zone] {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        assert!(!word.is_empty() && word.len() <= MAX_TOKEN && word.chars().all(plain), "{word:?}");
    }
    true
}

/// Checks that accepted credentials can sign at any time.
fn role(bytes: &[u8]) -> bool {
    match credentials::parse("node", bytes) {
        Err(error) => {
            let _ = sentence::refused(&error);
            false
        }
        Ok(Credentials { keys, end, .. }) => {
            let audience = Audience { cluster: "c".to_owned(), region: "us-west-2".to_owned(), fips: false };
            for now in HOURS {
                let token = token::sign(&audience, &keys, end, now);
                let text = token.text.expose();
                assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "a header takes it: {text}");
                assert!(token.end <= end.max(now) || token.renew <= token.end, "{token:?}");
            }
            true
        }
    }
}

/// Checks that a notice is stored once and remembered, and that the resulting patches of the Node can be written.
fn noticed(reading: NoticeReading) -> bool {
    let mut store = NoticeStore::default();
    store.read(&reading, WallOffset::default(), NOON);
    let taken = store.clone();
    assert!(!store.read(&reading, WallOffset::default(), NOON), "the same said twice is no news: {reading:?}");
    assert_eq!(store, taken);
    let mut lifecycle = Lifecycle::new("node", Journal::new(INSTANCE, None), NOON);
    lifecycle.take(Input::Node(Some(Node::clone(&node()))), NOON);
    lifecycle.take(Input::Reading(reading), NOON);
    for seconds in [0, 1, 60, 3600, 86_400] {
        let now = NOON + Duration::from_secs(seconds);
        lifecycle.step(now).iter().for_each(writable);
    }
    let journal = json!(lifecycle.journal()).to_string();
    assert!(journal.len() < STATEMENT, "the journal has {} bytes", journal.len());
    assert_eq!(Journal::parse(journal.as_bytes()).ok().as_ref(), Some(lifecycle.journal()));
    true
}

fn writable(act: &AgentAction) {
    match act {
        AgentAction::CreateEvent(event) => sentence::hold(&event.message),
        AgentAction::PatchNode(patch) | AgentAction::PatchStatus(patch) => assert!(patch.to_string().len() < STATEMENT),
        _ => {}
    }
}
