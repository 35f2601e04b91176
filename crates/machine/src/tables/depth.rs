//! Levels of a TOML document before it is parsed: each bracket and each dot of a key around a value is one.

/// Maximum number of levels below a table's header, whose own key the parser limits.
pub(super) const LIMIT: usize = 100;

/// Returns at least the number of levels at the deepest place below a header. Dots of numbers count too.
pub(super) fn deepest(text: &str) -> usize {
    let mut scan = Scan { rest: text, open: Vec::new(), dots: 0 };
    let mut deepest = 0;
    while let Some(first) = scan.rest.chars().next() {
        scan.step(first);
        deepest = deepest.max(scan.level());
    }
    deepest
}

struct Scan<'a> {
    rest: &'a str,
    /// Closing character of each open bracket, and the levels inside.
    open: Vec<(char, usize)>,
    /// Dots since the last bracket, comma or line end.
    dots: usize,
}

impl Scan<'_> {
    fn level(&self) -> usize {
        self.open.last().map_or(0, |(_, level)| *level) + self.dots
    }

    fn step(&mut self, first: char) {
        let length = match first {
            '#' => self.rest.find('\n').unwrap_or(self.rest.len()),
            '"' | '\'' => string(self.rest, first),
            other => other.len_utf8(),
        };
        match first {
            '[' | '{' => {
                self.open.push((if first == '[' { ']' } else { '}' }, self.level() + 1));
                self.dots = 0;
            }
            // A bracket of the other kind closes nothing, so that an invalid document cannot hide levels.
            ']' | '}' if self.open.last().is_some_and(|(closing, _)| *closing == first) => {
                self.open.pop();
                self.dots = 0;
            }
            ',' => self.dots = 0,
            '\n' if self.open.is_empty() => self.dots = 0,
            '.' => self.dots += 1,
            _ => {}
        }
        self.rest = self.rest.get(length..).unwrap_or_default();
    }
}

/// Returns the length of the string at the start of a text, with its quotes. A string that is not closed ends with its line, and
/// one on several lines with the text.
fn string(text: &str, quote: char) -> usize {
    let triple: String = std::iter::repeat_n(quote, 3).collect();
    let is_long = text.starts_with(&triple);
    let mut at = if is_long { triple.len() } else { 1 };
    while let Some(rest) = text.get(at..)
        && let Some(next) = rest.chars().next()
    {
        if is_long && rest.starts_with(&triple) {
            // Two more quotes may stand before the closing ones.
            return at + rest.chars().take_while(|other| *other == quote).take(5).count();
        }
        match next {
            '\n' if !is_long => return at,
            _ if !is_long && next == quote => return at + 1,
            '\\' if quote == '"' => {
                at += rest.chars().nth(1).filter(|escaped| *escaped != '\n').map_or(0, char::len_utf8)
            }
            _ => {}
        }
        at += next.len_utf8();
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::deepest;

    #[test]
    fn deepest_counts_brackets_and_dots_outside_of_strings() {
        for (text, levels) in [
            ("a = 1", 0),
            ("a.b.c = 1\nd.e = 2", 2),
            ("[a.b]\nc = 1", 2),
            ("a = [1, [2]]", 2),
            ("a.b = {c.d = {e.f = 1}}", 5),
            ("a = [1.5, 2.5, {b = 3}]", 2),
            ("a = [{}, ]]\nb = [1]", 2),
            ("a = [}, [}, [", 3),
            ("a = '[[[' # [[[\nb = \"[\\\"[\"", 0),
            ("a = \"\"\"[\"[\n[\"\"\"\"\"\nb = [1]", 1),
            ("a = '''[\n'[''''\nb = [1]", 1),
            ("a = 'open [\nb = [[1]]", 2),
            ("\"[[\".'{{' = 1", 1),
        ] {
            assert_eq!(deepest(text), levels, "{text}");
        }
    }
}
