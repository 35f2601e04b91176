//! Parser for the command line, driven by a table of commands and options. A general library would add more to every image than
//! all of these commands together. An argument takes precedence over the environment, and the environment over the table's
//! default.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::str::FromStr;

use thiserror::Error;

/// One option.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opt {
    /// Name after two dashes.
    pub(super) long: &'static str,
    /// Name after one dash.
    pub(super) short: Option<char>,
    /// Placeholder of the value in the help; empty for an option without a value.
    pub(super) value: &'static str,
    /// Environment variable that replaces the option; empty for none.
    pub(super) variable: &'static str,
    /// Default value; empty for none.
    pub(super) default: &'static str,
    /// Set for an option that may be repeated, and that accepts several values separated by commas.
    pub(super) many: bool,
    /// Help in one sentence; empty hides the option from the help.
    pub(super) help: &'static str,
}

impl Opt {
    /// An option without any property.
    pub(super) const NONE: Self =
        Self { long: "", short: None, value: "", variable: "", default: "", many: false, help: "" };
}

/// One command: its words, and its options in addition to those of all commands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    pub(super) words: &'static str,
    pub(super) help: &'static str,
    pub(super) options: &'static [Opt],
}

/// All commands of a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    pub(super) program: &'static str,
    pub(super) help: &'static str,
    pub(super) options: &'static [Opt],
    pub(super) commands: &'static [Spec],
}

/// Reasons why no command runs.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ArgumentError {
    /// Text of the help or the version, which the user requested.
    #[error("{0}")]
    Help(String),
    /// The command line, or a variable, is invalid.
    #[error("{0}")]
    Wrong(String),
}

/// Lookup of environment variables.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// A parsed command line.
pub(super) struct CommandLine<'a> {
    pub(super) words: String,
    table: Table,
    given: BTreeMap<&'static str, Vec<OsString>>,
    environment: Environment<'a>,
}

impl Table {
    /// Parses the arguments after the program's name.
    pub(super) fn read<'a>(
        self,
        arguments: impl Iterator<Item = OsString>,
        environment: Environment<'a>,
    ) -> Result<CommandLine<'a>, ArgumentError> {
        let mut line = CommandLine { words: String::new(), table: self, given: BTreeMap::new(), environment };
        let mut rest = arguments;
        while let Some(argument) = rest.next() {
            let bytes = argument.as_bytes();
            match bytes {
                b"-h" | b"--help" => return Err(ArgumentError::Help(self.help(&line.words))),
                b"-V" | b"--version" => {
                    return Err(ArgumentError::Help(format!("{} {}\n", self.program, env!("CARGO_PKG_VERSION"))));
                }
                [b'-', b'-', name @ ..] => line.long(name, &mut rest)?,
                [b'-', name @ ..] if !name.is_empty() => line.short(name, &mut rest)?,
                _ => line.word(&argument)?,
            }
        }
        if self.commands.iter().any(|command| command.words == line.words) {
            return Ok(line);
        }
        Err(line.wrong(&format!("no command given; write one of {}", self.next(&line.words).join(", "))))
    }

    /// Returns the words that may follow `words`.
    fn next(&self, words: &str) -> Vec<&'static str> {
        let below = self.commands.iter().filter_map(|command| rest(command.words, words));
        let mut next: Vec<&str> = below.filter_map(|rest| rest.split(' ').next()).collect();
        next.dedup();
        next
    }

    fn help(&self, words: &str) -> String {
        let command = self.commands.iter().find(|command| command.words == words);
        let mut text = format!("{}\n\nUsage: {}", command.map_or(self.help, |command| command.help), self.program);
        let spaced = if words.is_empty() { String::new() } else { format!(" {words}") };
        let _ = writeln!(text, "{spaced}{} [OPTIONS]", if command.is_none() { " COMMAND" } else { "" });
        let below = self.commands.iter().filter(|command| rest(command.words, words).is_some());
        let rows = below.map(|command| (command.words.to_owned(), command.help.to_owned()));
        list(&mut text, "Commands", rows.collect());
        let own = command.map_or(&[][..], |command| command.options);
        list(&mut text, "Options", own.iter().filter_map(described).collect());
        list(&mut text, "Options of all commands", self.options.iter().filter_map(described).collect());
        text
    }
}

/// Returns the rest of `all` after `words`.
fn rest<'a>(all: &'a str, words: &str) -> Option<&'a str> {
    if words.is_empty() { Some(all) } else { all.strip_prefix(words)?.strip_prefix(' ') }
}

fn described(option: &Opt) -> Option<(String, String)> {
    let short = option.short.map(|short| format!("-{short}, ")).unwrap_or_default();
    let value = if option.value.is_empty() { String::new() } else { format!(" {}", option.value) };
    let several = if option.many { "; several separated by commas, or repeat the option" } else { "" };
    let default = if option.default.is_empty() { String::new() } else { format!(" [default: {}]", option.default) };
    let variable = if option.variable.is_empty() { String::new() } else { format!(" [env: {}]", option.variable) };
    let help = format!("{}{several}{default}{variable}", option.help);
    (!option.help.is_empty()).then(|| (format!("{short}--{}{value}", option.long), help))
}

fn list(text: &mut String, title: &str, rows: Vec<(String, String)>) {
    if rows.is_empty() {
        return;
    }
    let _ = write!(text, "\n{title}:\n");
    for (name, help) in rows {
        let _ = writeln!(text, "  {name}\n          {help}");
    }
}

