//! Replacement of names in a text, and the labels and annotations that are retired in any manifest. The replacement changes only
//! these names, not the text around them.

/// Labels, annotations and fields that were renamed.
const NAMES: [(&str, &str); 4] = [
    ("karpenter.sh/do-not-evict", "karpenter.sh/do-not-disrupt"),
    ("karpenter.sh/do-not-consolidate", "karpenter.sh/do-not-disrupt"),
    ("karpenter.sh/provisioner-name", "karpenter.sh/nodepool"),
    ("whenUnsatisfied", "whenUnsatisfiable"),
];

/// Text with replaced names.
pub(super) struct Renamed {
    pub(super) text: String,
    pub(super) hits: Vec<Hit>,
}

/// One replaced name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    /// Number of lines before the name.
    pub(super) line: usize,
    pub(super) old: String,
    pub(super) new: String,
}

/// Replaces retired labels, annotations and fields.
pub(super) fn names(text: &str) -> Renamed {
    let known = |word: &str| NAMES.iter().find(|(old, _)| *old == word).map(|(_, new)| (*new).to_owned());
    replaced(text, |letter| "-_./".contains(letter), |word, _| known(word))
}

/// Text around a name.
pub(super) struct Context<'a> {
    pub(super) before: &'a str,
    pub(super) after: &'a str,
}

/// Replaces names in a text. A name consists of ASCII letters, digits and the characters that `belongs` accepts.
pub(super) fn replaced(
    text: &str,
    belongs: impl Fn(char) -> bool,
    mut new: impl FnMut(&str, &Context<'_>) -> Option<String>,
) -> Renamed {
    let mut out = Renamed { text: String::with_capacity(text.len()), hits: Vec::new() };
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || belongs(letter);
    let (mut at, mut line) = (0, 0);
    while let Some(letter) = text[at..].chars().next() {
        if !is_word(letter) {
            line += usize::from(letter == '\n');
            out.text.push(letter);
            at += letter.len_utf8();
            continue;
        }
        let end = text[at..].find(|letter| !is_word(letter)).map_or(text.len(), |length| at + length);
        let (word, context) = (&text[at..end], Context { before: &text[..at], after: &text[end..] });
        match new(word, &context) {
            Some(new) => {
                out.text.push_str(&new);
                out.hits.push(Hit { line, old: word.to_owned(), new });
            }
            None => out.text.push_str(word),
        }
        at = end;
    }
    out
}
