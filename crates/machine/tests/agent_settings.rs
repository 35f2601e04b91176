//! Settings of the agent: valid settings are parsed, and invalid ones are rejected with line, field and fix.

use std::error::Error;
use std::time::Duration;

use machine::agent::drain::Care;
use machine::agent::gates::{HttpTarget, Target};
use machine::agent::{AgentSettings, MEDIA_TYPE, parse};
use machine::mime::{self, Part};
use machine::userdata::{AmiFamily, Bootstrap, parse_agent, render};

const WHOLE: &str = "
gates:
  cni: {configDir: /run/cni, binaryDirs: [/run/cni/bin]}
  csiDrivers: [ebs.csi.aws.com]
  devices: [nvidia.com/gpu]
  daemonSets:
  - {name: kube-proxy, selector: {k8s-app: kube-proxy}}
  probes:
  - name: licence
    http: {port: 8080, path: /healthz?full=1}
    initialDelay: 5s
    period: 1m30s
    timeout: 250ms
    successThreshold: 2
  - {name: disk, file: {path: /mnt/data/.ready}}
health: {period: 30s, diskFullPercent: 90, units: {kubelet: \"\"}}
";

#[test]
fn parse_reads_all_fields() {
    let settings = parse(WHOLE).unwrap();
    let [licence, disk] = settings.gates.probes.as_slice() else { unreachable!("two probes") };
    let page = HttpTarget { host: "127.0.0.1".into(), port: 8080, path: "/healthz?full=1".into() };
    assert_eq!(licence.target, Target::Http(page));
    let spans = [licence.initial_delay.0, licence.period.0, licence.timeout.0];
    assert_eq!(spans, [5000, 90_000, 250].map(Duration::from_millis));
    assert_eq!((licence.success_threshold, licence.failure_threshold), (2, 3));
    assert_eq!((disk.period.0, disk.success_threshold), (Duration::from_secs(10), 1));
    assert_eq!(settings.gates.daemon_sets[0].namespace, "kube-system");
    assert_eq!(
        (settings.health.disk_full_percent.0, settings.health.units.runtime.as_str()),
        (90, "containerd.service")
    );
}

#[test]
fn parse_returns_defaults_and_reads_serialized_settings() {
    for nothing in ["", "  \n", "{}", "gates: {}"] {
        assert_eq!(parse(nothing).unwrap(), AgentSettings::default(), "{nothing:?}");
    }
    for text in ["", WHOLE] {
        let settings = parse(text).unwrap();
        let written = serde_json::to_string(&settings).unwrap();
        assert_eq!(parse(&written).unwrap(), settings);
    }
}

#[test]
fn parse_reports_line_field_and_fix_when_a_value_is_invalid() {
    let probe = |fields: &str| format!("gates:\n  probes:\n  - {{name: p, {fields}}}\n");
    let rows = [
        ("gates: {csi: [a]}".to_owned(), "gates", "csi"),
        ("gates:\n  devices: [gpu]\n".to_owned(), "gates", "nvidia.com/gpu"),
        ("gates:\n  csiDrivers: [a, a]\n".to_owned(), "gates", "\"a\" is repeated"),
        ("gates:\n  daemonSets:\n  - {name: d, selector: {}}\n".to_owned(), "gates", "write the labels of its pods"),
        ("gates:\n  cni: {configDir: etc}\n".to_owned(), "gates", "begin it with /"),
        (probe("period: 1s"), "gates.probes[0]", "exactly one of file, socket, tcp and http"),
        (probe("tcp: {port: 1}, file: {path: /a}"), "gates.probes[0]", "exactly one"),
        (probe("tcp: {port: 0}"), "gates.probes[0]", "1 to 65535"),
        (probe("tcp: {port: 70000}"), "gates.probes[0]", "65535"),
        (probe("file: {path: a}"), "gates.probes[0]", "absolute"),
        (probe("tcp: {port: 1}, period: soon"), "gates.probes[0]", "500ms, 30s or 1m30s"),
        (probe("tcp: {port: 1}, period: -1s"), "gates.probes[0]", "500ms, 30s or 1m30s"),
        (probe("tcp: {port: 1}, period: 10ms"), "gates.probes[0]", "at least 1s"),
        (probe("tcp: {port: 1}, timeout: 0s"), "gates.probes[0]", "more than 0s"),
        (probe("tcp: {port: 1}, failureThreshold: 0"), "gates.probes[0]", "1 or more"),
        (probe("http: {port: 1, scheme: HTTPS}"), "gates.probes[0]", "scheme"),
        ("health: {diskFullPercent: 101}".to_owned(), "health", "1 to 100"),
    ];
    for (text, field, cure) in rows {
        let error = parse(&text).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("line ") && message.contains(field) && message.contains(cure), "{text}: {message}");
        assert!(error.source().is_none());
    }
}

#[test]
fn parse_agent_reads_settings_from_rendered_user_data() {
    let input = Bootstrap {
        cluster_name: "c".into(),
        cluster_cidr: "10.100.0.0/16".into(),
        agent: Some(WHOLE.into()),
        user_data: Some("#!/bin/sh\ntrue\n".into()),
        ..Bootstrap::default()
    };
    let text = render(AmiFamily::Al2023, &input).unwrap().text;
    let settings = parse(WHOLE).unwrap();
    assert_eq!(parse_agent(text.as_bytes()).unwrap(), Some(settings.clone()));
    assert_eq!(machine::userdata::parse(text.as_bytes()).unwrap().agent, settings);
    let without = render(AmiFamily::Al2023, &Bootstrap { agent: None, ..input }).unwrap().text;
    assert_eq!(parse_agent(without.as_bytes()).unwrap(), None);
    for others in ["", "#!/bin/sh\n", "[settings.kubernetes]\ncluster-name = \"c\"\n"] {
        assert_eq!(parse_agent(others.as_bytes()).unwrap(), None, "{others:?}");
    }
    let broken = mime::render(&[Part::new(MEDIA_TYPE, "gates: [1]")]).unwrap();
    let error = parse_agent(&broken).unwrap_err();
    assert!(error.to_string().contains("MIME part 1"), "{error}");
}

#[test]
fn parse_reads_drain_settings_and_rejects_invalid_ones() {
    let text = "drain: {loadBalancerLead: 0s, margin: 15s, doNotDisrupt: leave, barePods: hold, abreast: 4}\n";
    let drain = parse(text).unwrap().drain;
    assert_eq!((drain.load_balancer_lead.0, drain.margin.0), (Duration::ZERO, Duration::from_secs(15)));
    assert_eq!((drain.do_not_disrupt, drain.bare_pods, drain.abreast.0), (Care::Leave, Care::Hold, 4));
    assert_eq!(drain.detach_volumes.0, Duration::from_secs(60), "what is left out is as ever");
    for (field, cure) in [
        ("abreast: 0", "write 1 to 64"),
        ("abreast: 65", "write 1 to 64"),
        ("margin: soon", "write one such as 500ms, 30s or 1m30s"),
        ("barePods: maybe", "maybe"),
        ("lead: 3s", "lead"),
    ] {
        let error = parse(&format!("drain: {{{field}}}\n")).unwrap_err();
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message = format!("{message}: {cause}");
            source = cause.source();
        }
        assert!(message.contains(cure), "{field}: {message}");
    }
}
