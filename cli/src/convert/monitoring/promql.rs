//! The parts of a PromQL expression that name metrics and labels. Whether the expression is valid is left to Prometheus.

/// Names in an expression.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) selectors: Vec<Selector>,
    /// Labels by which series are grouped or joined, with their offsets.
    pub(super) groupings: Vec<(String, usize)>,
    /// Strings outside of matchers, which may be labels that `label_replace` creates.
    pub(super) strings: Vec<String>,
}

/// Selection of series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Selector {
    /// Name of the metric; empty if it is not given as one name.
    pub(super) metric: String,
    pub(super) matchers: Vec<Matcher>,
    /// Offset of the selector in bytes.
    pub(super) offset: usize,
}

/// Comparison of a label with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Matcher {
    pub(super) label: String,
    pub(super) operator: String,
    pub(super) value: String,
    pub(super) offset: usize,
}

impl Matcher {
    /// Reports whether series without the label match. Variables of a board may have any value.
    pub(super) fn admits_absence(&self) -> bool {
        let is_pattern_of_nothing = || {
            self.value.contains('$')
                || regex_lite::Regex::new(&format!("^(?:{})$", self.value)).is_ok_and(|pattern| pattern.is_match(""))
        };
        match self.operator.as_str() {
            "=" => self.value.is_empty() || self.value.contains('$'),
            "!=" => !self.value.is_empty(),
            "=~" => is_pattern_of_nothing(),
            _ => !is_pattern_of_nothing(),
        }
    }
}

/// Words before a list of labels in parentheses.
const GROUPINGS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
/// Words that are neither metrics nor functions.
const WORDS: [&str; 29] = [
    "and",
    "or",
    "unless",
    "atan2",
    "bool",
    "offset",
    "inf",
    "nan",
    "start",
    "end",
    "sum",
    "min",
    "max",
    "avg",
    "count",
    "group",
    "stddev",
    "stdvar",
    "topk",
    "bottomk",
    "count_values",
    "quantile",
    "limitk",
    "limit_ratio",
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
];

/// Reads the names in an expression.
pub(super) fn read(text: &str) -> Query {
    let tokens = tokens(text);
    let mut query = Query::default();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let next = tokens.get(at + 1).map(|token| token.text.as_str());
        at += 1;
        match token.kind {
            TokenKind::String => query.strings.push(token.text.clone()),
            TokenKind::Sign if token.text == "{" => {
                let (matchers, end) = matchers(&tokens, at);
                query.selectors.push(selector(String::new(), matchers, token.offset));
                at = end;
            }
            // A range such as [5m], and a variable of a board in brackets.
            TokenKind::Sign if token.text == "[" => at = end_of(&tokens, at, "]"),
            TokenKind::Word if GROUPINGS.contains(&lower(token).as_str()) && next == Some("(") => {
                let end = end_of(&tokens, at + 1, ")");
                let labels = tokens[at + 1..end].iter().filter(|token| token.kind == TokenKind::Word);
                query.groupings.extend(labels.map(|label| (label.text.clone(), label.offset)));
                at = end;
            }
            TokenKind::Word if next == Some("{") => {
                let (matchers, end) = matchers(&tokens, at + 1);
                query.selectors.push(selector(token.text.clone(), matchers, token.offset));
                at = end;
            }
            TokenKind::Word if next != Some("(") && !WORDS.contains(&lower(token).as_str()) => {
                query.selectors.push(selector(token.text.clone(), Vec::new(), token.offset));
            }
            _ => {}
        }
    }
    query
}

/// Returns the selector; a matcher of `__name__` replaces the name.
fn selector(name: String, matchers: Vec<Matcher>, offset: usize) -> Selector {
    let is_name = |matcher: &&Matcher| matcher.label == "__name__" && matcher.operator == "=";
    let named = matchers.iter().find(is_name).map(|matcher| matcher.value.clone());
    Selector { metric: named.unwrap_or(name), matchers, offset }
}

/// Reads matchers up to the closing brace, and returns them with the index behind it.
fn matchers(tokens: &[Token], from: usize) -> (Vec<Matcher>, usize) {
    let end = end_of(tokens, from, "}");
    let mut matchers = Vec::new();
    for [label, operator, value] in tokens[from..end].windows(3).filter_map(|three| <&[Token; 3]>::try_from(three).ok())
    {
        let is_matcher = matches!(label.kind, TokenKind::Word | TokenKind::String)
            && ["=", "!=", "=~", "!~"].contains(&operator.text.as_str())
            && value.kind == TokenKind::String;
        if is_matcher {
            let [label_text, operator, value] = [label, operator, value].map(|token| token.text.clone());
            matchers.push(Matcher { label: label_text, operator, value, offset: label.offset });
        }
    }
    (matchers, end)
}

