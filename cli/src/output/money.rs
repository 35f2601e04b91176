//! Money as text.

pub use api::price::dollars;

/// Returns millionths of a dollar for people: dollars with three decimals, rounded half up.
#[must_use]
pub fn rounded(micro: i64) -> String {
    let sign = if micro < 0 { "-" } else { "" };
    let thousandths = (micro.unsigned_abs() + 500) / 1000;
    format!("{sign}${}.{:03}", thousandths / 1000, thousandths % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_has_no_trailing_zeros_and_rounded_has_three_decimals() {
        let rows = [
            (0, "0", "$0.000"),
            (192_000, "0.192", "$0.192"),
            (3_000_000, "3", "$3.000"),
            (1, "0.000001", "$0.000"),
            (-1_500_500, "-1.5005", "-$1.501"),
        ];
        for (micro, exact, short) in rows {
            assert_eq!((dollars(micro).as_str(), rounded(micro).as_str()), (exact, short));
        }
    }
}
