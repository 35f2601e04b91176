//! Output for people: money, colours, counts and line breaks.

pub(crate) mod money;
mod text;

pub(crate) use text::{Paint, counted, fit, wrap};
