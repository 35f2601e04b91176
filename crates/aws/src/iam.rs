//! Instance profiles. IAM is global; the SDK has its endpoint.

use aws_sdk_iam::Client;
use aws_sdk_iam::primitives::DateTimeFormat;
use aws_sdk_iam::types as iam;
use cloud::{CloudError, ErrorKind, InstanceProfile, InstanceProfileRequest, Tags};

use crate::failure::{failure, refused};

/// Profiles per page.
const PAGE: i32 = 1000;

pub(crate) async fn get(client: &Client, name: &str) -> Result<Option<InstanceProfile>, CloudError> {
    let answer = client.get_instance_profile().instance_profile_name(name).send().await;
    match answer.map_err(|error| failure("GetInstanceProfile", error)) {
        Ok(answer) => Ok(answer.instance_profile.map(profile)),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) async fn list(client: &Client, path_prefix: &str) -> Result<Vec<InstanceProfile>, CloudError> {
    let call = client.list_instance_profiles().path_prefix(path_prefix).max_items(PAGE);
    let mut pages = call.into_paginator().send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| failure("ListInstanceProfiles", error))?;
        found.extend(page.instance_profiles.into_iter().map(profile));
    }
    Ok(found)
}

pub(crate) async fn create(client: &Client, request: &InstanceProfileRequest) -> Result<(), CloudError> {
    const CALL: &str = "CreateInstanceProfile";
    let mut call = client.create_instance_profile().instance_profile_name(&request.name).path(&request.path);
    for (key, value) in &request.tags {
        let tag = iam::Tag::builder().key(key).value(value).build();
        call = call.tags(tag.map_err(|error| refused(CALL, error.to_string()))?);
    }
    call.send().await.map(drop).map_err(|error| failure(CALL, error))
}

pub(crate) async fn add_role(client: &Client, profile: &str, role: &str) -> Result<(), CloudError> {
    let call = client.add_role_to_instance_profile().instance_profile_name(profile).role_name(role);
    call.send().await.map(drop).map_err(|error| failure("AddRoleToInstanceProfile", error))
}

pub(crate) async fn remove_role(client: &Client, profile: &str, role: &str) -> Result<(), CloudError> {
    let call = client.remove_role_from_instance_profile().instance_profile_name(profile).role_name(role);
    call.send().await.map(drop).map_err(|error| failure("RemoveRoleFromInstanceProfile", error))
}

pub(crate) async fn delete(client: &Client, name: &str) -> Result<(), CloudError> {
    let call = client.delete_instance_profile().instance_profile_name(name);
    call.send().await.map(drop).map_err(|error| failure("DeleteInstanceProfile", error))
}

fn profile(profile: iam::InstanceProfile) -> InstanceProfile {
    let tags: Tags = profile.tags.unwrap_or_default().into_iter().map(|tag| (tag.key, tag.value)).collect();
    InstanceProfile {
        name: profile.instance_profile_name,
        path: profile.path,
        roles: profile.roles.into_iter().map(|role| role.role_name).collect(),
        tags,
        created: profile.create_date.fmt(DateTimeFormat::DateTime).unwrap_or_default(),
    }
}
