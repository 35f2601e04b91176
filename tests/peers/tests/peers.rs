//! Small sample of `make peers`: both planners return a result, Kerf's plan passes its validation, and the files have the form
//! that programs read. The test asserts no speed.

use std::fs;
use std::path::Path;

use serde_json::Value;

#[test]
fn quick_writes_a_value_for_every_measure() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers");
    fs::create_dir_all(&folder).unwrap();
    peers::run::quick(&folder).unwrap();
    let text = fs::read_to_string(folder.join("planner.json")).unwrap();
    let measures: Vec<Value> = serde_json::from_str(&text).unwrap();
    let names: Vec<&str> = measures.iter().filter_map(|it| it["measure"].as_str()).collect();
    let expected = [
        "diverse-1000",
        "cost-over-bound/small-and-large",
        "cost-over-bound/hosts-20",
        "memory-1000-pods",
        "snapshot-1000-pods",
        "growth-30/plan",
        "growth-30/consolidation",
        "growth-30/snapshot",
        "growth-30/memory",
    ];
    assert_eq!(names, expected);
    for measure in &measures {
        let keys: Vec<&str> = measure.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["measure", "ours", "peer", "ratio", "unit"]);
        assert!(measure["ours"].as_f64().unwrap() > 0.0, "{measure}");
    }
    assert!(measures[0]["ratio"].as_f64().unwrap() > 0.0, "Karpenter must answer: {}", measures[0]);
    for priced in &measures[1..=2] {
        assert!(priced["ours"].as_f64().unwrap() >= 1.0, "no fleet undercuts the bound: {priced}");
        assert!(priced["peer"].as_f64().unwrap() >= 1.0, "no fleet undercuts the bound: {priced}");
    }
    let text = fs::read_to_string(folder.join("disruption.json")).unwrap();
    let disruption: Vec<Value> = serde_json::from_str(&text).unwrap();
    let names: Vec<&str> = disruption.iter().filter_map(|it| it["measure"].as_str()).collect();
    let consolidation = ["", "/budget-10%", "/node", "/memory"].map(|what| format!("consolidation-50{what}"));
    assert_eq!(names[..4], consolidation);
    assert!(disruption[2]["peer"].as_f64().unwrap() > 0.0, "Karpenter must answer: {}", disruption[2]);
    assert!(names[4].starts_with("give-back-") && names[5].ends_with("-over-bound"), "{names:?}");
    assert!(disruption.iter().all(|it| it["ours"].as_f64().unwrap() > 0.0), "{disruption:?}");
    let page = fs::read_to_string(folder.join("performance.md")).unwrap();
    assert!(page.starts_with("# Performance\n") && page.contains("| diverse-1000 |"), "{page}");
    assert!(
        page.contains("| Kerf, budget 10 % |") && page.contains("| hosts-20 |") && page.contains("| 30 | 600 |"),
        "{page}"
    );
}
