//! Requirement algebra compared with a simple oracle: sets of values from a small universe, enumerated.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::collections::{BTreeMap, BTreeSet};

use planner::{Operator, Requirement, Requirements, ValueSet};
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use proptest::{collection, option, prop_assert, prop_assert_eq};

/// All possible label values in these tests: absent, an integer, a text, and a value that no requirement names.
const UNIVERSE: [Option<&str>; 8] =
    [None, Some("-1"), Some("0"), Some("1"), Some("2"), Some("3"), Some("word"), Some("other")];
const MENTIONED: [&str; 6] = ["-1", "0", "1", "2", "3", "word"];
const KEY: &str = "key";

fn requirement() -> impl Strategy<Value = Requirement> {
    let operators = prop_oneof![
        Just(Operator::In),
        Just(Operator::NotIn),
        Just(Operator::Exists),
        Just(Operator::DoesNotExist),
        Just(Operator::Gt),
        Just(Operator::Lt),
        Just(Operator::Gte),
        Just(Operator::Lte),
    ];
    let values = collection::btree_set(0..MENTIONED.len(), 1..4);
    (operators, values, -2i64..5, option::of(0u32..4)).prop_map(|(operator, values, bound, min_values)| {
        let values: Vec<String> = match operator {
            Operator::In | Operator::NotIn => values.into_iter().map(|it| MENTIONED[it].to_owned()).collect(),
            Operator::Exists | Operator::DoesNotExist => Vec::new(),
            _ => vec![bound.to_string()],
        };
        Requirement { min_values, ..Requirement::new(KEY, operator, values) }
    })
}

/// Oracle for one operator, as Kubernetes documents it.
fn allows(it: &Requirement, value: Option<&str>) -> bool {
    let listed = value.is_some_and(|value| it.values.iter().any(|own| own == value));
    let number = value.and_then(|value| value.parse::<i64>().ok());
    let bound = it.values.first().and_then(|value| value.parse::<i64>().ok());
    match (it.operator, number, bound) {
        (Operator::In, ..) => listed,
        (Operator::NotIn, ..) => !listed,
        (Operator::Exists, ..) => value.is_some(),
        (Operator::DoesNotExist, ..) => value.is_none(),
        (Operator::Gt, Some(number), Some(bound)) => number > bound,
        (Operator::Lt, Some(number), Some(bound)) => number < bound,
        (Operator::Gte, Some(number), Some(bound)) => number >= bound,
        (Operator::Lte, Some(number), Some(bound)) => number <= bound,
        _ => false,
    }
}

fn oracle(all: &[Requirement]) -> BTreeSet<Option<&'static str>> {
    UNIVERSE.into_iter().filter(|value| all.iter().all(|it| allows(it, *value))).collect()
}

fn allowed(set: &ValueSet) -> BTreeSet<Option<&'static str>> {
    UNIVERSE.into_iter().filter(|value| set.allows(*value)).collect()
}

fn set_of(all: &[Requirement]) -> ValueSet {
    let requirements: Requirements = all.iter().collect();
    requirements.get(KEY).unwrap().clone()
}

/// Reports whether all allowed integers are in the universe. Otherwise emptiness in the universe does not imply emptiness.
fn is_bounded(all: &[Requirement]) -> bool {
    let any = |operators: [Operator; 2]| all.iter().any(|it| operators.contains(&it.operator));
    let either = any([Operator::Gt, Operator::Gte]) || any([Operator::Lt, Operator::Lte]);
    !either || any([Operator::Gt, Operator::Gte]) && any([Operator::Lt, Operator::Lte]) || any([Operator::In; 2])
}

