//! Writers of JSON and YAML: their output is parsed into the same value; JSON has sorted keys and an indentation of four
//! spaces.

use machine::json::{pretty, sorted};
use machine::{document, yaml};
use proptest::prelude::*;
use serde_json::{Value, json};

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,8}|[\"\\\\\n\t]{0,3}".prop_map(Value::from),
        prop::sample::select(vec![
            "yes",
            "NULL",
            "1e3",
            "~",
            "- a",
            "a: b",
            "#",
            "a.b/c-d",
            " a",
            "\u{7f}\u{85}\u{2028}"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z\"]{0,3}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn pretty_writes_json_that_parses_into_the_same_value(value in values()) {
        let text = pretty(&value);
        prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value.clone());
        prop_assert_eq!(pretty(&sorted(value)), text);
    }

    #[test]
    fn text_writes_yaml_that_parses_into_the_same_value(value in values()) {
        let text = yaml::text(&value);
        let read: Value = document::read(&text).map_err(|fault| TestCaseError::fail(format!("{fault}: {text}")))?;
        prop_assert_eq!(read, value);
    }
}

#[test]
fn pretty_sorts_keys_and_indents_by_four_spaces() {
    let value = json!({"b": [1, {"c": []}], "a": {}, "d": "x\"y"});
    let text = "{\n    \"a\": {},\n    \"b\": [\n        1,\n        {\n            \"c\": []\n        }\n    ],\n    \"d\": \"x\\\"y\"\n}";
    assert_eq!(pretty(&value), text);
}

#[test]
fn text_writes_one_field_or_element_per_line() {
    let value = json!({"b": [1, {"c": []}, [true]], "a": {}, "d": "no", "e f": "x/y"});
    let text = "a: {}\nb:\n  - 1\n  -\n    c: []\n  -\n    - true\nd: \"no\"\n\"e f\": x/y\n";
    assert_eq!(yaml::text(&value), text);
}
