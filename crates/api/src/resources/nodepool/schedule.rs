//! Schedules of disruption budgets: cron with the syntax of Karpenter's library, in any time zone.
//!
//! Time zones are compiled in, so that images without a file system have them, and all builds have the same ones. `jiff-cron`
//! has fields for seconds and years, and another rule for a star in one of the two fields for days.

mod times;

use jiff::civil::Date;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp, ToSpan};
pub use times::{InvalidTimes, Times};

/// Error for a text that is not a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSchedule {
    /// Text without five fields that is not a descriptor either.
    #[error(
        "{text:?} is not a schedule: write five fields such as \"0 9 * * mon-fri\", or @hourly, @daily, @weekly, @monthly or @yearly"
    )]
    Form {
        /// Text as received.
        text: String,
    },
    /// Invalid field.
    #[error("{text:?} is not the {field} of a schedule: {cure}")]
    Field {
        /// Field as received.
        text: String,
        /// Name of the field.
        field: &'static str,
        /// Fix.
        cure: String,
    },
    /// Schedule that never matches, because none of its months has any of its days.
    #[error("{text:?} never matches: no month of it has such a day")]
    Never {
        /// Text as received.
        text: String,
    },
}

/// Error for an unknown time zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not a time zone: write a name of the IANA database such as Europe/Berlin")]
pub struct UnknownZone {
    /// Name as received.
    pub name: String,
}

/// Returns the time zone with this name.
///
/// # Errors
/// Returns an error if the IANA database has no such zone.
pub fn zone(name: &str) -> Result<TimeZone, UnknownZone> {
    TimeZoneDatabase::bundled().get(name).map_err(|_| UnknownZone { name: name.to_owned() })
}

/// Minutes at which something begins, in the local time of some time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// True if both the day of the month and the weekday must match, because one of them is `*`. Otherwise one match is enough.
    both: bool,
}

struct Field {
    name: &'static str,
    least: u32,
    greatest: u32,
    /// Names of the numbers, beginning with `least`.
    words: &'static [&'static str],
}

const MINUTE: Field = Field { name: "minute", least: 0, greatest: 59, words: &[] };
const HOUR: Field = Field { name: "hour", least: 0, greatest: 23, words: &[] };
const DAY: Field = Field { name: "day of the month", least: 1, greatest: 31, words: &[] };
const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const MONTH: Field = Field { name: "month", least: 1, greatest: 12, words: &MONTHS };
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const WEEKDAY: Field = Field { name: "day of the week", least: 0, greatest: 6, words: &WEEKDAYS };

/// Maximum number of days in each month.
const LENGTHS: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

const WORDS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

impl Schedule {
    /// Parses five cron fields (minute, hour, day of the month, month, day of the week), or a descriptor such as `@daily`.
    ///
    /// # Errors
    /// Returns an error if the text is neither, or if the schedule never matches.
    pub fn read(text: &str) -> Result<Self, InvalidSchedule> {
        let word = WORDS.iter().find(|(word, _)| *word == text.trim()).map(|(_, fields)| *fields);
        let fields: Vec<&str> = word.unwrap_or(text).split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(InvalidSchedule::Form { text: text.to_owned() });
        };
        let (days, any_day) = DAY.read(day)?;
        let (weekdays, any_weekday) = WEEKDAY.read(weekday)?;
        let schedule = Self {
            minutes: MINUTE.read(minute)?.0,
            hours: HOUR.read(hour)?.0,
            days,
            months: MONTH.read(month)?.0,
            weekdays,
            both: any_day || any_weekday,
        };
        if schedule.has_matches() { Ok(schedule) } else { Err(InvalidSchedule::Never { text: text.to_owned() }) }
    }

    /// Reports whether the schedule began less than `lasts` ago, in the local time of the zone.
    ///
    /// A local time that a clock change skips counts later by the length of the change. If a local time occurs twice, the first
    /// occurrence counts.
    #[must_use]
    pub fn is_open(&self, lasts: SignedDuration, zone: &TimeZone, now: Timestamp) -> bool {
        let after = now.checked_sub(lasts).unwrap_or(Timestamp::MIN);
        if lasts <= SignedDuration::ZERO {
            return false;
        }
        // Offsets differ by less than a day around any time, so matches outside these days are outside the interval.
        let first = zone.to_datetime(after).date().saturating_sub(1.day());
        let last = zone.to_datetime(now).date().saturating_add(1.day());
        let days = std::iter::successors(Some(last), |day| day.yesterday().ok()).take_while(|day| *day >= first);
        let mut begins = days.filter(|day| self.has(*day)).flat_map(|day| self.times(day));
        begins.any(|civil| zone.to_timestamp(civil).is_ok_and(|at| after < at && at <= now))
    }

    /// Returns the local times of one day, the latest first.
    fn times(&self, day: Date) -> impl Iterator<Item = jiff::civil::DateTime> {
        let (hours, minutes) = (self.hours, self.minutes);
        let hours = (0..24i8).rev().filter(move |hour| hours & 1 << hour != 0);
        hours.flat_map(move |hour| {
            (0..60i8).rev().filter(move |minute| minutes & 1 << minute != 0).map(move |it| day.at(hour, it, 0, 0))
        })
    }

    fn has(&self, day: Date) -> bool {
        let of_month = self.days & 1 << day.day() != 0;
        let of_week = self.weekdays & 1 << day.weekday().to_sunday_zero_offset() != 0;
        let fits = if self.both { of_month && of_week } else { of_month || of_week };
        fits && self.months & 1 << day.month() != 0
    }

    /// Reports whether any of its months has any of its days. Weekdays occur in every month.
    fn has_matches(&self) -> bool {
        let fits = |(number, length): (u32, &u32)| {
            self.months & 1 << (number + 1) != 0 && (1..=*length).any(|day| self.days & 1 << day != 0)
        };
        !self.both || (0..).zip(&LENGTHS).any(fits)
    }
}

