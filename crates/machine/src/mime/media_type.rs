//! Parameters of a `Content-Type`: tokens, quoted texts, and the encoded and continued forms of RFC 2231.

use super::escape::unescaped;

/// Returns the value of a parameter by case-insensitive name.
pub(super) fn parameter(content_type: &str, name: &str) -> Option<String> {
    let all = parameters(content_type);
    let value_of = |name: &str| all.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value);
    value_of(name)
        .cloned()
        .or_else(|| value_of(&format!("{name}*")).map(|value| decoded(charset_removed(value))))
        .or_else(|| continued(name, value_of))
}

/// Returns the joined segments `NAME*0`, `NAME*1` and so on; a segment `NAME*1*` is percent-encoded.
fn continued<'a>(name: &str, value_of: impl Fn(&str) -> Option<&'a String>) -> Option<String> {
    let segment = |index: usize| {
        let plain = value_of(&format!("{name}*{index}")).cloned();
        plain.or_else(|| {
            let value = value_of(&format!("{name}*{index}*"))?;
            Some(decoded(if index == 0 { charset_removed(value) } else { value }))
        })
    };
    let joined: String = (0..).map_while(segment).collect();
    (!joined.is_empty()).then_some(joined)
}

/// Returns the value after `CHARSET'LANGUAGE'`.
fn charset_removed(value: &str) -> &str {
    value.splitn(3, '\'').nth(2).unwrap_or(value)
}

fn decoded(value: &str) -> String {
    String::from_utf8_lossy(&unescaped(value.as_bytes(), b'%')).into_owned()
}

/// Returns names and values without quotes. A semicolon inside quotes does not end a value.
fn parameters(content_type: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = content_type.split_once(';').map_or("", |(_, rest)| rest);
    while let Some((name, after)) = rest.split_once('=') {
        // A parameter without a value stands before the next one.
        let name = name.rsplit(';').next().unwrap_or(name).trim();
        let (value, after) = value(after.trim_start());
        found.push((name.to_owned(), value));
        rest = after.split_once(';').map_or("", |(_, rest)| rest);
    }
    found
}

/// Returns the value at the begin of a text, and the text after it.
fn value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(';').unwrap_or(text.len());
        return (text[..end].trim().to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameter_returns_the_value_of_every_form() {
        for (content_type, expected) in [
            ("multipart/mixed; boundary=B", Some("B")),
            ("multipart/mixed; BOUNDARY = \"a;b\" ; charset=x", Some("a;b")),
            ("multipart/mixed; charset=\"boundary=X\"; boundary=//", Some("//")),
            (r#"multipart/mixed; boundary="a\"b""#, Some("a\"b")),
            ("multipart/mixed; flag; boundary=B;", Some("B")),
            ("multipart/mixed; boundary=\"B", Some("B")),
            ("multipart/mixed; boundary*=us-ascii'en'a%2Fb%zz", Some("a/b%zz")),
            ("multipart/mixed; boundary*0=\"a\"; boundary*1*=%2F; boundary*3=c", Some("a/")),
            ("multipart/mixed; boundary*0*=''%41; boundary*1=b", Some("Ab")),
            ("multipart/mixed; boundary=", Some("")),
            ("multipart/mixed", None),
        ] {
            assert_eq!(parameter(content_type, "boundary").as_deref(), expected, "{content_type}");
        }
    }
}