/// Returns the index behind the closing sign, or the end.
fn end_of(tokens: &[Token], from: usize, sign: &str) -> usize {
    let is_end = |token: &Token| token.kind == TokenKind::Sign && token.text == sign;
    let rest = tokens.get(from..).unwrap_or_default();
    rest.iter().position(is_end).map_or(tokens.len(), |length| from + length + 1)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenKind {
    Word,
    String,
    Sign,
}

#[derive(Clone, Debug)]
struct Token {
    kind: TokenKind,
    text: String,
    offset: usize,
}

fn lower(token: &Token) -> String {
    token.text.to_ascii_lowercase()
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(letter) = text[at..].chars().next() {
        let rest = &text[at..];
        let (kind, length) = match letter {
            '#' => (None, rest.find('\n').unwrap_or(rest.len())),
            '"' | '\'' | '`' => (Some(TokenKind::String), string_length(rest, letter)),
            // Numbers and durations, and variables of a board, are no names.
            '0'..='9' | '$' => (None, length_of(rest, |letter| is_of_name(letter) || "${}.".contains(letter))),
            _ if is_of_name(letter) => (Some(TokenKind::Word), length_of(rest, is_of_name)),
            '=' | '!' if rest[1..].starts_with(['=', '~']) => (Some(TokenKind::Sign), 2),
            _ if letter.is_whitespace() => (None, letter.len_utf8()),
            _ => (Some(TokenKind::Sign), letter.len_utf8()),
        };
        if let Some(kind) = kind {
            let text = if kind == TokenKind::String { unquoted(&rest[..length]) } else { rest[..length].to_owned() };
            tokens.push(Token { kind, text, offset: at });
        }
        at += length.max(1);
    }
    tokens
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == ':'
}

fn length_of(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|letter| !belongs(letter)).unwrap_or(text.len())
}

/// Returns the length of the string at the start of the text, with its quotes.
fn string_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (offset, letter) in text.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quote != '`' => escaped = true,
            _ if letter == quote => return offset + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns a string without its quotes and escapes.
fn unquoted(text: &str) -> String {
    let inner = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
    if text.starts_with('`') { inner.to_owned() } else { inner.replace("\\\"", "\"").replace("\\\\", "\\") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> (Vec<String>, Vec<String>, Vec<String>) {
        let query = read(text);
        let labels = query.selectors.iter().flat_map(|it| it.matchers.iter().map(|it| it.label.clone())).collect();
        let groupings = query.groupings.into_iter().map(|(label, _)| label).collect();
        (query.selectors.into_iter().map(|it| it.metric).collect(), labels, groupings)
    }

    /// A query with its metrics, labels and groupings.
    type Row = (&'static str, &'static [&'static str], &'static [&'static str], &'static [&'static str]);

    #[test]
    fn read_finds_metrics_labels_and_groupings() {
        let rows: [Row; 9] = [
            ("a", &["a"], &[], &[]),
            ("sum by (x, y) (rate(a{b=\"c\", d!~'e}'}[5m])) > 0.5", &["a"], &["b", "d"], &["x", "y"]),
            ("sum(a) without(x) / on (y) group_left(z) c", &["a", "c"], &[], &["x", "y", "z"]),
            ("a{b=\"$x\"}[$__rate_interval] offset 1h", &["a"], &["b"], &[]),
            ("{__name__=\"a\", b=\"c\"}", &["a"], &["__name__", "b"], &[]),
            ("{__name__=~\"a.*\"}", &[""], &["__name__"], &[]),
            ("histogram_quantile(0.9, sum(rate(a_bucket[5m])) by (le)) # c{d=\"e\"}", &["a_bucket"], &[], &["le"]),
            ("count(a == 1) or vector(0) and b unless c", &["a", "b", "c"], &[], &[]),
            ("label_replace(a, \"x\", \"$1\", \"y\", \"(.*)\") > 1e3", &["a"], &[], &[]),
        ];
        for (text, metrics, labels, groupings) in rows {
            let found = names(text);
            assert_eq!((found.0, found.1, found.2), (owned(metrics), owned(labels), owned(groupings)), "{text}");
        }
        assert_eq!(read("label_replace(a, \"x\", \"\", \"y\", \"\")").strings, ["x", "", "y", ""]);
    }

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn admits_absence_follows_the_operator() {
        let rows = [
            ("a=\"\"", true),
            ("a=\"b\"", false),
            ("a=\"$b\"", true),
            ("a!=\"\"", false),
            ("a!=\"b\"", true),
            ("a=~\".*\"", true),
            ("a=~\".+\"", false),
            ("a=~\"b|\"", true),
            ("a!~\"b\"", true),
            ("a!~\".*\"", false),
        ];
        for (text, expected) in rows {
            let query = read(&format!("m{{{text}}}"));
            assert_eq!(query.selectors[0].matchers[0].admits_absence(), expected, "{text}");
        }
    }

    #[test]
    fn read_accepts_any_text() {
        for text in ["", "{", "a{", "\"", "a{b=", "by (", "[", "é{ü=\"ö\"}", "$", "${a:b}", "sum by"] {
            read(text);
        }
    }
}