impl Field {
    /// Returns the numbers as bits, and whether the field is `*`.
    fn read(&self, text: &str) -> Result<(u64, bool), InvalidSchedule> {
        let refused = || InvalidSchedule::Field { text: text.to_owned(), field: self.name, cure: self.cure(text) };
        let (mut bits, mut open) = (0, false);
        for entry in text.split(',').filter(|entry| !entry.is_empty()) {
            let (more, any) = self.entry(entry).ok_or_else(refused)?;
            bits |= more;
            open |= any;
        }
        if bits == 0 { Err(refused()) } else { Ok((bits, open)) }
    }

    /// Parses one entry of a list: a number, `*` or a range, each with or without a step.
    fn entry(&self, text: &str) -> Option<(u64, bool)> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(step.parse::<u32>().ok()?)),
            None => (text, None),
        };
        let (low, high) = match range.split_once('-') {
            Some((low, high)) => (low, Some(high)),
            None => (range, None),
        };
        let any = matches!(low, "*" | "?");
        let (least, greatest) = match (any, high) {
            (true, _) => (self.least, self.greatest),
            (false, Some(high)) => (self.number(low)?, self.number(high)?),
            // With a step, a single number means all numbers from there on.
            (false, None) if step.is_some() => (self.number(low)?, self.greatest),
            (false, None) => (self.number(low)?, self.number(low)?),
        };
        let step = step.unwrap_or(1);
        if least < self.least || greatest > self.greatest || least > greatest || step == 0 {
            return None;
        }
        let numbers = (least..=greatest).step_by(usize::try_from(step).ok()?);
        Some((numbers.fold(0, |bits, number| bits | 1 << number), any && step == 1))
    }

    /// Returns the fix for a field: a range that goes on from the beginning is written as two, and sunday is not 7.
    fn cure(&self, text: &str) -> String {
        let entries: Vec<&str> = text.split(',').filter(|entry| !entry.is_empty()).collect();
        let unwrapped: Vec<String> =
            entries.iter().map(|entry| self.unwrapped(entry).unwrap_or_else(|| (*entry).to_owned())).collect();
        let text = unwrapped.join(",");
        if unwrapped.iter().ne(entries.iter()) && text.split(',').all(|entry| self.entry(entry).is_some()) {
            return format!("write {text}, since a range ends after it begins");
        }
        let sunday = if self.name == WEEKDAY.name && text.contains('7') { ", where sunday is 0" } else { "" };
        format!("write {} to {}{sunday}, *, ranges such as 1-5, lists or steps such as */2", self.least, self.greatest)
    }

    /// Returns a range that goes on from the beginning, such as `sat-sun` or `22-6`, as two; `None` for any other entry.
    fn unwrapped(&self, entry: &str) -> Option<String> {
        let (low, high) = entry.split_once('-')?;
        let (first, last) = (self.number(low)?, self.number(high)?);
        let is_valid = |number: u32| (self.least..=self.greatest).contains(&number);
        if first <= last || !is_valid(first) || !is_valid(last) {
            return None;
        }
        let is_word = self.words.iter().any(|word| word.eq_ignore_ascii_case(low));
        let shown = |number: u32| {
            let word = usize::try_from(number - self.least).ok().and_then(|index| self.words.get(index));
            word.filter(|_| is_word).map_or_else(|| number.to_string(), |word| (*word).to_owned())
        };
        let range = |from: u32, to: u32| {
            if from == to { shown(from) } else { format!("{}-{}", shown(from), shown(to)) }
        };
        Some(format!("{},{}", range(first, self.greatest), range(self.least, last)))
    }

    fn number(&self, text: &str) -> Option<u32> {
        let word = self.words.iter().position(|word| word.eq_ignore_ascii_case(text));
        match word {
            Some(position) => Some(self.least + u32::try_from(position).ok()?),
            None => text.parse().ok(),
        }
    }
}

#[cfg(test)]
mod tests;