proptest! {
    #[test]
    fn requirements_allow_a_value_when_each_one_allows_it(all in collection::vec(requirement(), 1..5)) {
        let set = set_of(&all);
        prop_assert_eq!(allowed(&set), oracle(&all));
        let min_values = all.iter().filter_map(|it| it.min_values).max();
        prop_assert_eq!(set.min_values(), min_values);
        if is_bounded(&all) && all.iter().all(|it| it.values.iter().all(|it| it != "4" && it != "-2")) {
            prop_assert_eq!(set.is_empty(), oracle(&all).is_empty(), "{:?}", set);
        }
    }

    #[test]
    fn intersection_is_commutative_and_associative(
        a in requirement(), b in requirement(), c in requirement(),
    ) {
        let [a, b, c] = [a, b, c].map(|it| ValueSet::from_requirement(&it));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.intersection(&b).intersection(&c), a.intersection(&b.intersection(&c)));
        prop_assert_eq!(a.intersection(&a), a);
    }

    #[test]
    fn to_requirements_preserves_the_set(all in collection::vec(requirement(), 1..5)) {
        let set = set_of(&all);
        let written = set.to_requirements(KEY);
        // A set that allows everything has no requirements; an impossible one is written as In without values.
        if written.is_empty() {
            prop_assert_eq!(allowed(&set).len(), UNIVERSE.len());
        } else {
            prop_assert_eq!(set_of(&written), set);
        }
    }

    #[test]
    fn any_returns_an_allowed_value(all in collection::vec(requirement(), 1..5)) {
        let set = set_of(&all);
        match set.any() {
            Some(value) => prop_assert!(all.iter().all(|it| allows(it, Some(&value))), "{} of {:?}", value, set),
            None => prop_assert!(allowed(&set).iter().all(Option::is_none), "nothing of {:?}", set),
        }
    }

    #[test]
    fn is_subset_implies_that_every_value_is_allowed(a in collection::vec(requirement(), 1..4), b in collection::vec(requirement(), 1..4)) {
        let (one, other) = (set_of(&a), set_of(&b));
        if one.is_subset(&other) {
            prop_assert!(allowed(&one).is_subset(&allowed(&other)));
        }
        prop_assert!(one.intersection(&other).is_subset(&other));
        prop_assert!(one.is_subset(&one));
    }

    #[test]
    fn first_conflict_is_none_when_a_label_satisfies_both(
        a in collection::vec(requirement(), 0..3), b in collection::vec(requirement(), 0..3), known in any::<bool>(),
    ) {
        let own: Requirements = a.iter().collect();
        let asked: Requirements = b.iter().collect();
        let well_known: BTreeSet<String> = known.then(|| KEY.to_owned()).into_iter().collect();
        let both: Vec<Requirement> = a.iter().chain(&b).cloned().collect();
        let expected = match (a.is_empty(), b.is_empty()) {
            (_, true) => true,
            (true, false) if !known => oracle(&b).contains(&None),
            _ => !set_of(&both).is_empty(),
        };
        prop_assert_eq!(own.first_conflict(&asked, &well_known).is_none(), expected);
    }

    #[test]
    fn allow_labels_matches_the_oracle_for_each_value(all in collection::vec(requirement(), 1..4), value in 0..UNIVERSE.len()) {
        let requirements: Requirements = all.iter().collect();
        let labels: BTreeMap<String, String> =
            UNIVERSE[value].map(|value| (KEY.to_owned(), value.to_owned())).into_iter().collect();
        prop_assert_eq!(requirements.allow_labels(&labels), oracle(&all).contains(&UNIVERSE[value]));
    }
}

#[test]
fn first_conflict_is_none_for_not_in_and_does_not_exist() {
    let well_known = BTreeSet::new();
    let rows = [
        (Operator::NotIn, Operator::NotIn, true),
        (Operator::NotIn, Operator::DoesNotExist, true),
        (Operator::DoesNotExist, Operator::DoesNotExist, true),
        (Operator::In, Operator::NotIn, false),
        (Operator::In, Operator::DoesNotExist, false),
        (Operator::Exists, Operator::DoesNotExist, false),
    ];
    for (one, other, expected) in rows {
        let values = |operator| match operator {
            Operator::In | Operator::NotIn => vec!["1"],
            _ => Vec::new(),
        };
        let own: Requirements = [Requirement::new(KEY, one, values(one))].iter().collect();
        let asked: Requirements = [Requirement::new(KEY, other, values(other))].iter().collect();
        assert_eq!(own.first_conflict(&asked, &well_known).is_none(), expected, "{one:?} and {other:?}");
    }
}

#[test]
fn value_set_is_empty_when_a_bound_exceeds_the_integers() {
    for (operator, value) in [(Operator::Gt, i64::MAX), (Operator::Lt, i64::MIN)] {
        let set = ValueSet::from_requirement(&Requirement::new(KEY, operator, [value.to_string()]));
        assert!(set.is_empty(), "{operator:?} {value}");
    }
    for (operator, value) in [(Operator::Gte, i64::MAX), (Operator::Lte, i64::MIN)] {
        let set = ValueSet::from_requirement(&Requirement::new(KEY, operator, [value.to_string()]));
        assert!(!set.is_empty() && set.allows(Some(&value.to_string())), "{operator:?} {value}");
    }
}

#[test]
fn value_set_is_empty_when_a_comparison_has_no_integer() {
    for values in [vec![], vec!["x"], vec!["1", "2"], vec!["1.5"]] {
        let set = ValueSet::from_requirement(&Requirement::new(KEY, Operator::Gt, values.clone()));
        assert!(set.is_empty(), "{values:?}");
    }
}
