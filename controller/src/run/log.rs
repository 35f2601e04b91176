//! Log of the controller: lines of `tracing` and lines of `log` go to one destination, each with the fields of its spans.
//!
//! The crates that the agent shares use `log`, which has no spans, and keep the agent small. Formats are in `daemon::log`.

use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;

use daemon::log::Format;
use log::kv::{Error as KvError, Key, Source, ToValue, Value, VisitSource};
use log::{LevelFilter, Log, Record};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter as SpanLevelFilter;
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Metadata, Subscriber, dispatcher};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry, Scope};

/// Crate whose spans have fields for the log. Spans of libraries describe their own work, such as a request.
const CRATE: &str = "controller";

/// Installs the log for the whole process. Call it once, at the start of `main`.
///
/// # Errors
/// Returns a sentence if journald refuses the connection or a logger is already installed.
pub fn install(format: Format, level: LevelFilter) -> Result<(), String> {
    let destination: Arc<dyn Log> = Arc::from(daemon::log::destination(format)?);
    let bridge = Bridge::new(Arc::clone(&destination));
    tracing::subscriber::set_global_default(subscriber(destination, level)).map_err(|error| error.to_string())?;
    log::set_boxed_logger(Box::new(bridge)).map_err(|error| error.to_string())?;
    log::set_max_level(level);
    Ok(())
}

/// Returns the subscriber that writes lines up to `level` to `destination`.
pub fn subscriber(destination: Arc<dyn Log>, level: LevelFilter) -> impl Subscriber + Send + Sync {
    Registry::default().with(Lines { destination, level })
}

/// Layer that stores the fields of spans, and turns each event into a record with them.
struct Lines {
    destination: Arc<dyn Log>,
    level: LevelFilter,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        if metadata.is_span() {
            return metadata.target().split("::").next() == Some(CRATE);
        }
        let level = level(metadata);
        let record = log::Metadata::builder().level(level).target(metadata.target()).build();
        level <= self.level && self.destination.enabled(&record)
    }

    /// Spans have level INFO. They must exist even if only errors are logged.
    fn max_level_hint(&self) -> Option<SpanLevelFilter> {
        Some(match self.level {
            LevelFilter::Off | LevelFilter::Error | LevelFilter::Warn | LevelFilter::Info => SpanLevelFilter::INFO,
            LevelFilter::Debug => SpanLevelFilter::DEBUG,
            LevelFilter::Trace => SpanLevelFilter::TRACE,
        })
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut line = Line::default();
        attributes.record(&mut line);
        span.extensions_mut().insert(line.fields);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        let (metadata, own) = (event.metadata(), line.fields.as_slice());
        let spans = fields_of(context.event_scope(event));
        self.destination.log(
            &Record::builder()
                .level(level(metadata))
                .target(metadata.target())
                .module_path(metadata.module_path())
                .file(metadata.file())
                .line(metadata.line())
                .key_values(&InSpans { own: &own, spans: &spans })
                .args(format_args!("{}", line.message))
                .build(),
        );
    }
}

fn level(metadata: &Metadata<'_>) -> log::Level {
    match *metadata.level() {
        Level::ERROR => log::Level::Error,
        Level::WARN => log::Level::Warn,
        Level::INFO => log::Level::Info,
        Level::DEBUG => log::Level::Debug,
        Level::TRACE => log::Level::Trace,
    }
}

/// Logger that adds the fields of the current span to records of `log`.
struct Bridge {
    destination: Arc<dyn Log>,
}

impl Bridge {
    fn new(destination: Arc<dyn Log>) -> Self {
        Self { destination }
    }
}

impl Log for Bridge {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        self.destination.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        let spans = dispatcher::get_default(|dispatch| {
            let current = dispatch.current_span();
            let registry = dispatch.downcast_ref::<Registry>();
            let span = current.id().zip(registry).and_then(|(id, registry)| registry.span(id));
            fields_of(span.map(|span| span.scope()))
        });
        let fields = InSpans { own: record.key_values(), spans: &spans };
        self.destination.log(&record.to_builder().key_values(&fields).build());
    }

    fn flush(&self) {
        self.destination.flush();
    }
}

type Fields = Vec<(&'static str, FieldValue)>;

/// Value of a field, independent of the line.
#[derive(Clone, Debug, PartialEq)]
enum FieldValue {
    Integer(i64),
    Flag(bool),
    Text(String),
}

impl ToValue for FieldValue {
    fn to_value(&self) -> Value<'_> {
        match self {
            Self::Integer(number) => Value::from(*number),
            Self::Flag(flag) => Value::from(*flag),
            Self::Text(text) => Value::from(text.as_str()),
        }
    }
}

/// Message and fields of an event, or the fields of a span.
#[derive(Default)]
struct Line {
    message: String,
    fields: Fields,
}

impl Line {
    fn put(&mut self, field: &Field, value: FieldValue) {
        match value {
            FieldValue::Text(text) if field.name() == "message" => self.message = text,
            value => self.fields.push((field.name(), value)),
        }
    }
}

impl Visit for Line {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, FieldValue::Integer(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        let number = i64::try_from(value).map_or_else(|_| FieldValue::Text(value.to_string()), FieldValue::Integer);
        self.put(field, number);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, FieldValue::Flag(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, FieldValue::Text(value.to_owned()));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.put(field, FieldValue::Text(daemon::error::chain(value)));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, FieldValue::Text(format!("{value:?}")));
    }
}

/// Returns the fields of the spans, from the innermost to the outermost. Of equal keys, the innermost counts.
fn fields_of<'a, S: LookupSpan<'a>>(scope: Option<Scope<'a, S>>) -> Fields {
    let mut all = Fields::new();
    for span in scope.into_iter().flatten() {
        for (key, value) in span.extensions().get::<Fields>().into_iter().flatten() {
            if !all.iter().any(|(known, _)| known == key) {
                all.push((key, value.clone()));
            }
        }
    }
    all
}

/// Fields of a record, then those fields of its spans that the record itself does not have.
struct InSpans<'a> {
    own: &'a dyn Source,
    spans: &'a [(&'static str, FieldValue)],
}

impl Source for InSpans<'_> {
    fn visit<'kvs>(&'kvs self, visitor: &mut dyn VisitSource<'kvs>) -> Result<(), KvError> {
        self.own.visit(visitor)?;
        for (key, value) in self.spans.iter().filter(|(key, _)| self.own.get(Key::from(*key)).is_none()) {
            visitor.visit_pair(Key::from(*key), value.to_value())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
