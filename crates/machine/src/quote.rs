//! What an error repeats of the text that it is about. Errors end up in systemd's status, conditions and events, where a line end
//! begins the next field and a long text is cut off: before its cure, if it comes first.

/// The text as one line, and no more of it than it takes to find the place.
#[must_use]
pub fn quote(text: &str) -> String {
    shortened(text, 80)
}

/// The same of what a reader says of a text, which quotes it and has words of its own.
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
    fn a_long_text_of_many_lines_becomes_a_short_one() {
        assert_eq!(quote("spec.kubelet"), "spec.kubelet");
        assert_eq!(quote("NodeConfig\nREADY=1\r\u{85}"), "NodeConfig READY=1  ");
        assert_eq!(quote(&"é".repeat(80)), "é".repeat(80));
        assert_eq!(quote(&"é".repeat(81)), format!("{}…", "é".repeat(80)));
        assert_eq!(problem(&"x".repeat(1000)).chars().count(), 241);
    }
}
