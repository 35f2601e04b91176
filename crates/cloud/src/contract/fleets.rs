//! Cases for launch templates, fleets and instances.

use super::{Result, Stage, check, ok};
use crate::calls::{CloudError, ErrorKind, FleetRequest, Tags};

const TYPE: &str = "m5.large";
const OTHER_TYPE: &str = "c5.large";
const NOBODY: &str = "i-0123456789abcdef0";

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

async fn plain(stage: &Stage<'_>) -> std::result::Result<FleetRequest, String> {
    let subnet = stage.subnet().await?;
    stage.fleet("on-demand", vec![stage.over(TYPE, &subnet, 96_000)]).await
}

pub(super) async fn template(stage: &Stage<'_>) -> Result {
    let request = stage.template().await?;
    let made = ok(stage.cloud.create_launch_template(&request)).await?;
    check(made.name == request.name && !made.id.is_empty(), || format!("{made:?}"))?;
    refused(stage.cloud.create_launch_template(&request).await, ErrorKind::AlreadyExists)?;
    let found = ok(stage.cloud.launch_templates(&stage.tags())).await?;
    check(found.len() == 1 && found[0].id == made.id, || format!("found {found:?} by tag"))?;
    check(found[0].tags == stage.tags(), || format!("tags are {:?}", found[0].tags))?;
    ok(stage.cloud.delete_launch_template(&request.name)).await?;
    refused(stage.cloud.delete_launch_template(&request.name).await, ErrorKind::NotFound)?;
    let left = ok(stage.cloud.launch_templates(&stage.tags())).await?;
    check(left.is_empty(), || format!("{left:?} after the deletion"))
}

pub(super) async fn missing_template(stage: &Stage<'_>) -> Result {
    let request = plain(stage).await?;
    ok(stage.cloud.delete_launch_template(&stage.name)).await?;
    let error = refused(stage.cloud.create_fleet(&request).await, ErrorKind::NotFound)?;
    check(error.code == "InvalidLaunchTemplateName.NotFoundException", || format!("the code is {}", error.code))
}

pub(super) async fn life(stage: &Stage<'_>) -> Result {
    let subnet = stage.subnet().await?;
    let request = FleetRequest { target: 2, ..plain(stage).await? };
    let answer = stage.launch(&request, 2).await?;
    for one in &answer.instances {
        let right = one.instance_type == TYPE && one.subnet_id == subnet.id && one.lifecycle == "on-demand";
        check(right && one.zone == subnet.zone, || format!("{one:?}"))?;
    }
    let running = stage.see(2, |instance| instance.state == "running").await?;
    for one in &running {
        let right = one.instance_type == TYPE && one.zone == subnet.zone && one.subnet_id == subnet.id && !one.spot;
        check(right && one.image_id == stage.abilities.image_id, || format!("{one:?}"))?;
        check(!one.private_dns_name.is_empty() && !one.launched.is_empty(), || format!("{one:?}"))?;
        check(answer.instances.iter().any(|launched| launched.id == one.id), || {
            format!("{one:?} is not of {answer:?}")
        })?;
        let asked = [one.id.clone(), NOBODY.to_owned()];
        let alone = ok(stage.cloud.instances_by_id(&asked)).await?;
        check(alone == std::slice::from_ref(one), || format!("{alone:?} instead of {one:?}"))?;
    }
    let any: Tags = stage.tags().into_keys().map(|key| (key, "*".to_owned())).collect();
    let by_key = ok(stage.cloud.instances(&any)).await?;
    check(running.iter().all(|one| by_key.contains(one)), || {
        format!("{by_key:?} by key, expected {running:?} among them")
    })?;
    let ids: Vec<String> = running.iter().map(|one| one.id.clone()).collect();
    ok(stage.cloud.terminate_instances(&ids)).await?;
    ok(stage.cloud.terminate_instances(&ids)).await?;
    stage.see(0, |instance| !instance.is_ending()).await.map(|_| ())
}

pub(super) async fn unknown_instance(stage: &Stage<'_>) -> Result {
    let none = ok(stage.cloud.instances_by_id(&[NOBODY.to_owned()])).await?;
    check(none.is_empty(), || format!("{none:?} for an unknown id"))?;
    let answer = stage.cloud.terminate_instances(&[NOBODY.to_owned()]).await;
    refused(answer, ErrorKind::NotFound).map(|_| ())
}

