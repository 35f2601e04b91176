//! `minValues` at launch: counted as in the plan, and lowered or refused where capacity has changed since.

use planner::MinValuesPolicy;

use super::{
    BTreeSet, CapacityType, LaunchChoice, LaunchRefusal, LaunchRequest, Operator, Requirement, Token, ask, claims,
    fixture, label, requirement,
};

#[tokio::test]
async fn choose_refuses_when_min_values_do_not_hold() {
    let fixture = fixture("").await;
    let family = |least| Requirement {
        min_values: Some(least),
        ..requirement(label::INSTANCE_FAMILY, Operator::In, &["m5", "m6i", "c5"])
    };
    assert!(fixture.choose(&ask(&[family(3)])).is_ok());
    let Err(LaunchRefusal::InsufficientCapacity(message)) = fixture.choose(&ask(&[family(4)])) else {
        panic!("only three")
    };
    assert!(message.contains("minValues"), "{message}");
    let lowered = LaunchRequest { min_values_relaxed: true, ..ask(&[family(4)]) };
    assert!(fixture.choose(&lowered).is_ok(), "the plan has made do with less");
}

/// The catalogue has enough values, but the sixty cheapest types do not. The policy decides: refused, or lowered.
#[tokio::test]
async fn choose_follows_min_values_policy_when_60_types_break_them() {
    let mut fixture = fixture("").await;
    fixture.class.spec.context = Some("ctx".to_owned());
    let sizes = |least, more: &[Requirement]| {
        let size = requirement(label::INSTANCE_SIZE, Operator::Exists, &[]);
        ask(&[&[Requirement { min_values: Some(least), ..size }], more].concat())
    };
    let bought = |choice: &LaunchChoice| -> BTreeSet<String> {
        choice.configs.iter().flat_map(|config| &config.overrides).map(|one| one.instance_type.clone()).collect()
    };
    let of = |types: &BTreeSet<String>| -> BTreeSet<String> {
        types.iter().filter_map(|name| name.split_once('.')).map(|(_, size)| size.to_owned()).collect()
    };
    let cheapest = bought(&fixture.choose(&sizes(1, &[])).unwrap());
    let names: Vec<&str> = cheapest.iter().map(String::as_str).collect();
    let others = requirement(label::INSTANCE_TYPE, Operator::NotIn, &names);
    let beyond = of(&bought(&fixture.choose(&sizes(1, &[others])).unwrap()));
    assert!(cheapest.len() == 60 && !beyond.is_subset(&of(&cheapest)), "only the cut is in the way");
    let left = u32::try_from(of(&cheapest).len()).unwrap();
    assert!(fixture.choose(&sizes(left, &[])).is_ok());
    let refused = fixture.choose(&sizes(left + 1, &[]));
    let why = format!("minValues of {} is {}, but only {left} values are available", label::INSTANCE_SIZE, left + 1);
    assert_eq!(refused, Err(LaunchRefusal::InsufficientCapacity(why)));
    fixture.settings.min_values = MinValuesPolicy::BestEffort;
    let lowered = fixture.choose(&sizes(left + 1, &[])).unwrap();
    assert_eq!((bought(&lowered), lowered.context, lowered.min_values_relaxed), (cheapest, None, true));
    assert_eq!(fixture.choose(&sizes(left, &[])).unwrap().context.as_deref(), Some("ctx"), "nothing was lowered");
}

/// The context applies only to instances as requested. Prices of an overlay replace EC2's own prices.
#[tokio::test]
async fn request_drops_context_when_min_values_were_relaxed() {
    let mut fixture = fixture("").await;
    fixture.class.spec.context = Some("ctx".to_owned());
    let bought = |relaxed, priced| {
        let ask = LaunchRequest { min_values_relaxed: relaxed, overlay_priced: priced, ..ask(&[]) };
        let choice = fixture.choose(&ask).unwrap();
        let members = claims(&["a"]);
        let request = choice.request(&Token::new(&choice, &members, fixture.cloud.now()), &members);
        (request.context, request.prioritized)
    };
    assert_eq!(bought(false, false), (Some("ctx".to_owned()), false));
    assert_eq!(bought(true, false), (None, false));
    assert_eq!(bought(false, true), (Some("ctx".to_owned()), true));
}

/// Rows: a label, its `minValues`, and whether the offerings of all capacity types together have as many values. One launch uses
/// one capacity type.
#[tokio::test]
async fn choose_counts_min_values_over_all_capacity_types() {
    let mut fixture = fixture("").await;
    for kind in &mut fixture.catalogue.types {
        let sold = if kind.name == "m5.2xlarge" { CapacityType::Spot } else { CapacityType::OnDemand };
        kind.offerings.retain(|offering| offering.capacity_type == sold);
    }
    let types = requirement(label::INSTANCE_TYPE, Operator::In, &["c5.2xlarge", "m5.2xlarge"]);
    let rows = [
        (label::CAPACITY_TYPE, 2, true),
        (label::CAPACITY_TYPE, 3, false),
        (label::INSTANCE_TYPE, 2, true),
        (label::INSTANCE_TYPE, 3, false),
    ];
    for (key, least, holds) in rows {
        let counted = Requirement { min_values: Some(least), ..requirement(key, Operator::Exists, &[]) };
        let choice = fixture.choose(&ask(&[types.clone(), counted]));
        let kept = choice.as_ref().is_ok_and(|choice| choice.capacity_type == CapacityType::Spot);
        assert_eq!(kept, holds, "{key} {least}: {choice:?}");
        assert!(choice.is_ok_and(|choice| !choice.min_values_relaxed) == holds, "{key} {least}");
    }
}
