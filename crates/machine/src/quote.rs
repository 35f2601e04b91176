//! Quotations of input in errors. Errors appear in systemd's status, conditions and events. There, a line end would begin the
//! next field, and a long text would be truncated before the fix at its end.

/// Returns the text as one line of at most 80 characters, enough to find the place.
#[must_use]
pub fn quote(text: &str) -> String {
    shortened(text, 80)
}

/// Returns a parser's message as one line of at most 240 characters; the message quotes the text and has words of its own.
#[must_use]
pub fn problem(text: &str) -> String {
    shortened(text, 240)
}

fn shortened(text: &str, most: usize) -> String {
    let mut characters = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut line: String = characters.by_ref().take(most).collect();
    if characters.next().is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quote_replaces_line_ends_and_truncates_long_text() {
        assert_eq!(quote("spec.kubelet"), "spec.kubelet");
        assert_eq!(quote("NodeConfig\nREADY=1\r\u{85}"), "NodeConfig READY=1  ");
        assert_eq!(quote(&"é".repeat(80)), "é".repeat(80));
        assert_eq!(quote(&"é".repeat(81)), format!("{}…", "é".repeat(80)));
        assert_eq!(problem(&"x".repeat(1000)).chars().count(), 241);
    }
}
