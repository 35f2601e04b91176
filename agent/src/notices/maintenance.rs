//! Scheduled maintenance in IMDS: `events/maintenance/scheduled`. The list contains completed and canceled maintenance too, and
//! its format of times differs from the rest of EC2.

use drain::Millis;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use machine::document::{Node, typed};
use serde::Deserialize;

use super::moment;

/// Greatest number of entries. No machine has more, so further entries are not from EC2.
const MOST: usize = 32;
/// Greatest length of a code or id of an event, in bytes.
const LONGEST_WORD: usize = 96;

/// One entry of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maintenance {
    /// Id of the event at EC2.
    pub event: String,
    /// Kind of maintenance, such as `instance-reboot`.
    pub code: String,
    /// State of the maintenance.
    pub standing: MaintenanceState,
    /// Start of the maintenance window.
    pub not_before: Millis,
    /// End of the maintenance window.
    pub not_after: Option<Millis>,
}

/// State of a maintenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaintenanceState {
    /// The maintenance is still pending.
    Active,
    /// The maintenance is done.
    Completed,
    /// The maintenance was canceled.
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

/// Parses the list. An invalid entry is skipped.
///
/// # Errors
/// The body is no list.
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

    /// Returns the state, which some entries have in `State`, others at the start of their description.
    fn standing(&self) -> MaintenanceState {
        let state = self.state.to_ascii_lowercase();
        let says = |word: &str| state == word || prefixed(&self.description, word);
        if says("canceled") || says("cancelled") {
            MaintenanceState::Canceled
        } else if says("completed") || says("closed") {
            MaintenanceState::Completed
        } else {
            MaintenanceState::Active
        }
    }
}

/// Reports whether the text is a plain name. Other text is not from EC2, and would be repeated in conditions and events.
fn is_word(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=LONGEST_WORD).contains(&text.len()) && text.bytes().all(allowed)
}

/// Reports whether a description begins with the word in square brackets.
fn prefixed(description: &str, word: &str) -> bool {
    let tag = description.trim_start().strip_prefix('[').and_then(|rest| rest.split_once(']'));
    tag.is_some_and(|(tag, _)| tag.eq_ignore_ascii_case(word))
}

/// Parses a time in the format of IMDS, which is that of mail: `21 Jan 2019 09:00:43 GMT`.
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
    fn parse_maintenance_reads_an_entry_of_ec2() {
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
    fn parse_maintenance_reads_the_state_from_either_field() {
        let rows = [
            (r#""State":"active","Description":"x""#, MaintenanceState::Active),
            (r#""State":"completed""#, MaintenanceState::Completed),
            (r#""State":"Canceled""#, MaintenanceState::Canceled),
            (r#""State":"closed""#, MaintenanceState::Completed),
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
    fn parse_maintenance_skips_invalid_entries() {
        let text = r#"[{"Code":"a","NotBefore":"5 Feb 2026 01:02:03 GMT"}, 7, {"Code":"b"}, {"Code":"c","NotBefore":"soon"},
            {"Code":"a b","NotBefore":"5 Feb 2026 01:02:03 GMT"}, {"Code":"e","EventId":"e\nf","NotBefore":"5 Feb 2026 01:02:03 GMT"},
            {"Code":"d","NotBefore":"2026-02-05T01:02:03Z","NotAfter":"then"}]"#;
        let read = parse_maintenance(text.as_bytes()).unwrap_or_default();
        let read: Vec<_> = read.iter().map(|it| (it.event.as_str(), it.not_before.0, it.not_after)).collect();
        assert_eq!(read, [("a-1770253323000", 1_770_253_323_000, None), ("d-1770253323000", 1_770_253_323_000, None)]);
    }

    #[test]
    fn parse_maintenance_fails_when_the_body_is_no_list() {
        for body in ["", "<html>", "{}", "[{", "null"] {
            assert!(parse_maintenance(body.as_bytes()).is_err(), "{body}");
        }
        assert_eq!(parse_maintenance(b"[]").ok(), Some(Vec::new()));
    }
}
