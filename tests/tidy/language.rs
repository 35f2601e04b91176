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
/// Further words that must not be parts of identifiers in test code. Whole identifiers of shipped code and of the AWS API are in
/// [`SHIPPED`].
const BANNED_IN_TESTS: &[&str] = &[
    "death", "doomed", "ear", "fate", "hand", "hands", "hear", "heard", "hears", "heir", "judging", "law", "laws",
    "lies", "life", "lives", "living", "obituary", "player", "referee", "room", "rooms", "said", "says", "scenes",
    "spoil", "spoilt", "story", "stories", "tell", "teller", "tells", "town", "twin", "twins", "wished", "world",
];
/// Further words that must not occur in what users apply, install and run.
const BANNED_IN_MANIFESTS: &[&str] = &["besides", "dear", "dearer", "said", "says", "story", "tell", "teller", "tells"];
/// Identifiers with a banned part that test code may use: names of shipped code, and terms of EC2.
const SHIPPED: &[&str] = &[
    "HALF_LIFE",
    "MakesRoom",
    "NoRoom",
    "Room",
    "instance_life_cycle",
    "tell_prices",
    "watch_reads_spot_notices_when_life_cycle_is_unknown",
    "watch_skips_spot_notices_when_life_cycle_is_on_demand",
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

/// Counts banned words in a manifest or a script, by word.
pub fn banned_in_manifests(text: &str) -> Counts {
    let mut counts = banned_words(text);
    for word in words(text).filter(|word| BANNED_IN_MANIFESTS.contains(&word.as_str())) {
        *counts.entry(word).or_default() += 1;
    }
    counts
}

/// Counts banned words in the identifiers of test code, by word. Strings and comments do not count.
pub fn banned_identifiers(source: &str) -> Counts {
    let mut counts = Counts::new();
    for identifier in identifiers(source).into_iter().filter(|it| !SHIPPED.contains(it)) {
        for word in words(identifier).filter(|it| is_banned_in_tests(it)) {
            *counts.entry(word).or_default() += 1;
        }
    }
    counts
}

/// Reports whether a name of a file or folder of test code has a banned word.
pub fn is_banned_name(name: &str) -> bool {
    words(name).any(|it| is_banned_in_tests(&it))
}

fn is_banned_in_tests(word: &str) -> bool {
    BANNED.contains(&word) || BANNED_IN_TESTS.contains(&word)
}

/// Returns the identifiers of Rust source, without strings and comments. Raw strings end at the first `"#`.
fn identifiers(source: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("r#\"") {
            rest.get(3..).and_then(|text| text.find("\"#")).map_or(rest.len(), |end| end + 5)
        } else if first == '"' {
            string_length(rest)
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\") {
            rest.get(2..).and_then(|text| text.find('\'')).map_or(1, |end| end + 3)
        } else if is_name(first) {
            let end = rest.find(|letter: char| !is_name(letter)).unwrap_or(rest.len());
            found.push(&rest[..end]);
            end
        } else {
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    found
}

/// Returns the length of the string literal at the begin of `text`, with its quotes.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            '"' if !is_escaped => return at + 1,
            _ => is_escaped = letter == '\\' && !is_escaped,
        }
    }
    text.len()
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
    fn banned_identifiers_ignores_strings_and_comments() {
        let source = "fn told(scene: Scene) { \"a \\\" scene\"; r#\"the \"room\"\"#; '\"'; heard } // a judge\nstruct MakesRoom;";
        let expected = [("heard", 1), ("scene", 2), ("told", 1)].map(|(word, count)| (word.to_owned(), count));
        assert_eq!(banned_identifiers(source), Counts::from(expected));
    }

    #[test]
    fn is_banned_name_finds_parts_of_file_names() {
        assert!(is_banned_name("machine_room") && is_banned_name("systemd-room") && !is_banned_name("node_simulator"));
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
