//! Parser of YAML and JSON. The parser returns the same values as `serde_saphyr`, with which the controller writes YAML.
//! `serde_saphyr` is the oracle for each document. Errors have place and problem.

use std::collections::BTreeMap;

use machine::document::{read, read_json};
use proptest::prelude::{Strategy, any, prop, proptest};
use serde::Deserialize;
use serde_json::{Map, Value};

const DOCUMENTS: &[&str] = &[
    "",
    "# nothing but a comment\n",
    "just words",
    "a: 1\nb: [x, 'y', \"z\\n\"]\nc:\n- 1\n- d: e\n  f: ~\n",
    "---\na: b\n...\n",
    "{\"json\": [1, 2.5, -3, true, null, \"\\u00e9\"], \"deep\": {\"er\": {}}}",
    "text: |\n  one\n  two\nfolded: >-\n  one\n  two\n\n  three\n",
    "base: &base {a: 1, b: 2}\nover: {<<: *base, b: 3}\nlist: [*base, *base]\n",
    "one: &one {a: 1}\ntwo: &two {a: 2, b: 2}\nall:\n  c: 3\n  <<: [*one, *two]\n",
    "quoted: {'<<': 1, \"null\": 'null', '7': '7'}\n",
    "yes: no\non: Off\ntrue: y\n",
    "numbers: [0, -0, +1, 007, 1_000, 0x1F, 0o17, 0b101, 1e3, .5, -1., 18446744073709551616, 1.2.3, 1e, 0x, _1]\n",
    "tags: [!!str 1, ! 2, !!int '3', !!float '4.5', !!bool 'yes', !!binary aGVsbG8=, !mine 5]\n",
    "windows: line\r\nends: here\r\n",
    "? a\n: b\n",
    "é: ü\n",
];

#[test]
fn read_returns_the_same_value_as_serde_saphyr() {
    for text in DOCUMENTS {
        let expected: Value = serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(read::<Value>(text), Ok(expected), "{text}");
    }
}

