//! Measurement of texts and names against `docs/style.md`: banned words, doc comments that begin with a question word, and
//! sentences that are too long.

use super::Counts;

/// Words of the project's former dialect. `docs/glossary.md` has the terms to use.
const BANNED: &[&str] = &[
    "agenda",
    "anybody",
    "blueprint",
    "desk",
    "emptying",
    "glance",
    "heed",
    "heeds",
    "judge",
    "judged",
    "judges",
    "manner",
    "mould",
    "nobody",
    "outset",
    "purse",
    "retinue",
    "scene",
    "sick",
    "somebody",
    "tiding",
    "tidings",
    "told",
    "town",
    "unwell",
    "whoever",
    "wish",
    "wishes",
];
const QUESTIONS: &[&str] = &["What", "Who", "Whom", "Whose", "How", "Whether", "Why", "Where", "When"];
const SENTENCE_WORDS: usize = 35;

/// Counts banned words in a text, by word. Identifiers count by their parts.
pub fn banned_words(text: &str) -> Counts {
    let mut counts = Counts::new();
    for word in words(text) {
        if BANNED.contains(&word.as_str()) {
            *counts.entry(word).or_default() += 1;
        }
    }
    counts
}

/// Splits a text at everything but letters, and within names such as `fooBar`.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in text.chars() {
        if !letter.is_ascii_alphabetic() || (letter.is_ascii_uppercase() && was_lower) {
            words.push(String::new());
        }
        if letter.is_ascii_alphabetic()
            && let Some(word) = words.last_mut()
        {
            word.push(letter.to_ascii_lowercase());
        }
        was_lower = letter.is_ascii_lowercase();
    }
    words.into_iter().filter(|word| !word.is_empty())
}

/// Counts doc comments whose first word is a question word.
pub fn question_comments(source: &str) -> usize {
    let mut before = "";
    let mut count = 0;
    for line in source.lines().map(str::trim_start) {
        let begins = |mark| line.starts_with(mark) && !before.starts_with(mark);
        if begins("///") || begins("//!") {
            let first = line[3..].split_whitespace().next().unwrap_or_default();
            count += usize::from(QUESTIONS.contains(&first));
        }
        before = line;
    }
    count
}

/// Counts sentences of more than 35 words in the prose of a Markdown page: no code, no tables.
pub fn long_sentences(page: &str) -> usize {
    let mut fenced = false;
    let mut prose = String::new();
    for line in page.lines() {
        fenced ^= line.starts_with("```");
        let is_prose = !fenced && !line.starts_with(['|', '#', '`']) && !line.starts_with("    ");
        match is_prose && !line.is_empty() {
            true if line.starts_with("- ") => prose = prose + ". " + line,
            true => prose = prose + " " + line,
            false => prose += ". ",
        }
    }
    prose.split(['.', ';', ':']).filter(|sentence| sentence.split_whitespace().count() > SENTENCE_WORDS).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banned_words_finds_parts_of_names() {
        let counts = banned_words("fn heed_bound(wishList: Wish) // told, untold");
        let expected = [("heed", 1), ("told", 1), ("wish", 2)].map(|(word, count)| (word.to_owned(), count));
        assert_eq!(counts, Counts::from(expected));
    }

    #[test]
    fn question_comments_counts_first_lines_only() {
        assert_eq!(question_comments("/// What it is.\n/// How it goes.\nfn a() {}\n/// Returns b.\nfn b() {}\n"), 1);
    }

    #[test]
    fn long_sentences_ignores_code_and_tables() {
        let long = "word ".repeat(36);
        assert_eq!(long_sentences(&format!("{long}.\n\n```\n{long}\n```\n| {long} |\n")), 1);
        assert_eq!(long_sentences(&format!("{}.", "word ".repeat(35))), 0);
    }
}
