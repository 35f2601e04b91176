//! Destinations of log records: journald if systemd provides its socket, JSON lines for containers, text for people.
//!
//! Records have their facts as key-values; the destinations differ only in the format.

use std::io::Write;

use log::kv::{Error as KvError, Key, Value, VisitSource};
use log::{LevelFilter, Log, Metadata, Record};
use serde_json::{Map, Value as Json};
#[cfg(feature = "journal")]
use systemd_journal_logger::{JournalLog, connected_to_journal};

/// Format of log records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Journald if standard error is connected to it, else text.
    Auto,
    /// One JSON object per line on standard output, with Karpenter's keys.
    Json,
    /// One line of text on standard error.
    Text,
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "json" => Ok(Self::Json),
            "text" => Ok(Self::Text),
            _ => Err(format!("unknown log format {text:?}: use auto, json or text")),
        }
    }
}

/// Installs the logger for the whole process. Call it once, at the start of `main`.
///
/// # Errors
/// Returns a sentence if journald refuses the connection or a logger is already installed.
pub fn install(format: Format, level: LevelFilter) -> Result<(), String> {
    log::set_boxed_logger(destination(format)?).map_err(|error| error.to_string())?;
    log::set_max_level(level);
    Ok(())
}

/// Returns the destination of records in this format, without installing it.
///
/// # Errors
/// Returns a sentence if journald refuses the connection.
pub fn destination(format: Format) -> Result<Box<dyn Log>, String> {
    Ok(match format {
        #[cfg(feature = "journal")]
        Format::Auto if connected_to_journal() => {
            Box::new(JournalLog::new().map_err(|error| format!("cannot connect to the journal: {error}"))?)
        }
        Format::Auto | Format::Text => Box::new(TextLog),
        Format::Json => Box::new(JsonLog),
    })
}

/// Libraries that log every byte at level debug, which is meant for Kerf's own records.
const TALKATIVE: [&str; 8] = ["aws_", "h2", "hyper", "kube_client", "kube_runtime", "rustls", "tower", "tracing"];

fn is_wanted(metadata: &Metadata<'_>) -> bool {
    let of_library = TALKATIVE.iter().any(|library| metadata.target().starts_with(library));
    let limit = if of_library { log::max_level().min(LevelFilter::Info) } else { log::max_level() };
    metadata.level() <= limit
}

struct JsonLog;

impl Log for JsonLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        is_wanted(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            write_line(std::io::stdout().lock(), &json_line(record, &jiff::Timestamp::now().to_string()));
        }
    }

    fn flush(&self) {}
}

struct TextLog;

impl Log for TextLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        is_wanted(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            write_line(std::io::stderr().lock(), &text_line(record));
        }
    }

    fn flush(&self) {}
}

/// Writes a line. A full disk or a closed pipe must not stop a daemon, so a failed write is ignored.
fn write_line(mut out: impl Write, line: &str) {
    let _ = writeln!(out, "{line}");
}

/// Returns the record as one JSON object in one line, as [`Format::Json`] prints it.
#[must_use]
pub fn json_line(record: &Record<'_>, time: &str) -> String {
    let mut fields = Fields::default();
    fields.0.insert("level".to_owned(), record.level().as_str().into());
    fields.0.insert("time".to_owned(), time.into());
    fields.0.insert("logger".to_owned(), record.target().into());
    fields.0.insert("message".to_owned(), record.args().to_string().into());
    let _ = record.key_values().visit(&mut fields);
    Json::Object(fields.0).to_string()
}

fn text_line(record: &Record<'_>) -> String {
    let mut fields = Fields::default();
    let _ = record.key_values().visit(&mut fields);
    let mut line = format!("{} {}", record.level(), record.args());
    for (key, value) in fields.0 {
        match value {
            Json::String(text) => line.push_str(&format!(" {key}={text:?}")),
            other => line.push_str(&format!(" {key}={other}")),
        }
    }
    line
}

#[derive(Default)]
struct Fields(Map<String, Json>);

impl<'kvs> VisitSource<'kvs> for Fields {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), KvError> {
        let json = match (value.to_i64(), value.to_bool()) {
            (Some(number), _) => number.into(),
            (None, Some(flag)) => flag.into(),
            (None, None) => value.to_string().into(),
        };
        // The keys of the line itself come first: a library may have a field of the same name.
        self.0.entry(key.to_string()).or_insert(json);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{json_line, text_line};
    use log::{Level, Record};

    fn with_record(check: impl FnOnce(&Record<'_>)) {
        let facts = [("node", log::kv::Value::from("ip-10-0-0-1")), ("pods", log::kv::Value::from(3_i64))];
        let facts: &[(&str, log::kv::Value<'_>)] = &facts;
        check(
            &Record::builder()
                .level(Level::Info)
                .target("drain")
                .args(format_args!("cordoned"))
                .key_values(&facts)
                .build(),
        );
    }

    #[test]
    fn json_line_has_karpenters_keys_and_the_key_values() {
        with_record(|record| {
            let line = json_line(record, "2026-01-01T00:00:00Z");
            let value: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
            assert_eq!(
                value,
                serde_json::json!({"level": "INFO", "time": "2026-01-01T00:00:00Z", "logger": "drain",
                    "message": "cordoned", "node": "ip-10-0-0-1", "pods": 3})
            );
        });
    }

    #[test]
    fn json_line_keeps_its_message_when_a_field_is_named_message() {
        let facts = [("message", "4711"), ("pod", "web/a")];
        let facts: &[(&str, &str)] = &facts;
        let line = json_line(&Record::builder().args(format_args!("evicted")).key_values(&facts).build(), "now");
        let value: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        assert_eq!((value["message"].as_str(), value["pod"].as_str()), (Some("evicted"), Some("web/a")));
    }

    #[test]
    fn text_line_has_key_values_after_the_message() {
        with_record(|record| assert_eq!(text_line(record), r#"INFO cordoned node="ip-10-0-0-1" pods=3"#));
    }
}
