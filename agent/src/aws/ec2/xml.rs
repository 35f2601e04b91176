//! Parser for the XML of EC2's responses: nested elements with text. Callers only need the text at one path. `quick-xml` yields
//! events, so this search for a path would remain, for three kinds of responses.

/// Returns the text of every element at `path`, names from the root on; `None` for a document that is not well-formed.
///
/// Attributes, comments and declarations are ignored.
#[must_use]
pub fn texts(document: &str, path: &[&str]) -> Option<Vec<String>> {
    let mut open: Vec<&str> = Vec::new();
    let mut found = Vec::new();
    let mut rest = document;
    while let Some(start) = rest.find('<') {
        let text = &rest[..start];
        let (tag, after) = tag(&rest[start..])?;
        rest = after;
        match tag {
            Tag::Other => {}
            Tag::Empty(name) => {
                if at(&open, path, name) {
                    found.push(String::new());
                }
            }
            Tag::Open(name) => open.push(name),
            Tag::Close(name) => {
                if open.pop()? != name {
                    return None;
                }
                if at(&open, path, name) {
                    found.push(unescaped(text));
                }
            }
        }
    }
    (open.is_empty() && !document.trim().is_empty()).then_some(found)
}

fn at(open: &[&str], path: &[&str], name: &str) -> bool {
    path.split_last().is_some_and(|(last, parents)| *last == name && parents == open)
}

enum Tag<'a> {
    Open(&'a str),
    Empty(&'a str),
    Close(&'a str),
    Other,
}

/// Returns the tag at the start of `text`, and the rest.
fn tag(text: &str) -> Option<(Tag<'_>, &str)> {
    if let Some(comment) = text.strip_prefix("<!--") {
        return Some((Tag::Other, &comment[comment.find("-->")? + 3..]));
    }
    let end = text.find('>')?;
    let (inside, after) = (&text[1..end], &text[end + 1..]);
    Some((kind(inside), after))
}

fn kind(inside: &str) -> Tag<'_> {
    if inside.starts_with(['?', '!']) {
        Tag::Other
    } else if let Some(closing) = inside.strip_prefix('/') {
        Tag::Close(first_word(closing))
    } else if let Some(empty) = inside.strip_suffix('/') {
        Tag::Empty(first_word(empty))
    } else {
        Tag::Open(first_word(inside))
    }
}

fn first_word(text: &str) -> &str {
    text.split_ascii_whitespace().next().unwrap_or_default()
}

fn unescaped(text: &str) -> String {
    let text = text.trim();
    let pairs = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    pairs.iter().fold(text.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!-- the names stand twice -->
<Answer xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <set><item><name>ip-1.internal</name><inner><item><name>other</name></item></inner></item>
    <item><name/></item><item><name> a &amp;lt; b </name></item></set>
</Answer>"#;

    fn found(document: &str, path: &[&str]) -> Option<Vec<String>> {
        texts(document, path)
    }

    #[test]
    fn texts_returns_only_elements_at_the_path() {
        let names = ["ip-1.internal", "", "a &lt; b"].map(str::to_owned).to_vec();
        assert_eq!(found(ANSWER, &["Answer", "set", "item", "name"]), Some(names));
        assert_eq!(found(ANSWER, &["Answer", "set", "item", "inner", "item", "name"]), Some(vec!["other".to_owned()]));
        assert_eq!(found(ANSWER, &["Answer", "name"]), Some(vec![]));
        assert_eq!(found(ANSWER, &[]), Some(vec![]));
    }

    #[test]
    fn texts_returns_none_when_the_document_is_malformed() {
        for cut in 1..ANSWER.len() - 1 {
            if ANSWER.is_char_boundary(cut) {
                let whole = found(&ANSWER[..cut], &["Answer", "set", "item", "name"]);
                assert_eq!(whole.filter(|names| !names.is_empty()), None, "{cut}");
            }
        }
        for text in ["", "  ", "<a></b>", "</a>", "<a", "<a><!-- </a>", "<html><br></html>"] {
            assert_eq!(found(text, &["a"]), None, "{text:?}");
        }
    }
}
