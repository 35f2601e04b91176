//! Replacement of sections in docs/performance.md that were measured separately.

const HEADING: &str = "\n## ";

/// Returns the page with these sections, each with its date of measurement. Sections that the page lacks are appended.
#[must_use]
pub fn renewed(page: &str, sections: &str, day: &str) -> String {
    let mut parts: Vec<String> = page.split(HEADING).map(str::to_owned).collect();
    for section in sections.split(HEADING).skip(1) {
        let section = format!("{section}\nMeasured separately on {day}.\n");
        match parts.iter_mut().skip(1).find(|part| name(part) == name(&section)) {
            Some(part) => *part = section,
            None => parts.push(section),
        }
    }
    parts.join(HEADING)
}

/// Returns the new page with all sections of the old page that it lacks, because they are measured separately.
#[must_use]
pub fn with_separate_sections(new: &str, old: &str) -> String {
    let names: Vec<_> = new.split(HEADING).skip(1).map(name).collect();
    let lacking = old.split(HEADING).skip(1).filter(|section| !names.contains(&name(section)));
    lacking.fold(new.to_owned(), |page, section| format!("{page}{HEADING}{section}"))
}

fn name(section: &str) -> Option<&str> {
    section.lines().next()
}

#[cfg(test)]
mod tests {
    use super::{renewed, with_separate_sections};

    const PAGE: &str = "# Page\n\nwords\n\n## One\n\n1\n\n## Two\n\n2\n";

    #[test]
    fn renewed_replaces_only_sections_of_the_same_name() {
        let page = renewed(PAGE, "\n## One\n\nmore\n", "2026-11-23");
        assert_eq!(page, "# Page\n\nwords\n\n## One\n\nmore\n\nMeasured separately on 2026-11-23.\n\n## Two\n\n2\n");
        assert_eq!(renewed(&page, "\n## One\n\nmore\n", "2026-11-23"), page, "a second time changes nothing");
    }

    #[test]
    fn with_separate_sections_keeps_sections_that_the_new_page_lacks() {
        let new = "# Page\n\n## Two\n\n22\n";
        assert_eq!(with_separate_sections(new, PAGE), "# Page\n\n## Two\n\n22\n\n## One\n\n1\n");
        assert_eq!(with_separate_sections(PAGE, new), PAGE);
        assert_eq!(with_separate_sections(PAGE, ""), PAGE, "without a page before");
    }

    #[test]
    fn renewed_appends_new_sections() {
        let page = renewed(PAGE, "\n## Three\n\n3\n\n## Four\n\n4\n", "today");
        let three = "\n## Three\n\n3\n\nMeasured separately on today.\n";
        assert_eq!(page, format!("{PAGE}{three}\n## Four\n\n4\n\nMeasured separately on today.\n"));
        assert_eq!(renewed(PAGE, "", "today"), PAGE);
    }
}
