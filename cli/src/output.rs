//! Output for people: money, colours, counts and line breaks.

pub(crate) mod money;
mod progress;
mod text;

pub(crate) use progress::Progress;
pub(crate) use text::{Paint, counted, fit, wrap};
