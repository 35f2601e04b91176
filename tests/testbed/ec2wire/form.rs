//! EC2 requests: a flat form with keys that describe a tree, as in `TagSpecification.1.Tag.2.Key`.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Form, or one branch of it. Cheap to clone, because branches share the pairs.
#[derive(Clone, Debug)]
pub(super) struct Form {
    pairs: Arc<BTreeMap<String, String>>,
    prefix: String,
}

impl Form {
    /// Parses `a=1&b.1.c=x%20y`. Invalid UTF-8 becomes the replacement character.
    pub(super) fn parse(body: &str) -> Self {
        let pair = |part: &str| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            (decode(key), decode(value))
        };
        let pairs = body.split('&').filter(|part| !part.is_empty()).map(pair).collect();
        Self { pairs: Arc::new(pairs), prefix: String::new() }
    }

    /// Returns the value at `key`, if it exists.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.pairs.get(&self.key(key)).map(String::as_str)
    }

    /// Returns the value at `key`, or an empty string.
    pub(super) fn text(&self, key: &str) -> &str {
        self.get(key).unwrap_or_default()
    }

    /// Returns an owned copy of the value at `key`, or an empty string.
    pub(super) fn owned(&self, key: &str) -> String {
        self.text(key).to_owned()
    }

    /// Parses the value at `key`; `None` if it is absent or invalid.
    pub(super) fn read<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.get(key)?.parse().ok()
    }

    /// Returns the branch at `key`, which may be empty.
    pub(super) fn at(&self, key: &str) -> Self {
        Self { pairs: Arc::clone(&self.pairs), prefix: self.key(key) }
    }

    /// Returns the branches `key.1`, `key.2`, ... up to the first missing one.
    pub(super) fn list(&self, key: &str) -> Vec<Self> {
        let branches = (1..).map(|index| self.at(&format!("{key}.{index}")));
        branches.take_while(|branch| !branch.is_bare()).collect()
    }

    /// Returns the values at `key.1`, `key.2`, ... up to the first missing one.
    pub(super) fn texts(&self, key: &str) -> Vec<String> {
        self.list(key).iter().map(|branch| branch.pairs.get(&branch.prefix).cloned().unwrap_or_default()).collect()
    }

    /// Returns all pairs of the form, in the order of their keys.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    fn is_bare(&self) -> bool {
        let inside = format!("{}.", self.prefix);
        let mut after = self.pairs.range(inside.clone()..).take_while(|(key, _)| key.starts_with(&inside));
        !self.pairs.contains_key(&self.prefix) && after.next().is_none()
    }

    fn key(&self, key: &str) -> String {
        if self.prefix.is_empty() { key.to_owned() } else { format!("{}.{key}", self.prefix) }
    }
}

/// Decodes `%XX` and `+` in the text of a form.
pub(super) fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let (byte, taken) = match (first, tail) {
            (b'%', [high, low, ..]) => match hex(*high).zip(hex(*low)) {
                Some((high, low)) => (high * 16 + low, 3),
                None => (b'%', 1),
            },
            (b'+', _) => (b' ', 1),
            (byte, _) => (*byte, 1),
        };
        bytes.push(byte);
        rest = &rest[taken..];
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::Form;

    #[test]
    fn form_reads_keys_as_a_tree() {
        let form =
            Form::parse("Action=X&T.1.Tag.1.Key=a%2Fb&T.1.Tag.1.Value=x+y%25&T.1.Tag.2.Key=c&T.10.Key=far&Id.1=i");
        assert_eq!(form.text("Action"), "X");
        let tags = form.list("T")[0].list("Tag");
        assert_eq!((tags[0].text("Key"), tags[0].text("Value")), ("a/b", "x y%"));
        assert_eq!((tags.len(), tags[1].get("Value")), (2, None));
        assert_eq!(form.list("T").len(), 1, "T.10 is not T.1 and comes after a gap");
        assert_eq!(form.texts("Id"), ["i"]);
        assert!(form.texts("None").is_empty());
    }
}
