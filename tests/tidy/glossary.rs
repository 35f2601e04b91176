//! References of `docs/glossary.md` to the code: paths of files, and items such as `planner::Hint`.

/// Returns the text in each pair of backticks of the page, outside of code blocks.
pub fn references(page: &str) -> Vec<&str> {
    page.lines().filter(|line| line.starts_with('|')).flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

/// Splits `crate::module::Item` into the crate and the item. Returns `None` for other texts.
pub fn crate_and_item<'a>(reference: &'a str, crates: &[&str]) -> Option<(&'a str, &'a str)> {
    let (name, path) = reference.split_once("::")?;
    Some((name, path.rsplit("::").next()?)).filter(|_| crates.contains(&name))
}

/// Reports whether the source defines the item.
pub fn defines(source: &str, item: &str) -> bool {
    let kinds = ["struct", "enum", "trait", "mod", "fn", "const", "type"];
    kinds.iter().any(|kind| {
        source
            .split(&format!("{kind} {item}"))
            .skip(1)
            .any(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_from_tables_only() {
        assert_eq!(references("see `a`\n| x | `b`, `c::D` |\n"), ["b", "c::D"]);
    }

    #[test]
    fn crate_and_item_ignores_unknown_crates() {
        assert_eq!(crate_and_item("planner::model::Pod", &["planner"]), Some(("planner", "Pod")));
        assert_eq!(crate_and_item("spec::Pod", &["planner"]), None);
        assert_eq!(crate_and_item("planner", &["planner"]), None);
    }

    #[test]
    fn defines_matches_whole_names() {
        assert!(defines("pub struct Pod {", "Pod"));
        assert!(!defines("pub struct PodShape {", "Pod"));
    }
}
