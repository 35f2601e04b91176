//! EC2 responses: nested elements, lists of `item`, all text escaped.

use std::fmt::{Display, Write as _};

/// XML text under construction.
#[derive(Debug, Default)]
pub(super) struct Xml(String);

impl Xml {
    /// Returns the complete response of `action`, with the content of `inside`.
    pub(super) fn response(action: &str, inside: impl FnOnce(&mut Self)) -> String {
        let mut xml = Self("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned());
        let root = format!("{action}Response");
        xml.0.push_str(&format!("<{root} xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\">"));
        xml.text("requestId", super::answer::REQUEST_ID);
        inside(&mut xml);
        xml.0.push_str(&format!("</{root}>"));
        xml.0
    }

    /// Returns the complete response of IAM to `action`, with the content of `inside` in its result.
    pub(super) fn iam_response(action: &str, inside: impl FnOnce(&mut Self)) -> String {
        Self::query_response("https://iam.amazonaws.com/doc/2010-05-08/", action, inside)
    }

    /// Returns the complete response of STS to `action`, with the content of `inside` in its result.
    pub(super) fn sts_response(action: &str, inside: impl FnOnce(&mut Self)) -> String {
        Self::query_response("https://sts.amazonaws.com/doc/2011-06-15/", action, inside)
    }

    fn query_response(namespace: &str, action: &str, inside: impl FnOnce(&mut Self)) -> String {
        let mut xml = Self::default();
        xml.0.push_str(&format!("<{action}Response xmlns=\"{namespace}\">"));
        xml.element(&format!("{action}Result"), inside);
        xml.element("ResponseMetadata", |xml| xml.text("RequestId", super::answer::REQUEST_ID));
        xml.0.push_str(&format!("</{action}Response>"));
        xml.0
    }

    /// Returns the text.
    pub(super) fn into_text(self) -> String {
        self.0
    }

    /// Writes an element with the content of `inside`.
    pub(super) fn element(&mut self, name: &str, inside: impl FnOnce(&mut Self)) {
        self.0.push_str(&format!("<{name}>"));
        inside(self);
        self.0.push_str(&format!("</{name}>"));
    }

    /// Writes an element with a text.
    pub(super) fn text(&mut self, name: &str, value: impl Display) {
        self.element(name, |xml| xml.escaped(&value.to_string()));
    }

    /// Writes an element with a text, or nothing.
    pub(super) fn some(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    /// Writes a list: an element with an `item` for each of `items`.
    pub(super) fn items<T>(&mut self, name: &str, items: impl IntoIterator<Item = T>, each: impl Fn(&mut Self, T)) {
        self.element(name, |xml| {
            for item in items {
                xml.element("item", |xml| each(xml, item));
            }
        });
    }

    /// Writes a list of texts.
    pub(super) fn texts<T: AsRef<str>>(&mut self, name: &str, texts: impl IntoIterator<Item = T>) {
        self.items(name, texts, |xml, text| xml.escaped(text.as_ref()));
    }

    /// Writes a `tagSet`.
    pub(super) fn tags(&mut self, tags: &cloud::Tags) {
        self.items("tagSet", tags, |xml, (key, value)| {
            xml.text("key", key);
            xml.text("value", value);
        });
    }

    fn escaped(&mut self, text: &str) {
        for letter in text.chars() {
            match letter {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&apos;"),
                control if control.is_control() => self.numbered(control),
                letter => self.0.push(letter),
            }
        }
    }

    /// Writes a control character, such as a line break, as a numeric reference; any other form is lost.
    fn numbered(&mut self, control: char) {
        // Writing to a String cannot fail.
        let _written = write!(self.0, "&#{};", u32::from(control));
    }
}

#[cfg(test)]
mod tests {
    use super::Xml;

    #[test]
    fn xml_escapes_special_characters() {
        let text = Xml::response("Look", |xml| xml.texts("set", ["<a & 'b'>", "x\ny"]));
        assert!(
            text.ends_with("<set><item>&lt;a &amp; &apos;b&apos;&gt;</item><item>x&#10;y</item></set></LookResponse>")
        );
    }
}
