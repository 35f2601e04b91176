//! The loop of the terminal view: keys, readings of the cluster, and a terminal that is always restored.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal;

use super::TopOptions;
use super::overview::Overview;
use super::screen::draw;
use super::view::{Effect, Explanation, Key, View};
use crate::failure::Failure;
use crate::plan::{PlanAnswer, explain};

/// Longest wait for a key before new readings are shown.
const PATIENCE: Duration = Duration::from_millis(200);

/// Width of a terminal that does not report it.
const USUAL_WIDTH: usize = 80;

type Reading = Result<Arc<PlanAnswer>, Failure>;

/// Runs the view until the user ends it.
///
/// # Errors
/// Returns an error if the first reading fails, or if the terminal cannot be used.
pub(super) fn run(
    options: &TopOptions,
    read: impl Fn() -> Result<PlanAnswer, Failure> + Send + 'static,
) -> Result<(), Failure> {
    let first = Arc::new(read()?);
    let readings = options.interval.map(|interval| readings(interval, read));
    // The terminal is restored also after a panic.
    let mut terminal = ratatui::try_init().map_err(unusable)?;
    let result = View::run(&mut terminal, options, first, readings.as_ref());
    ratatui::restore();
    result
}

/// Returns the width of the terminal; `None` if the output is not a terminal.
pub(crate) fn width() -> Option<usize> {
    let size = || terminal::size().ok().map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0);
    std::io::stdout().is_terminal().then(|| size().unwrap_or(USUAL_WIDTH))
}

fn unusable(error: std::io::Error) -> Failure {
    Failure::usage(format!("the terminal cannot be used: {error}; add --once for a table"))
}

/// Reads again and again on a thread that ends with its receiver.
fn readings(interval: Duration, read: impl Fn() -> Result<PlanAnswer, Failure> + Send + 'static) -> Receiver<Reading> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        loop {
            thread::sleep(interval);
            if sender.send(read().map(Arc::new)).is_err() {
                return;
            }
        }
    });
    receiver
}

impl View {
    fn run(
        terminal: &mut ratatui::DefaultTerminal,
        options: &TopOptions,
        first: Arc<PlanAnswer>,
        readings: Option<&Receiver<Reading>>,
    ) -> Result<(), Failure> {
        let mut answer = first;
        let mut view = Self::new(Overview::new(&answer, &options.shown), options.shown.sort, read_now());
        loop {
            while let Some(reading) = readings.and_then(|readings| readings.try_recv().ok()) {
                match reading {
                    Ok(newer) => {
                        view.update(Overview::new(&newer, &options.shown), read_now());
                        answer = newer;
                    }
                    Err(failure) => view.status = format!("cannot be read: {failure}"),
                }
            }
            terminal.draw(|frame| draw(frame, &mut view, options.colours)).map_err(unusable)?;
            if !event::poll(PATIENCE).map_err(unusable)? {
                continue;
            }
            let Event::Key(pressed) = event::read().map_err(unusable)? else { continue };
            let Some(key) = key(pressed) else { continue };
            let text = match view.press(key) {
                Effect::Quit => return Ok(()),
                Effect::None => continue,
                Effect::ExplainNode(name) => explain::node(&answer, &name, false),
                Effect::ExplainPod(name) => explain::pod(&answer, &name, false),
            };
            let text = text.map_or_else(|failure| failure.to_string(), |(text, _)| text);
            view.explanation = Some(Explanation { lines: text.lines().map(str::to_owned).collect(), above: 0 });
        }
    }
}

fn read_now() -> String {
    let now = Timestamp::now().to_zoned(jiff::tz::TimeZone::system());
    format!("read at {}", now.strftime("%H:%M:%S"))
}

/// Returns the view's key for a key of the terminal.
fn key(pressed: KeyEvent) -> Option<Key> {
    if pressed.kind == KeyEventKind::Release {
        return None;
    }
    Some(match pressed.code {
        KeyCode::Char('c') if pressed.modifiers.contains(KeyModifiers::CONTROL) => Key::Interrupt,
        KeyCode::Char(letter) => Key::Letter(letter),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::First,
        KeyCode::End => Key::Last,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Tab => Key::Tab,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    })
}
