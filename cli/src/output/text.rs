//! Text layout: colours, truncation, line breaks and counts. `textwrap` and `anstyle` would replace some forty lines, because
//! lines break only at spaces.

/// Colours, enabled or disabled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint(pub(crate) bool);

impl Paint {
    fn with(self, code: &str, text: &str) -> String {
        if self.0 { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// Formats a heading.
    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    /// Formats a name.
    pub(crate) fn cyan(self, text: &str) -> String {
        self.with("36", text)
    }

    /// Colours a utilization bar: green from 70 %, yellow from 35 %, else red.
    pub(crate) fn level(self, text: &str, percent: i128) -> String {
        let code = match percent {
            70.. => "32",
            35..70 => "33",
            _ => "31",
        };
        self.with(code, text)
    }
}

/// Truncates a text that is longer than `width`, with an ellipsis.
pub(crate) fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Returns an age with its largest unit, as kubectl.
pub(crate) fn age(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{}s", seconds.max(0)),
        120..10_800 => format!("{}m", seconds / 60),
        10_800..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Splits the text at spaces into lines of at most `width`, each after `indent`.
pub(crate) fn wrap(text: &str, width: usize, indent: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let columns = width.saturating_sub(indent.chars().count());
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > columns {
            lines.push(format!("{indent}{line}"));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(format!("{indent}{line}"));
    lines
}

/// Returns a count with its noun: `1 node`, `2 nodes`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paint_adds_escape_codes_only_when_colours_are_on() {
        assert_eq!(Paint(true).bold("x"), "\u{1b}[1mx\u{1b}[0m");
        assert_eq!(Paint(false).bold("x"), "x");
        assert_ne!(Paint(true).level("x", 80), Paint(true).level("x", 20));
    }

    #[test]
    fn age_has_the_largest_unit() {
        let rows = [(-5, "0s"), (119, "119s"), (120, "2m"), (10_800, "3h"), (172_800, "2d"), (40_000_000, "462d")];
        for (seconds, text) in rows {
            assert_eq!(age(seconds), text);
        }
    }

    #[test]
    fn fit_truncates_and_wrap_breaks_text_to_the_width() {
        assert_eq!(fit("abcdef", 6), "abcdef");
        assert_eq!(fit("abcdefg", 6), "abcde…");
        assert_eq!(wrap("one two three", 9, "  "), ["  one two", "  three"]);
        assert_eq!(wrap("", 9, "  "), ["  "]);
    }
}
