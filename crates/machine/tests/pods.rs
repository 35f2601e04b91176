//! Maximum number of pods and reservations, compared with published values of known instance types.

use machine::pods::{
    InterfaceLimits, density, eni_limited_pods, interface_limits, kube_reserved_cpu_millicores,
    kube_reserved_memory_mib, max_pods, table,
};

#[test]
fn eni_limited_pods_returns_the_published_numbers() {
    for (instance_type, interfaces, ips, reserved, expected) in [
        ("m5.large", 3, 10, 0, 29),
        ("t3.large", 3, 12, 0, 35),
        ("t3.large", 3, 12, 1, 24),
        ("m6idn.32xlarge", 8, 50, 0, 394),
        ("m6idn.32xlarge", 8, 50, 1, 345),
        ("t3.large", 3, 12, 1_000_000, 0),
        ("no interface at all", 0, 0, 0, 0),
        ("interfaces without a spare address", 3, 1, 0, 2),
    ] {
        assert_eq!(eni_limited_pods(interfaces, ips, reserved), expected, "{instance_type}");
    }
}

#[test]
fn table_reads_every_row_and_matches_published_numbers() {
    let rows = include_str!("../data/interfaces.csv").lines().count() - 1;
    let table = table();
    assert_eq!(table.len(), rows, "a row of data/interfaces.csv cannot be read");
    for (name, limits) in &table {
        assert!(limits.interfaces > 0 && limits.ipv4_per_interface > 0, "{name}");
    }
    let pods = |name| interface_limits(name).map(|l| eni_limited_pods(l.interfaces, l.ipv4_per_interface, 0));
    assert_eq!(pods("m4.xlarge"), Some(58));
    assert_eq!(pods("m5.large"), Some(29));
    assert_eq!(pods("mock-type.large"), None);
}

#[test]
fn kube_reserved_cpu_decreases_with_each_band_of_cores() {
    for (vcpus, expected) in [(0, 0), (1, 60), (2, 70), (3, 75), (4, 80), (5, 82), (8, 90), (96, 310)] {
        assert_eq!(kube_reserved_cpu_millicores(vcpus), expected, "{vcpus} vCPU");
    }
}

#[test]
fn kube_reserved_memory_grows_with_the_number_of_pods() {
    for (pods, expected) in [(0, 255), (10, 365), (35, 640), (58, 893), (110, 1465)] {
        assert_eq!(kube_reserved_memory_mib(pods), expected, "{pods} pods");
    }
}

#[test]
fn max_pods_prefers_the_user_then_interfaces_then_the_default() {
    assert_eq!(max_pods(Some(10), Some(35), None, 2), 10);
    assert_eq!(max_pods(None, Some(35), None, 2), 35);
    assert_eq!(max_pods(None, None, None, 2), 110);
    assert_eq!(max_pods(None, Some(35), Some(4), 2), 8);
    assert_eq!(max_pods(None, Some(35), Some(0), 2), 35, "zero means unset");
    assert_eq!(max_pods(Some(5), Some(35), Some(4), 2), 5);
}

#[test]
fn density_evaluates_the_expression() {
    let limits = |interfaces, ipv4_per_interface| Some(InterfaceLimits { interfaces, ipv4_per_interface });
    for (expression, limits, expected) in [
        ("", limits(3, 6), 17),
        ("  ", limits(6, 12), 68),
        ("", None, 110),
        ("(default_enis * (ips_per_eni - 1)) + 2", limits(3, 6), 17),
        ("(default_enis * (ips_per_eni - 1)) + 3", limits(3, 6), 18),
        ("default_enis * (ips_per_eni - 1) * 16 + 2", limits(3, 6), 242),
        ("max_pods > 30 ? 30 : max_pods", limits(6, 12), 30),
        ("((default_enis - 1) * (ips_per_eni - 1)) + 2", limits(3, 6), 12),
        ("417", limits(3, 6), 417),
        ("2147483647", limits(3, 6), 2_147_483_647),
    ] {
        let found = density(limits, expression);
        assert_eq!((found.pods, found.warning), (expected, None), "{expression}");
    }
}

#[test]
fn density_ignores_the_expression_when_it_gives_no_valid_number() {
    let limits = Some(InterfaceLimits { interfaces: 3, ipv4_per_interface: 6 });
    for (expression, limits, pods, reason) in [
        ("99 - fake_variable", limits, 17, "cannot be evaluated: column 6: unknown name `fake_variable`"),
        ("max_pods - 17", limits, 17, "the value 0 is not a number of pods"),
        ("-max_pods", limits, 17, "the value -17 is not a number of pods"),
        ("2147483648", limits, 17, "the value 2147483648 is not a number of pods"),
        ("9223372036854775807 * 2", limits, 17, "cannot be evaluated: integer overflow"),
        ("max_pods > 2", limits, 17, "cannot be evaluated: column 1: the result must be an integer"),
        ("max_pods", None, 110, "unknown interface limits of this instance type"),
    ] {
        let found = density(limits, expression);
        assert_eq!(found.pods, pods, "{expression}");
        let expected = format!("spec.kubelet.maxPodsExpression is ignored, maxPods is {pods}: {reason}");
        assert!(found.warning.as_ref().is_some_and(|warning| warning.starts_with(&expected)), "{:?}", found.warning);
    }
}
