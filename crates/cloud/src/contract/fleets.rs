//! Cases for launch templates, fleets and instances.

use super::{Fixture, Result, check, ok};
use crate::calls::{CloudError, ErrorKind, FleetRequest, Tags};

const TYPE: &str = "m5.large";
const OTHER_TYPE: &str = "c5.large";
const UNKNOWN_ID: &str = "i-0123456789abcdef0";

fn refused<T: std::fmt::Debug>(
    answer: std::result::Result<T, CloudError>,
    kind: ErrorKind,
) -> std::result::Result<CloudError, String> {
    match answer {
        Err(error) if error.kind == kind => Ok(error),
        Err(error) => Err(format!("expected kind {kind:?}, got {:?}: {error}", error.kind)),
        Ok(answer) => Err(format!("expected kind {kind:?}, got {answer:?}")),
    }
}

async fn plain(fixture: &Fixture<'_>) -> std::result::Result<FleetRequest, String> {
    let subnet = fixture.subnet().await?;
    fixture.fleet("on-demand", vec![fixture.over(TYPE, &subnet, 96_000)]).await
}

pub(super) async fn template(fixture: &Fixture<'_>) -> Result {
    let request = fixture.template().await?;
    let made = ok(fixture.cloud.create_launch_template(&request)).await?;
    check(made.name == request.name && !made.id.is_empty(), || format!("{made:?}"))?;
    refused(fixture.cloud.create_launch_template(&request).await, ErrorKind::AlreadyExists)?;
    let found = ok(fixture.cloud.launch_templates(&fixture.tags())).await?;
    check(found.len() == 1 && found[0].id == made.id, || format!("found {found:?} by tag"))?;
    check(found[0].tags == fixture.tags(), || format!("tags are {:?}", found[0].tags))?;
    ok(fixture.cloud.delete_launch_template(&request.name)).await?;
    refused(fixture.cloud.delete_launch_template(&request.name).await, ErrorKind::NotFound)?;
    let left = ok(fixture.cloud.launch_templates(&fixture.tags())).await?;
    check(left.is_empty(), || format!("{left:?} after the deletion"))
}

pub(super) async fn missing_template(fixture: &Fixture<'_>) -> Result {
    let request = plain(fixture).await?;
    ok(fixture.cloud.delete_launch_template(&fixture.name)).await?;
    let error = refused(fixture.cloud.create_fleet(&request).await, ErrorKind::NotFound)?;
    check(error.code == "InvalidLaunchTemplateName.NotFoundException", || format!("the code is {}", error.code))
}

pub(super) async fn life(fixture: &Fixture<'_>) -> Result {
    let subnet = fixture.subnet().await?;
    let request = FleetRequest { target: 2, ..plain(fixture).await? };
    let answer = fixture.launch(&request, 2).await?;
    for one in &answer.instances {
        let right = one.instance_type == TYPE && one.subnet_id == subnet.id && one.lifecycle == "on-demand";
        check(right && one.zone == subnet.zone, || format!("{one:?}"))?;
    }
    let running = fixture.see(2, |instance| instance.state == "running").await?;
    for one in &running {
        let right = one.instance_type == TYPE && one.zone == subnet.zone && one.subnet_id == subnet.id && !one.spot;
        check(right && one.image_id == fixture.abilities.image_id, || format!("{one:?}"))?;
        check(!one.private_dns_name.is_empty() && !one.launched.is_empty(), || format!("{one:?}"))?;
        check(answer.instances.iter().any(|launched| launched.id == one.id), || {
            format!("{one:?} is not of {answer:?}")
        })?;
        let asked = [one.id.clone(), UNKNOWN_ID.to_owned()];
        let alone = ok(fixture.cloud.instances_by_id(&asked)).await?;
        check(alone == std::slice::from_ref(one), || format!("{alone:?} instead of {one:?}"))?;
    }
    let any: Tags = fixture.tags().into_keys().map(|key| (key, "*".to_owned())).collect();
    let by_key = ok(fixture.cloud.instances(&any)).await?;
    check(running.iter().all(|one| by_key.contains(one)), || {
        format!("{by_key:?} by key, expected {running:?} among them")
    })?;
    let ids: Vec<String> = running.iter().map(|one| one.id.clone()).collect();
    ok(fixture.cloud.terminate_instances(&ids)).await?;
    ok(fixture.cloud.terminate_instances(&ids)).await?;
    fixture.see(0, |instance| !instance.is_ending()).await.map(|_| ())
}

