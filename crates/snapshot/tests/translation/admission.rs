//! Tests of the rules by which the API server changes or refuses new pods: one row for each rule.

use std::sync::Arc;

use api::objects::{LimitRange, PodSpec, PriorityClass, RuntimeClass};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use snapshot::{Admission, MissingClass};

use crate::objects::merged;

#[derive(Default)]
struct Classes {
    limit_ranges: Vec<Arc<LimitRange>>,
    runtime_classes: Vec<Arc<RuntimeClass>>,
    priority_classes: Vec<Arc<PriorityClass>>,
}

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Returns LimitRanges of namespace `team`, named in their order.
fn ranges(items: &[Value]) -> Classes {
    let range = |(number, item): (usize, &Value)| {
        read(json!({"metadata": {"name": format!("r{number}"), "namespace": "team"}, "spec": {"limits": [item]}}))
    };
    Classes { limit_ranges: items.iter().enumerate().map(range).map(Arc::new).collect(), ..Classes::default() }
}

fn runtime(class: Value) -> Classes {
    let class = merged(json!({"metadata": {"name": "kata"}}), class);
    Classes { runtime_classes: vec![Arc::new(read(class))], ..Classes::default() }
}

impl Classes {
    fn admission(&self) -> Admission<'_> {
        Admission::new(&self.limit_ranges, &self.runtime_classes, &self.priority_classes)
    }

    /// Returns the admitted pod, or the error.
    fn admit(&self, spec: Value) -> Result<Value, String> {
        let spec: PodSpec = read(spec);
        let admitted = self.admission().admit("team", &spec).map_err(|error| error.to_string())?;
        Ok(serde_json::to_value(admitted).unwrap())
    }

    fn error(&self, spec: Value) -> Option<String> {
        self.admit(spec).err()
    }
}

/// Returns a pod with one container.
fn one(requests: Value, limits: Value) -> Value {
    json!({"containers": [{"name": "main", "resources": {"requests": requests, "limits": limits}}]})
}

fn container(more: Value) -> Value {
    merged(json!({"type": "Container"}), more)
}

#[test]
fn admit_adds_defaults_of_limit_ranges() {
    let both = container(json!({"default": {"cpu": "2"}, "defaultRequest": {"cpu": "500m"}}));
    let memory = container(json!({"defaultRequest": {"memory": "1Gi", "cpu": "9"}}));
    // Rows: items, requests and limits as written, requests and limits as stored.
    let rows = [
        (vec![], json!({}), json!({"cpu": "1"}), json!({"cpu": "1"}), json!({"cpu": "1"})),
        (vec![both.clone()], json!({}), json!({}), json!({"cpu": "500m"}), json!({"cpu": "2"})),
        (vec![both.clone()], json!({}), json!({"cpu": "1"}), json!({"cpu": "1"}), json!({"cpu": "1"})),
        (vec![both.clone()], json!({"cpu": "1"}), json!({}), json!({"cpu": "1"}), json!({"cpu": "2"})),
        (vec![both, memory], json!({}), json!({}), json!({"cpu": "500m", "memory": "1Gi"}), json!({"cpu": "2"})),
        (vec![container(json!({"max": {"cpu": "4"}}))], json!({}), json!({}), json!({"cpu": "4"}), json!({"cpu": "4"})),
        (vec![container(json!({"min": {"cpu": "1"}}))], json!({}), json!({}), json!({"cpu": "1"}), json!({})),
        (
            vec![json!({"type": "Pod", "max": {"cpu": "4"}})],
            json!({"cpu": 1}),
            json!({"cpu": 1}),
            json!({"cpu": "1"}),
            json!({"cpu": "1"}),
        ),
    ];
    for (items, requests, limits, stored_requests, stored_limits) in rows {
        let admitted = ranges(&items).admit(one(requests, limits)).unwrap();
        let mut expected = json!({"requests": stored_requests, "limits": stored_limits});
        expected.as_object_mut().unwrap().retain(|_, list| list != &json!({}));
        assert_eq!(admitted["containers"][0]["resources"], expected, "{items:?}");
    }
}