#[test]
fn read_permits_further_documents_without_content() {
    for text in ["a: b\n---\n", "---\na: b\n---\n# the end\n", "---\n---\na: b\n", "---\n# nothing\n---\na: b\n...\n"] {
        assert_eq!(read::<Value>(text), Ok(serde_json::json!({"a": "b"})), "{text}");
    }
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Typed {
    name: Option<String>,
    #[serde(default)]
    count: u8,
    offset: Option<i64>,
    share: Option<f64>,
    is: Option<bool>,
    choice: Option<Choice>,
    #[serde(default)]
    more: BTreeMap<String, Vec<Typed>>,
}

#[derive(Debug, PartialEq, Deserialize)]
enum Choice {
    One,
    Two,
}

#[test]
fn read_converts_scalars_into_the_requested_type() {
    for text in [
        "name: 7",
        "name: 0x10",
        "name: ''",
        "{name: ~, count: '7', is: \"no\", offset: -3, share: 1}",
        "{name: 1.10, share: .5, choice: Two, is: on}",
        "more: {a: [{name: x}, {count: 0xff}], 7: []}",
    ] {
        let expected: Typed = serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(read(text), Ok(expected), "{text}");
    }
}

#[test]
fn read_reports_line_column_field_and_problem() {
    let bomb = format!(
        "a: &a [{}]\nb: &b [{}]\nc: &c [{}]\nd: [{}]\n",
        "x,".repeat(99),
        "*a,".repeat(99),
        "*b,".repeat(99),
        "*c,".repeat(99)
    );
    for (text, expected) in [
        ("name: [1]", "line 1, column 7, name: expected a text, found a list"),
        ("count: 300", "line 1, column 8, count: invalid value: integer `300`, expected u8"),
        ("count: many", "line 1, column 8, count: expected a whole number, found `many`"),
        ("is: maybe", "line 1, column 5, is: expected true or false, found `maybe`"),
        ("share: {}", "line 1, column 8, share: expected a number, found a mapping"),
        ("choice: Three", "line 1, column 9, choice: unknown variant `Three`, expected `One` or `Two`"),
        (
            "more:\n  a:\n  - name: x\n  - nam: y\n",
            "line 4, column 5, more.a[1].nam: unknown field `nam`, expected one of ",
        ),
        ("more: {a: 1}", "line 1, column 11, more.a: expected a list, found `1`"),
        ("more: {a: }", "line 1, column 9, more.a: expected a list, found nothing"),
        ("- 1", "line 1, column 1: expected a mapping, found a list"),
        ("name: a\nname: b\n", "line 2, column 1: `name` is repeated"),
        ("[a]: b", "line 1, column 1: expected a string as field name"),
        ("<<: 1", "line 1, column 5: expected a mapping behind <<"),
        ("a: &a [*a]", "line 1, column 8: recursive alias"),
        ("a: *b", "line 1, column 4: "),
        ("name: a\n---\nname: b\n", "line 3, column 1: a second document begins; write only one"),
        ("a: [\n", "line 1, column 4: "),
        ("a: !!binary '%'", "line 1, column 13: invalid base64: "),
        (&bomb, "line 3, column "),
    ] {
        let fault = read::<Typed>(text).unwrap_err();
        assert!(fault.to_string().starts_with(expected), "{text}: {fault}");
    }
    assert_eq!(read::<Value>("a: .inf").unwrap_err().field(), "a");
}

/// Returns a mapping whose values are lists of 40 levels, each around an alias of the one before.
fn alias_chain(links: usize) -> String {
    let (open, close) = ("[".repeat(40), "]".repeat(40));
    let link = |number: usize| match number {
        0 => format!("a0: &a0 {open}{close}\n"),
        _ => format!("a{number}: &a{number} {open}*a{}{close}\n", number - 1),
    };
    (0..links).map(link).collect()
}

/// Readers call themselves once for each level, so deep documents would end the process.
#[test]
fn read_reports_a_document_that_is_too_deep_with_its_aliases() {
    let merges: String = (1..200).map(|number| format!("m{number}: &m{number} {{<<: *m{}}}\n", number - 1)).collect();
    let nested: String = (1..200).map(|number| format!("m{number}: &m{number} {{x: *m{}}}\n", number - 1)).collect();
    for (text, line) in [
        (alias_chain(30), 3),
        (format!("{}{}", "[".repeat(101), "]".repeat(101)), 1),
        ("[".repeat(100_000), 1),
        ((0..101).map(|level| format!("{}a:\n", " ".repeat(level))).collect(), 101),
        (format!("{}x\n", "- ".repeat(101)), 1),
        (format!("m0: &m0 {{a: 1}}\n{nested}"), 100),
    ] {
        let fault = read::<Value>(&text).unwrap_err();
        assert_eq!(fault.place().line, line, "{fault}");
        assert!(fault.problem().ends_with("nest less deeply"), "{fault}");
    }
    for text in
        [alias_chain(2), format!("{}{}", "[".repeat(100), "]".repeat(100)), format!("m0: &m0 {{a: 1}}\n{merges}")]
    {
        assert!(read::<Value>(&text).is_ok(), "{text}");
    }
    assert!(read_json::<Value>("[".repeat(200).as_bytes()).is_err());
}

/// Few aliases of a long text need more memory than many of a short one.
#[test]
fn read_reports_a_document_that_is_too_large_with_its_aliases() {
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(10_000), "*a,".repeat(1000));
    let key = format!("a: &a {{{}: 1}}\nb: [{}]\n", "x".repeat(900), "*a,".repeat(10_000));
    let anchors = format!("{}{}{}", "&a [".repeat(90), "x,".repeat(5000), "]".repeat(90));
    for text in [long, key, anchors] {
        let fault = read::<Value>(&text).unwrap_err();
        assert!(fault.problem().contains("too large with its aliases; shorten it"), "{fault}");
    }
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = proptest::prop_oneof![
        proptest::prelude::Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1_000_000..1_000_000_i32).prop_map(|number| Value::from(f64::from(number) / 64.0)),
        "[ -~é\n]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        let fields = prop::collection::btree_map("[ -~]{0,8}", inner.clone(), 0..5);
        proptest::prop_oneof![
            prop::collection::vec(inner, 0..5).prop_map(Value::from),
            fields.prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    /// JSON is YAML, and the output of the library is parsed into the same value.
    #[test]
    fn read_returns_the_value_that_was_written(value in values()) {
        assert_eq!(read::<Value>(&value.to_string()), Ok(value.clone()));
        assert_eq!(read_json::<Value>(value.to_string().as_bytes()), Ok(value.clone()));
        assert_eq!(read::<Value>(&serde_saphyr::to_string(&value).unwrap()), Ok(value));
    }

    /// Random text gives an error or a value, and never another value than the library.
    #[test]
    fn read_agrees_with_serde_saphyr_when_text_is_random(text in "([a-c0-9.]|[:,\\-\\[\\]{}&*!?|>'\"#~<_ \n]){0,24}") {
        if let (Ok(ours), Ok(theirs)) = (read::<Value>(&text), serde_saphyr::from_str::<Value>(&text)) {
            assert_eq!(ours, theirs, "{text:?}");
        }
    }
}

#[derive(Debug, PartialEq, Deserialize, serde::Serialize)]
#[serde(rename_all = "camelCase")]
enum Carrying {
    Nothing,
    One(u64),
    Two(i64, String),
    Named { share: f64, inner: Option<Box<Carrying>> },
}

#[derive(Debug, PartialEq, Deserialize, serde::Serialize)]
#[serde(tag = "state", rename_all = "camelCase")]
enum Tagged {
    Done { at: u64, name: String },
}

#[test]
fn read_json_returns_the_same_value_as_serde_json() {
    let inner = Some(Box::new(Carrying::Two(-3, "7".to_owned())));
    let all = vec![Carrying::Nothing, Carrying::One(u64::MAX), Carrying::Named { share: 1.0, inner }];
    let text = serde_json::to_vec(&all).unwrap();
    assert_eq!(read_json::<Vec<Carrying>>(&text), Ok(all));
    let tagged = Tagged::Done { at: 7, name: "7".to_owned() };
    assert_eq!(read_json(&serde_json::to_vec(&tagged).unwrap()), Ok(tagged));
    for (text, expected) in [
        (&b"{\"a\": [1, {\"b\": \"x\"}]}"[..], "a[1].b: expected a whole number, found `x`"),
        (b"{\"a\": ", "line 1, column 6: EOF while parsing a value"),
        (b"<html>", "line 1, column 1: expected value"),
        (b"", "line 1, column 0: EOF while parsing a value"),
        (b"[]", "expected a mapping, found a list"),
    ] {
        let fault = read_json::<BTreeMap<String, (u64, BTreeMap<String, u64>)>>(text).unwrap_err();
        assert!(fault.to_string().starts_with(expected), "{fault}");
    }
    let rows =
        [("[{\"two\": 1}]", "[0].two: "), ("[{\"nothing\": 1}]", "[0].nothing: "), ("[\"three\"]", "[0]: unknown")];
    for (text, expected) in rows {
        let fault = read_json::<Vec<Carrying>>(text.as_bytes()).unwrap_err();
        assert!(fault.to_string().starts_with(expected), "{fault}");
    }
}
