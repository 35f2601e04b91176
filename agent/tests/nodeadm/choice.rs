//! Configuration that is kept from one start to the next, and the conditions under which it is used again.

use agent::nodeadm::cache::{Defaults, Enriched, Instance, Status};
use agent::nodeadm::chain::{Choice, MergedConfig, choose};
use machine::nodeconfig::{NodeConfig, parse};
use std::path::Path;

use crate::test_host::{TestHost, USER_DATA};

fn config(text: &str) -> NodeConfig {
    parse(text).unwrap().config
}

fn gathered(config: Option<NodeConfig>) -> MergedConfig {
    MergedConfig { config, nothing: vec!["imds://user-data: nothing there".to_owned()], ..MergedConfig::default() }
}

fn enriched() -> Enriched {
    let instance = Instance {
        id: "i-1234567890abcdef0".to_owned(),
        region: "us-west-2".to_owned(),
        instance_type: "m4.xlarge".to_owned(),
        availability_zone: "us-west-2f".to_owned(),
        mac: "0e:49:61:0f:c3:11".to_owned(),
        private_dns_name: "ip-10-0-0-1.us-west-2.compute.internal".to_owned(),
    };
    let status = Status { instance, default: Defaults::default(), kubelet_version: "v1.35.0".to_owned() };
    Enriched::new(config(USER_DATA), status)
}

#[test]
fn choose_keeps_cached_config_unless_source_has_another() {
    let other = config(&USER_DATA.replace("my-cluster", "another"));
    let fresh = |config: &NodeConfig, replaces| Ok(Choice::Fresh { config: config.clone(), replaces });
    let kept = enriched();
    for (now, before, expected) in [
        (Some(kept.config()), Some(kept.clone()), Ok(Choice::Kept(kept.clone()))),
        (Some(other.clone()), Some(kept.clone()), fresh(&other, true)),
        (None, Some(kept.clone()), Ok(Choice::Kept(kept.clone()))),
        (Some(other.clone()), None, fresh(&other, false)),
    ] {
        assert_eq!(choose(gathered(now), before), expected);
    }
    let error = choose(gathered(None), None).unwrap_err().to_string();
    assert!(error.contains("none in the cache") && error.contains("imds://user-data: nothing there"), "{error}");
}

#[test]
fn load_returns_saved_config_unless_file_is_damaged() {
    let test_host = TestHost::new("v1.35.0");
    let path = Path::new("/run/eks/nodeadm/config.json");
    assert_eq!(Enriched::load(&test_host.host(), path), None);
    enriched().save(&test_host.host(), path).unwrap();
    assert_eq!(Enriched::load(&test_host.host(), path), Some(enriched()));
    let file = test_host.root().join("run/eks/nodeadm/config.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["status"]["instance"]["type"], "m4.xlarge");
    assert_eq!(document["status"]["default"]["sandboxImage"], "localhost/kubernetes/pause");
    assert_eq!(document["spec"]["cluster"]["cidr"], "10.100.0.0/16");
    for cut in [0, 1, text.len() / 2, text.len() - 1] {
        test_host.write("run/eks/nodeadm/config.json", &text[..cut]);
        assert_eq!(Enriched::load(&test_host.host(), path), None, "{cut} bytes of it");
    }
}