#[test]
fn admit_adds_defaults_to_init_containers() {
    let spec = json!({"containers": [{"name": "main"}], "initContainers": [{"name": "first"}]});
    let classes = ranges(&[container(json!({"defaultRequest": {"cpu": "1"}}))]);
    let admitted = classes.admit(spec.clone()).unwrap();
    assert_eq!(admitted["initContainers"][0]["resources"], json!({"requests": {"cpu": "1"}}));
    let elsewhere = classes.admission().admit("default", &read(spec)).unwrap();
    assert!(elsewhere.containers[0].resources.requests.is_empty(), "a LimitRange of another namespace");
}

#[test]
fn admit_refuses_what_limit_ranges_forbid() {
    let max = container(json!({"max": {"cpu": "1"}}));
    let min = container(json!({"min": {"cpu": "1"}}));
    let ratio = container(json!({"maxLimitRequestRatio": {"cpu": "2"}}));
    let pod = json!({"type": "Pod", "max": {"cpu": "1"}});
    let two = json!({"containers": [
        {"name": "a", "resources": {"limits": {"cpu": "600m"}}}, {"name": "b", "resources": {"limits": {"cpu": "600m"}}},
    ]});
    let whole = merged(two.clone(), json!({"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}));
    let init = json!({"initContainers": [{"name": "first", "resources": {"limits": {"cpu": "2"}}}], "containers": []});
    let rows = [
        (&max, one(json!({}), json!({"cpu": "1"})), None),
        (
            &max,
            one(json!({}), json!({"cpu": "2"})),
            Some("maximum cpu usage per Container is 1, but limit is 2 in container main: lower it"),
        ),
        (&max, init, Some("but limit is 2 in container first")),
        (
            &min,
            one(json!({"cpu": "500m"}), json!({})),
            Some("minimum cpu usage per Container is 1, but request is 500m in container main: raise it"),
        ),
        (&ratio, one(json!({"cpu": "1"}), json!({"cpu": "2"})), None),
        (
            &ratio,
            one(json!({"cpu": "1"}), json!({"cpu": "3"})),
            Some("cpu max limit to request ratio per Container is 2, but provided ratio is 3.000"),
        ),
        (
            &ratio,
            one(json!({"cpu": "1"}), json!({})),
            Some("but no limit is specified in container main: set resources.limits[cpu]"),
        ),
        (&ratio, one(json!({"cpu": 0}), json!({"cpu": 1})), Some("but no request is specified")),
        (&pod, two, Some("maximum cpu usage per Pod is 1, but limit is 1200m: lower it")),
        (&pod, whole, None),
        (&pod, one(json!({"cpu": "1"}), json!({})), Some("maximum cpu usage per Pod is 1, but no limit is specified")),
    ];
    for (item, spec, expected) in rows {
        let error = ranges(std::slice::from_ref(item)).error(spec.clone());
        let Some(part) = expected else {
            assert_eq!(error, None, "{spec}");
            continue;
        };
        let error = error.unwrap();
        assert!(error.starts_with("LimitRange team/r0: ") && error.contains(part), "{spec}: {error}");
    }
}

#[test]
fn admit_refuses_requests_above_limits() {
    let default = ranges(&[container(json!({"default": {"cpu": "1"}}))]);
    let rows = [
        (
            &default,
            one(json!({"cpu": "2"}), json!({})),
            "more than its limit 1, the default of LimitRange team/r0: set a limit",
        ),
        (
            &default,
            one(json!({"cpu": "2"}), json!({"cpu": "1500m"})),
            "container main requests cpu 2, more than its limit 1500m: lower",
        ),
    ];
    for (classes, spec, part) in rows {
        let error = classes.error(spec.clone()).unwrap();
        assert!(error.contains(part), "{spec}: {error}");
    }
}

#[test]
fn admit_adds_overhead_and_scheduling_of_the_runtime_class() {
    let class = runtime(json!({
        "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"runtime": "kata"}, "tolerations": [{"key": "kata", "operator": "Exists"}]},
    }));
    let spec = merged(one(json!({}), json!({})), json!({"runtimeClassName": "kata", "nodeSelector": {"team": "a"}}));
    let admitted = class.admit(spec.clone()).unwrap();
    assert_eq!(admitted["overhead"], json!({"cpu": "250m"}));
    assert_eq!(admitted["nodeSelector"], json!({"runtime": "kata", "team": "a"}));
    assert_eq!(admitted["tolerations"], json!([{"key": "kata", "operator": "Exists"}]));
    assert_eq!(class.admit(admitted.clone()), Ok(admitted), "admission of an admitted pod changes nothing");
    let without = runtime(json!({}));
    let rows = [
        (&class, json!({"overhead": {"cpu": "0.25"}}), None),
        (&class, json!({"overhead": {"cpu": "1"}}), Some("overhead of RuntimeClass kata")),
        (&class, json!({"nodeSelector": {"runtime": "gvisor"}}), Some("requires node label runtime=kata")),
        (&without, json!({"overhead": {"cpu": "1"}}), Some("no RuntimeClass defines it")),
        (&without, json!({"runtimeClassName": null, "overhead": {"cpu": "1"}}), Some("no RuntimeClass defines it")),
        (&without, json!({"runtimeClassName": "other", "overhead": {"cpu": "1"}}), None),
    ];
    for (classes, changes, expected) in rows {
        let error = classes.error(merged(spec.clone(), changes.clone()));
        assert_eq!(error.is_some(), expected.is_some(), "{changes}: {error:?}");
        assert!(expected.is_none_or(|part| error.as_ref().unwrap().contains(part)), "{changes}: {error:?}");
    }
}

#[test]
fn admit_sets_the_priority_of_the_class() {
    let class = |name: &str, more: Value| Arc::new(read(merged(json!({"metadata": {"name": name}}), more)));
    let classes = Classes {
        priority_classes: vec![
            class("high", json!({"value": 1000, "preemptionPolicy": "Never"})),
            class("usual", json!({"value": 7, "globalDefault": true})),
        ],
        ..Classes::default()
    };
    let rows = [
        (json!({}), Ok((7, "PreemptLowerPriority"))),
        (json!({"priorityClassName": "high"}), Ok((1000, "Never"))),
        (json!({"priorityClassName": "high", "priority": 1000}), Ok((1000, "Never"))),
        (
            json!({"priorityClassName": "high", "priority": 5}),
            Err("spec.priority is 5, but its PriorityClass has 1000"),
        ),
        (
            json!({"preemptionPolicy": "Never"}),
            Err("spec.preemptionPolicy is Never, but its PriorityClass has Preempt"),
        ),
    ];
    for (spec, expected) in rows {
        match (classes.admit(spec.clone()), expected) {
            (Ok(admitted), Ok((priority, policy))) => {
                assert_eq!((&admitted["priority"], &admitted["preemptionPolicy"]), (&json!(priority), &json!(policy)));
            }
            (Err(error), Err(part)) => assert!(error.contains(part), "{spec}: {error}"),
            (found, _) => unreachable!("{spec}: {found:?}"),
        }
    }
}

#[test]
fn missing_classes_names_runtime_and_priority_classes() {
    let classes = runtime(json!({}));
    let spec =
        |runtime: &str, priority: &str| read(json!({"runtimeClassName": runtime, "priorityClassName": priority}));
    assert_eq!(classes.admission().missing_classes(&spec("kata", "system-node-critical")), []);
    let missing = classes.admission().missing_classes(&spec("gvisor", "high"));
    assert_eq!(missing, [MissingClass::Runtime("gvisor".to_owned()), MissingClass::Priority("high".to_owned())]);
    assert!(missing[0].to_string().starts_with("RuntimeClass gvisor is not in the input"));
}