pub(super) async fn tags(stage: &Stage<'_>) -> Result {
    let answer = stage.launch(&plain(stage).await?, 1).await?;
    let id = answer.instances[0].id.clone();
    stage.see(1, |instance| instance.id == id).await?;
    let more: Tags = [("Name".to_owned(), "kerf".to_owned()), ("kerf.sh/more".to_owned(), String::new())].into();
    ok(stage.cloud.create_tags(std::slice::from_ref(&id), &more)).await?;
    let all: Tags = stage.tags().into_iter().chain(more).collect();
    let found = stage.see(1, |instance| instance.id == id && instance.tags.contains_key("Name")).await?;
    let right = all.iter().all(|(key, value)| found[0].tags.get(key) == Some(value));
    check(right, || format!("tags are {:?}, expected {all:?}", found[0].tags))
}

pub(super) async fn spot(stage: &Stage<'_>) -> Result {
    let subnet = stage.subnet().await?;
    let request = stage.fleet("spot", vec![stage.over(TYPE, &subnet, 30_000)]).await?;
    let answer = stage.launch(&request, 1).await?;
    check(answer.instances[0].lifecycle == "spot", || format!("{answer:?}"))?;
    stage.see(1, |instance| instance.spot).await.map(|_| ())
}

pub(super) async fn network(stage: &Stage<'_>) -> Result {
    let wanted = stage.template().await?.security_group_ids;
    stage.launch(&plain(stage).await?, 1).await?;
    let found = stage.see(1, |_| true).await?;
    check(found[0].security_group_ids == wanted, || format!("{:?}, expected {wanted:?}", found[0].security_group_ids))
}

pub(super) async fn priorities(stage: &Stage<'_>) -> Result {
    let subnet = stage.subnet().await?;
    let overrides = vec![stage.over(TYPE, &subnet, 96_000), stage.over(OTHER_TYPE, &subnet, 85_000)];
    let answer = stage.launch(&stage.fleet("on-demand", overrides).await?, 1).await?;
    check(answer.instances[0].instance_type == OTHER_TYPE, || format!("{answer:?}"))
}

pub(super) async fn token_twice(stage: &Stage<'_>) -> Result {
    let request = plain(stage).await?;
    let first = stage.launch(&request, 1).await?;
    let again = stage.launch(&request, 1).await?;
    check(first.instances == again.instances, || format!("{first:?}, then {again:?}"))?;
    stage.see(1, |instance| !instance.is_ending()).await.map(|_| ())
}

pub(super) async fn token_misused(stage: &Stage<'_>) -> Result {
    let request = plain(stage).await?;
    stage.launch(&request, 1).await?;
    let other = FleetRequest { target: 2, ..request };
    refused(stage.cloud.create_fleet(&other).await, ErrorKind::IdempotencyMismatch)?;
    stage.see(1, |instance| !instance.is_ending()).await.map(|_| ())
}

pub(super) async fn dry_pool(stage: &Stage<'_>) -> Result {
    let dry = stage.abilities.dry_spot_type.clone().unwrap_or_default();
    let subnet = stage.subnet().await?;
    let overrides = vec![stage.over(&dry, &subnet, 1), stage.over(TYPE, &subnet, 30_000)];
    let answer = stage.launch(&stage.fleet("spot", overrides).await?, 1).await?;
    check(answer.instances[0].instance_type == TYPE, || format!("{answer:?}"))?;
    let [error] = answer.errors.as_slice() else { return Err(format!("expected one error: {answer:?}")) };
    let right = error.code == "InsufficientInstanceCapacity" && error.instance_type == dry && error.zone == subnet.zone;
    check(right && error.lifecycle == "spot", || format!("{error:?}"))
}

pub(super) async fn all_dry(stage: &Stage<'_>) -> Result {
    let dry = stage.abilities.dry_spot_type.clone().unwrap_or_default();
    let subnet = stage.subnet().await?;
    let answer = stage.launch(&stage.fleet("spot", vec![stage.over(&dry, &subnet, 1)]).await?, 0).await?;
    check(answer.errors.len() == 1, || format!("{answer:?}"))
}
