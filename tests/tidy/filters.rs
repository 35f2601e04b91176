//! Filters of test names in verbs and pages: `cargo test -- FILTER` passes when no test has such a name.

use std::collections::BTreeSet;

/// Returns the filters of all `cargo test` commands of a text, without those of the scenarios, which are files.
pub fn filters(text: &str) -> BTreeSet<String> {
    let joined = text.replace("\\\n", " ");
    let commands = joined.lines().filter(|line| line.contains("cargo test") && !line.contains("--test scenarios --"));
    let words = commands.filter_map(|line| line.split_once(" -- ")).flat_map(|(_, rest)| {
        let rest = rest.split(['#', '`']).next().unwrap_or_default();
        rest.split_whitespace().filter(|word| !word.starts_with('-')).map(str::to_owned).collect::<Vec<_>>()
    });
    words.collect()
}

/// Reports whether a module or a function of the sources has each name of the filter; the last one may be a part of its name.
pub fn is_known(filter: &str, names: &BTreeSet<String>) -> bool {
    let parts: Vec<&str> = filter.split("::").filter(|part| !part.is_empty()).collect();
    let Some((last, modules)) = parts.split_last() else { return false };
    let is_module = filter.ends_with("::");
    let last_is_known = if is_module { names.contains(*last) } else { names.iter().any(|name| name.contains(last)) };
    last_is_known && modules.iter().all(|module| names.contains(*module))
}

/// Returns the names of all modules and functions of a source.
pub fn names(source: &str) -> impl Iterator<Item = String> + '_ {
    let words = source.lines().filter_map(|line| {
        let line = line.trim_start().trim_start_matches("pub ").trim_start_matches("async ");
        line.strip_prefix("mod ").or_else(|| line.strip_prefix("fn "))
    });
    words.map(|rest| rest.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect())
}

#[cfg(test)]
mod tests {
    use super::{filters, is_known, names};

    #[test]
    fn filters_are_the_words_after_the_dashes() {
        let text = "@$(RUN) x cargo test --test all -- \\\n  --ignored images:: --skip images::made # not this\n\
            cargo test --test scenarios -- limit-cpu\ncargo build -- no";
        assert_eq!(filters(text), ["images::".to_owned(), "images::made".to_owned()].into());
    }

    #[test]
    fn is_known_requires_each_part_of_a_filter() {
        let known = names("mod images;\n    async fn made_twice() {\npub fn helper(x: u8) {").collect();
        for (filter, expected) in
            [("images::", true), ("images::made", true), ("made", true), ("image::", false), ("images::gone", false)]
        {
            assert_eq!(is_known(filter, &known), expected, "{filter}");
        }
    }
}
