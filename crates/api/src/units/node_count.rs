//! Numbers of nodes in budgets: absolute, or a percentage.

/// Returns a number of nodes, or a percentage of `total`, rounded up.
pub(crate) fn part(text: &str, total: u32) -> Option<u32> {
    let number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u64>().ok())?;
    let nodes = match text.strip_suffix('%') {
        None => number(text)?,
        Some(percent) => u64::from(total).saturating_mul(number(percent)?).div_ceil(100),
    };
    Some(u32::try_from(nodes).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn part_rounds_percentages_up() {
        let rows = [
            ("0", 10, Some(0)),
            ("3", 10, Some(3)),
            ("10%", 1, Some(1)),
            ("10%", 10, Some(1)),
            ("10%", 11, Some(2)),
            ("0%", 10, Some(0)),
            ("100%", 7, Some(7)),
            ("10%", 0, Some(0)),
            ("99999999999", 7, Some(u32::MAX)),
            ("ten", 10, None),
            ("-1", 10, None),
            ("+1", 10, None),
            ("x%", 10, None),
            ("%", 10, None),
            ("", 10, None),
        ];
        for (text, total, expected) in rows {
            assert_eq!(part(text, total), expected, "{text} of {total}");
        }
    }
}
