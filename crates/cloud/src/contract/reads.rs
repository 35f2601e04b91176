//! Cases for the answers of Describe calls.

use super::{Fixture, Result, check, ok};
use crate::calls::{Filter, InstanceTypeInfo, NetworkCard, Tags};

async fn type_named(fixture: &Fixture<'_>, name: &str) -> std::result::Result<InstanceTypeInfo, String> {
    let types = ok(fixture.cloud.instance_types()).await?;
    types.into_iter().find(|info| info.name == name).ok_or_else(|| format!("no instance type {name}"))
}

pub(super) async fn types(fixture: &Fixture<'_>) -> Result {
    let info = type_named(fixture, "m5.large").await?;
    let expected = InstanceTypeInfo {
        name: "m5.large".to_owned(),
        vcpus: 2,
        memory_mib: 8192,
        architectures: vec!["x86_64".to_owned()],
        usage_classes: vec!["on-demand".to_owned(), "spot".to_owned()],
        hypervisor: "nitro".to_owned(),
        cpu_manufacturer: "Intel".to_owned(),
        clock_mhz: 3100,
        max_interfaces: 3,
        ipv4_per_interface: 10,
        ebs_mbps: 4750,
        ebs_attachments: 27,
        ebs_attachments_shared: true,
        network_cards: vec![NetworkCard { index: 0, max_interfaces: 3 }],
        ena: true,
        placement_strategies: ["cluster", "partition", "spread"].map(str::to_owned).to_vec(),
        ..InstanceTypeInfo::default()
    };
    check(info == expected, || format!("{info:?} instead of {expected:?}"))?;
    let arm = type_named(fixture, "m7g.large").await?;
    check(arm.architectures == ["arm64"], || format!("m7g.large has {:?}", arm.architectures))?;
    let types = ok(fixture.cloud.instance_types()).await?;
    let foreign = types.iter().find(|info| !info.architectures.iter().any(|arch| arch == "x86_64" || arch == "arm64"));
    check(foreign.is_none(), || format!("a type that Kerf cannot use: {foreign:?}"))
}

pub(super) async fn accelerators(fixture: &Fixture<'_>) -> Result {
    let gpu = type_named(fixture, "g5.xlarge").await?;
    let shown: Vec<_> =
        gpu.gpus.iter().map(|one| (one.name.as_str(), one.manufacturer.as_str(), one.count, one.memory_mib)).collect();
    check(shown == [("A10G", "NVIDIA", 1, 22888)], || format!("g5.xlarge has {shown:?}"))?;
    check(gpu.local_nvme && gpu.local_storage_gb == 250, || format!("g5.xlarge has {} GB", gpu.local_storage_gb))?;
    let neuron = type_named(fixture, "inf2.xlarge").await?;
    let shown: Vec<_> =
        neuron.accelerators.iter().map(|one| (one.name.as_str(), one.manufacturer.as_str(), one.count)).collect();
    check(shown == [("Inferentia2", "AWS", 1)], || format!("inf2.xlarge has {shown:?}"))?;
    check(neuron.neuron_cores_per_device == 2, || format!("inf2.xlarge has {} cores", neuron.neuron_cores_per_device))
}

pub(super) async fn offerings(fixture: &Fixture<'_>) -> Result {
    let subnet = fixture.subnet().await?;
    let offerings = ok(fixture.cloud.type_offerings()).await?;
    let found = offerings.iter().any(|one| one.instance_type == "m5.large" && one.zone == subnet.zone);
    check(found, || format!("m5.large is not offered in {} among {} offerings", subnet.zone, offerings.len()))
}

pub(super) async fn spot_prices(fixture: &Fixture<'_>) -> Result {
    let prices = ok(fixture.cloud.spot_prices()).await?;
    check(!prices.is_empty(), || "no spot prices".to_owned())?;
    let odd = prices.iter().find(|price| price.micro_dollars <= 0);
    check(odd.is_none(), || format!("{odd:?}"))
}

pub(super) async fn subnets(fixture: &Fixture<'_>) -> Result {
    let by_tags = Filter { tags: fixture.abilities.network_tags.clone(), ..Filter::default() };
    let found = ok(fixture.cloud.subnets(&by_tags)).await?;
    check(!found.is_empty(), || "no subnet by tag".to_owned())?;
    let whole =
        found.iter().all(|subnet| !subnet.zone.is_empty() && !subnet.zone_id.is_empty() && subnet.free_addresses > 0);
    check(whole, || format!("{found:?}"))?;
    let keys: Tags = by_tags.tags.keys().map(|key| (key.clone(), "*".to_owned())).collect();
    let by_key = ok(fixture.cloud.subnets(&Filter { tags: keys, ..Filter::default() })).await?;
    check(by_key.len() >= found.len(), || format!("{} by key, {} by tag", by_key.len(), found.len()))?;
    let id = found[0].id.clone();
    let by_id = ok(fixture.cloud.subnets(&Filter { ids: vec![id], ..Filter::default() })).await?;
    check(by_id == found[..1], || format!("{by_id:?} instead of {:?}", &found[..1]))?;
    let unknown = Filter { ids: vec!["subnet-0123456789abcdef0".to_owned()], ..Filter::default() };
    let none = ok(fixture.cloud.subnets(&unknown)).await?;
    check(none.is_empty(), || format!("an unknown id found {none:?}"))
}

pub(super) async fn security_groups(fixture: &Fixture<'_>) -> Result {
    let by_tags = Filter { tags: fixture.abilities.network_tags.clone(), ..Filter::default() };
    let found = ok(fixture.cloud.security_groups(&by_tags)).await?;
    let Some(first) = found.first() else { return Err("no security group by tag".to_owned()) };
    let by_id = ok(fixture.cloud.security_groups(&Filter { ids: vec![first.id.clone()], ..Filter::default() })).await?;
    check(by_id == found[..1], || format!("{by_id:?} by id"))?;
    let by_name =
        ok(fixture.cloud.security_groups(&Filter { names: vec![first.name.clone()], ..Filter::default() })).await?;
    check(by_name.contains(first), || format!("{by_name:?} by name {}", first.name))
}

pub(super) async fn images(fixture: &Fixture<'_>) -> Result {
    let id = fixture.abilities.image_id.clone();
    let by_id = ok(fixture.cloud.images(&Filter { ids: vec![id.clone()], ..Filter::default() })).await?;
    let [image] = by_id.as_slice() else { return Err(format!("{by_id:?} for id {id}")) };
    check(image.architecture == "x86_64" && !image.created.is_empty(), || format!("{image:?}"))?;
    let half = image.name.chars().take(image.name.chars().count() / 2).collect::<String>();
    let pattern = Filter { names: vec![format!("{half}*")], ..Filter::default() };
    let by_name = ok(fixture.cloud.images(&pattern)).await?;
    check(by_name.iter().any(|found| found.id == id), || format!("{half}* does not find {id}"))?;
    let unknown = Filter { names: vec!["kerf-no-such-image-*".to_owned()], ..Filter::default() };
    let none = ok(fixture.cloud.images(&unknown)).await?;
    check(none.is_empty(), || format!("an unknown name found {none:?}"))
}

pub(super) async fn parameters(fixture: &Fixture<'_>) -> Result {
    let value = ok(fixture.cloud.parameter(&fixture.abilities.parameter)).await?;
    check(value.is_some_and(|value| !value.is_empty()), || format!("no parameter {}", fixture.abilities.parameter))?;
    let none = ok(fixture.cloud.parameter("/kerf/no/such/parameter")).await?;
    check(none.is_none(), || format!("{none:?} for an unknown name"))
}