impl CommandLine<'_> {
    fn wrong(&self, why: &str) -> ArgumentError {
        let spaced = if self.words.is_empty() { String::new() } else { format!(" {}", self.words) };
        ArgumentError::Wrong(format!("{why}\nSee `{}{spaced} --help`\n", self.table.program))
    }

    fn word(&mut self, word: &OsStr) -> Result<(), ArgumentError> {
        let word = word.to_string_lossy();
        let next = self.table.next(&self.words);
        if !next.contains(&word.as_ref()) {
            let cure = if next.is_empty() { "nothing more".to_owned() } else { format!("one of {}", next.join(", ")) };
            return Err(self.wrong(&format!("unknown command `{word}`; write {cure}")));
        }
        if !self.words.is_empty() {
            self.words.push(' ');
        }
        self.words.push_str(&word);
        Ok(())
    }

    /// Returns the options that are valid here.
    fn options(&self) -> impl Iterator<Item = &'static Opt> {
        let own = self.table.commands.iter().find(|command| command.words == self.words);
        own.map_or(&[][..], |command| command.options).iter().chain(self.table.options)
    }

    fn long(&mut self, argument: &[u8], rest: &mut dyn Iterator<Item = OsString>) -> Result<(), ArgumentError> {
        let (name, value) = match argument.iter().position(|byte| *byte == b'=') {
            Some(at) => (argument.get(..at).unwrap_or_default(), argument.get(at + 1..)),
            None => (argument, None),
        };
        let found = self.options().find(|option| option.long.as_bytes() == name);
        let unknown = || format!("unknown option `--{}`", String::from_utf8_lossy(name));
        let option = found.ok_or_else(|| self.wrong(&unknown()))?;
        self.give(option, value, rest)
    }

    fn short(&mut self, argument: &[u8], rest: &mut dyn Iterator<Item = OsString>) -> Result<(), ArgumentError> {
        let (name, value) = argument.split_first().map_or((0, &[][..]), |(name, value)| (*name, value));
        let found = self.options().find(|option| option.short == Some(char::from(name)));
        let unknown = || format!("unknown option `-{}`", String::from_utf8_lossy(argument));
        let option = found.ok_or_else(|| self.wrong(&unknown()))?;
        let value = value.strip_prefix(b"=").unwrap_or(value);
        self.give(option, Some(value).filter(|value| !value.is_empty()), rest)
    }

    fn give(
        &mut self,
        option: &'static Opt,
        value: Option<&[u8]>,
        rest: &mut dyn Iterator<Item = OsString>,
    ) -> Result<(), ArgumentError> {
        let long = option.long;
        let value = match value {
            Some(_) if option.value.is_empty() => return Err(self.wrong(&format!("option `--{long}` takes no value"))),
            Some(value) => OsString::from_vec(value.to_vec()),
            None if option.value.is_empty() => OsString::from("true"),
            None => {
                let next = rest.next().filter(|next| !next.as_bytes().starts_with(b"-"));
                next.ok_or_else(|| self.wrong(&format!("option `--{long}` needs a value: {}", option.value)))?
            }
        };
        let given = self.given.entry(long).or_default();
        if !given.is_empty() && !option.many {
            return Err(self.wrong(&format!("option `--{long}` is repeated")));
        }
        given.push(value);
        Ok(())
    }

    /// Returns the texts of an option with their source; empty when the option has no value.
    fn texts(&self, long: &str) -> (String, Vec<OsString>) {
        let Some(option) = self.options().find(|option| option.long == long) else {
            return (String::new(), Vec::new());
        };
        let variable = || (self.environment)(option.variable).filter(|text| !text.is_empty());
        match self.given.get(long) {
            Some(given) => (format!("--{long}"), given.clone()),
            None => match variable() {
                Some(text) => (option.variable.to_owned(), vec![text]),
                None if option.default.is_empty() => (String::new(), Vec::new()),
                None => (format!("--{long}"), vec![option.default.into()]),
            },
        }
    }

    /// Returns the unparsed text of the option, if it has a value.
    pub(super) fn raw(&self, long: &str) -> Option<OsString> {
        self.texts(long).1.pop()
    }

    /// Returns the value of the option, if it has one.
    pub(super) fn value<T>(&self, long: &str) -> Result<Option<T>, ArgumentError>
    where
        T: FromStr,
        T::Err: fmt::Display,
    {
        Ok(self.values(long)?.pop())
    }

    /// Returns the value of a required option.
    pub(super) fn needed<T>(&self, long: &str) -> Result<T, ArgumentError>
    where
        T: FromStr,
        T::Err: fmt::Display,
    {
        self.value(long)?.ok_or_else(|| self.wrong(&format!("option `--{long}` is required")))
    }

    /// Returns all values of the option.
    pub(super) fn values<T>(&self, long: &str) -> Result<Vec<T>, ArgumentError>
    where
        T: FromStr,
        T::Err: fmt::Display,
    {
        let many = self.options().any(|option| option.long == long && option.many);
        let (source, texts) = self.texts(long);
        let mut values = Vec::new();
        for text in texts {
            let text = text.to_string_lossy();
            for text in text.split(|character| many && character == ',') {
                let value = text.parse().map_err(|error| self.wrong(&format!("invalid {source} `{text}`: {error}")));
                values.push(value?);
            }
        }
        Ok(values)
    }

    /// Reports whether the option is set.
    pub(super) fn is_set(&self, long: &str) -> Result<bool, ArgumentError> {
        let (source, mut texts) = self.texts(long);
        let text = texts.pop().unwrap_or_default().to_string_lossy().to_lowercase();
        match text.as_str() {
            "" | "false" | "0" => Ok(false),
            "true" | "1" => Ok(true),
            _ => Err(self.wrong(&format!("invalid {source} `{text}`: write true or false"))),
        }
    }
}
