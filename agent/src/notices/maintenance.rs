//! Maintenance as the metadata lists it: `events/maintenance/scheduled`. The list holds what is done and called off too, and its times
//! are written as nothing else in EC2 writes them.

use drain::Millis;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use machine::document::{Node, typed};
use serde::Deserialize;

use super::moment;

/// No machine has more; what is beyond comes from someone else than EC2.
const MOST: usize = 32;
/// More than any code or identity of an event has, bytes.
const LONGEST_WORD: usize = 96;

/// One entry of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maintenance {
    /// Its identity at EC2.
    pub event: String,
    /// What will be done, such as `instance-reboot`.
    pub code: String,
    /// Where it stands.
    pub standing: MaintenanceState,
    /// When the window opens.
    pub not_before: Millis,
    /// When it closes.
    pub not_after: Option<Millis>,
}

/// Where a maintenance stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaintenanceState {
    /// It is still to come.
    Active,
    /// It is done.
    Completed,
    /// It will not be.
    Canceled,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Written {
    code: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    event_id: String,
    #[serde(default)]
    state: String,
    not_before: String,
    #[serde(default)]
    not_after: String,
}

/// Reads the list. An entry that cannot be read is left out, and the others count.
///
/// # Errors
/// When the body is no list.
pub fn parse_maintenance(body: &[u8]) -> Result<Vec<Maintenance>, serde_json::Error> {
    let entries: Vec<Node> = serde_json::from_slice(body)?;
    let read = entries.into_iter().take(MOST).filter_map(|entry| {
        let read = typed(&entry).ok().and_then(Written::read);
        if read.is_none() {
            log::debug!("invalid entry of the scheduled maintenance");
        }
        read
    });
    Ok(read.collect())
}

impl Written {
    fn read(self) -> Option<Maintenance> {
        let not_before = time(&self.not_before)?;
        let event =
            if self.event_id.is_empty() { format!("{}-{}", self.code, not_before.0) } else { self.event_id.clone() };
        let standing = self.standing();
        if !is_word(&event) || !is_word(&self.code) {
            return None;
        }
        Some(Maintenance { event, standing, not_before, not_after: time(&self.not_after), code: self.code })
    }

    /// Some entries say it in `State`, some in front of their description.
    fn standing(&self) -> MaintenanceState {
        let state = self.state.to_ascii_lowercase();
        let says = |word: &str| state == word || prefixed(&self.description, word);
        if says("canceled") || says("cancelled") {
            MaintenanceState::Canceled
        } else if says("completed") {
            MaintenanceState::Completed
        } else {
            MaintenanceState::Active
        }
    }
}

/// What is no word is not EC2's, and would be repeated in conditions and events.
fn is_word(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=LONGEST_WORD).contains(&text.len()) && text.bytes().all(allowed)
}

/// Whether a description begins with the word in square brackets.
fn prefixed(description: &str, word: &str) -> bool {
    let tag = description.trim_start().strip_prefix('[').and_then(|rest| rest.split_once(']'));
    tag.is_some_and(|(tag, _)| tag.eq_ignore_ascii_case(word))
}

/// As the metadata writes times, which is as mail does: `21 Jan 2019 09:00:43 GMT`.
fn time(text: &str) -> Option<Millis> {
    let read = DateTimeParser::new().parse_timestamp(text);
    read.or_else(|_| text.parse::<Timestamp>()).ok().map(moment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(change: &str) -> Vec<Maintenance> {
        let text = format!(
            r#"[{{"NotBefore":"21 Jan 2019 09:00:43 GMT","Code":"system-reboot","Description":"scheduled reboot",
                "EventId":"instance-event-0d59937288b749b32","NotAfter":"21 Jan 2019 09:17:23 GMT","State":"active"{change}}}]"#
        );
        parse_maintenance(text.as_bytes()).unwrap_or_default()
    }

    #[test]
    fn an_entry_is_read_as_ec2_writes_it() {
        let expected = Maintenance {
            event: "instance-event-0d59937288b749b32".into(),
            code: "system-reboot".into(),
            standing: MaintenanceState::Active,
            not_before: Millis(1_548_061_243_000),
            not_after: Some(Millis(1_548_062_243_000)),
        };
        assert_eq!(list(""), [expected]);
    }

    #[test]
    fn what_is_over_says_so_in_one_of_two_places() {
        let rows = [
            (r#""State":"active","Description":"x""#, MaintenanceState::Active),
            (r#""State":"completed""#, MaintenanceState::Completed),
            (r#""State":"Canceled""#, MaintenanceState::Canceled),
            (r#""State":"active","Description":"[Canceled] scheduled reboot""#, MaintenanceState::Canceled),
            (r#""Description":"[Completed] scheduled reboot""#, MaintenanceState::Completed),
            (r#""Description":"[Urgent] scheduled reboot""#, MaintenanceState::Active),
        ];
        for (fields, standing) in rows {
            let text = format!(r#"[{{"Code":"c","NotBefore":"1 Jan 2019 09:00:43 GMT",{fields}}}]"#);
            let read = parse_maintenance(text.as_bytes()).unwrap_or_default();
            assert_eq!(read.first().map(|it| it.standing), Some(standing), "{fields}");
        }
    }

    #[test]
    fn times_with_one_digit_or_in_rfc_3339_are_read_too_and_nonsense_hides_nothing() {
        let text = r#"[{"Code":"a","NotBefore":"5 Feb 2026 01:02:03 GMT"}, 7, {"Code":"b"}, {"Code":"c","NotBefore":"soon"},
            {"Code":"a b","NotBefore":"5 Feb 2026 01:02:03 GMT"}, {"Code":"e","EventId":"e\nf","NotBefore":"5 Feb 2026 01:02:03 GMT"},
            {"Code":"d","NotBefore":"2026-02-05T01:02:03Z","NotAfter":"then"}]"#;
        let read = parse_maintenance(text.as_bytes()).unwrap_or_default();
        let read: Vec<_> = read.iter().map(|it| (it.event.as_str(), it.not_before.0, it.not_after)).collect();
        assert_eq!(read, [("a-1770253323000", 1_770_253_323_000, None), ("d-1770253323000", 1_770_253_323_000, None)]);
    }

    #[test]
    fn what_is_no_list_is_an_error() {
        for body in ["", "<html>", "{}", "[{", "null"] {
            assert!(parse_maintenance(body.as_bytes()).is_err(), "{body}");
        }
        assert_eq!(parse_maintenance(b"[]").ok(), Some(Vec::new()));
    }
}