pub(super) async fn unknown_instance(fixture: &Fixture<'_>) -> Result {
    let none = ok(fixture.cloud.instances_by_id(&[UNKNOWN_ID.to_owned()])).await?;
    check(none.is_empty(), || format!("{none:?} for an unknown id"))?;
    let answer = fixture.cloud.terminate_instances(&[UNKNOWN_ID.to_owned()]).await;
    refused(answer, ErrorKind::NotFound).map(|_| ())
}

pub(super) async fn tags(fixture: &Fixture<'_>) -> Result {
    let answer = fixture.launch(&plain(fixture).await?, 1).await?;
    let id = answer.instances[0].id.clone();
    fixture.see(1, |instance| instance.id == id).await?;
    let more: Tags = [("Name".to_owned(), "kerf".to_owned()), ("kerf.sh/more".to_owned(), String::new())].into();
    ok(fixture.cloud.create_tags(std::slice::from_ref(&id), &more)).await?;
    let all: Tags = fixture.tags().into_iter().chain(more).collect();
    let found = fixture.see(1, |instance| instance.id == id && instance.tags.contains_key("Name")).await?;
    let right = all.iter().all(|(key, value)| found[0].tags.get(key) == Some(value));
    check(right, || format!("tags are {:?}, expected {all:?}", found[0].tags))
}

pub(super) async fn spot(fixture: &Fixture<'_>) -> Result {
    let subnet = fixture.subnet().await?;
    let request = fixture.fleet("spot", vec![fixture.over(TYPE, &subnet, 30_000)]).await?;
    let answer = fixture.launch(&request, 1).await?;
    check(answer.instances[0].lifecycle == "spot", || format!("{answer:?}"))?;
    fixture.see(1, |instance| instance.spot).await.map(|_| ())
}

pub(super) async fn network(fixture: &Fixture<'_>) -> Result {
    let wanted = fixture.template().await?.security_group_ids;
    fixture.launch(&plain(fixture).await?, 1).await?;
    let found = fixture.see(1, |_| true).await?;
    check(found[0].security_group_ids == wanted, || format!("{:?}, expected {wanted:?}", found[0].security_group_ids))
}

pub(super) async fn priorities(fixture: &Fixture<'_>) -> Result {
    let subnet = fixture.subnet().await?;
    let overrides = vec![fixture.over(TYPE, &subnet, 96_000), fixture.over(OTHER_TYPE, &subnet, 85_000)];
    let answer = fixture.launch(&fixture.fleet("on-demand", overrides).await?, 1).await?;
    check(answer.instances[0].instance_type == OTHER_TYPE, || format!("{answer:?}"))
}

pub(super) async fn token_twice(fixture: &Fixture<'_>) -> Result {
    let request = plain(fixture).await?;
    let first = fixture.launch(&request, 1).await?;
    let again = fixture.launch(&request, 1).await?;
    check(first.instances == again.instances, || format!("{first:?}, then {again:?}"))?;
    fixture.see(1, |instance| !instance.is_ending()).await.map(|_| ())
}

pub(super) async fn token_misused(fixture: &Fixture<'_>) -> Result {
    let request = plain(fixture).await?;
    fixture.launch(&request, 1).await?;
    let other = FleetRequest { target: 2, ..request };
    refused(fixture.cloud.create_fleet(&other).await, ErrorKind::IdempotencyMismatch)?;
    fixture.see(1, |instance| !instance.is_ending()).await.map(|_| ())
}

pub(super) async fn exhausted_pool(fixture: &Fixture<'_>) -> Result {
    let exhausted = fixture.abilities.exhausted_spot_type.clone().unwrap_or_default();
    let subnet = fixture.subnet().await?;
    let overrides = vec![fixture.over(&exhausted, &subnet, 1), fixture.over(TYPE, &subnet, 30_000)];
    let answer = fixture.launch(&fixture.fleet("spot", overrides).await?, 1).await?;
    check(answer.instances[0].instance_type == TYPE, || format!("{answer:?}"))?;
    let [error] = answer.errors.as_slice() else { return Err(format!("expected one error: {answer:?}")) };
    let right =
        error.code == "InsufficientInstanceCapacity" && error.instance_type == exhausted && error.zone == subnet.zone;
    check(right && error.lifecycle == "spot", || format!("{error:?}"))
}

pub(super) async fn all_exhausted(fixture: &Fixture<'_>) -> Result {
    let exhausted = fixture.abilities.exhausted_spot_type.clone().unwrap_or_default();
    let subnet = fixture.subnet().await?;
    let answer = fixture.launch(&fixture.fleet("spot", vec![fixture.over(&exhausted, &subnet, 1)]).await?, 0).await?;
    check(answer.errors.len() == 1, || format!("{answer:?}"))
}
