//! Permissions of the chart, applied to the control plane: in every test, the controller and the nodes have exactly these
//! permissions. Files contain them as rendered by Helm, so that a control plane needs no Helm. A test of the chart keeps the
//! files up to date.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};

use crate::eventually;
use crate::helm::{Helm, Release, Version};

/// Kinds of objects that grant or restrict permissions.
const RIGHTS: [&str; 7] = [
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

/// Values that the chart requires, and those that grant every optional permission.
const VALUES: [&str; 4] = [
    "--set=settings.clusterName=kerf",
    "--set=kerf.image.repository=kerf",
    "--set=kerf.packing.enabled=true",
    "--set=kerf.surge.enabled=true",
];

/// Values of a controller whose nodes KWOK simulates.
const KWOK_VALUES: [&str; 2] = [VALUES[1], "--set=kerf.provider=kwok"];

/// Values of a controller that only observes.
const OBSERVER_VALUES: [&str; 3] = [VALUES[0], VALUES[1], "--set=kerf.observe=true"];

/// Time limit until the API server applies its new roles.
const RELOAD: Duration = Duration::from_secs(120);

/// ServiceAccount of a controller, with the permissions of the chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// Kerf's controller.
    Controller,
    /// Kerf's controller with nodes that KWOK simulates.
    Kwok,
    /// A controller that only observes, beside another one.
    Observer,
}

impl Account {
    /// All accounts.
    pub const ALL: [Self; 3] = [Self::Controller, Self::Kwok, Self::Observer];

    /// Returns the user name of the ServiceAccount.
    #[must_use]
    pub const fn user(self) -> &'static str {
        match self {
            Self::Controller | Self::Kwok => "system:serviceaccount:kube-system:karpenter",
            Self::Observer => "system:serviceaccount:kerf-observer:kerf-observer-karpenter",
        }
    }

    /// Returns the namespace of the controller.
    #[must_use]
    pub const fn namespace(self) -> &'static str {
        self.release().namespace
    }

    /// Returns the name of the file with the permissions, in the folder of this module.
    #[must_use]
    pub const fn file(self) -> &'static str {
        match self {
            Self::Controller => "rights.json",
            Self::Kwok => "kwok-rights.json",
            Self::Observer => "observer-rights.json",
        }
    }

    const fn release(self) -> Release {
        match self {
            Self::Controller | Self::Kwok => Release { name: "karpenter", namespace: "kube-system" },
            Self::Observer => Release { name: "kerf-observer", namespace: "kerf-observer" },
        }
    }

    /// Returns the text of the file, as Helm renders the chart now.
    ///
    /// # Errors
    /// Returns an error if Helm cannot be built or rejects the chart.
    pub fn render(self) -> Result<String> {
        let values = match self {
            Self::Controller => &VALUES[..],
            Self::Kwok => &KWOK_VALUES[..],
            Self::Observer => &OBSERVER_VALUES[..],
        };
        let helm = Helm::find(Version::Four)?;
        let mut objects = helm.render_as(self.release(), &Helm::chart("chart"), values)?;
        objects.retain(|object| object.types.as_ref().is_some_and(|types| RIGHTS.contains(&types.kind.as_str())));
        Ok(serde_json::to_string_pretty(&objects)? + "\n")
    }

    fn objects(self) -> Result<Vec<DynamicObject>> {
        let text = match self {
            Self::Controller => include_str!("rights.json"),
            Self::Kwok => include_str!("kwok-rights.json"),
            Self::Observer => include_str!("observer-rights.json"),
        };
        serde_json::from_str(text).with_context(|| format!("{} holds no objects", self.file()))
    }

    /// Returns one permission of each bound role.
    fn one_of_each(self) -> [ResourceAttributes; 4] {
        let right = |group: &str, resource: &str, verb: &str| ResourceAttributes {
            group: Some(group.to_owned()),
            namespace: Some(self.namespace().to_owned()),
            resource: Some(resource.to_owned()),
            verb: Some(verb.to_owned()),
            ..ResourceAttributes::default()
        };
        let dns = ResourceAttributes {
            name: Some("kube-dns".to_owned()),
            namespace: Some("kube-system".to_owned()),
            ..right("", "services", "get")
        };
        [
            right("karpenter.k8s.aws", "ec2nodeclasses", "list"),
            right("", "pods", "list"),
            right("coordination.k8s.io", "leases", "create"),
            dns,
        ]
    }
}

/// Server-side applies the permissions of the account, in a namespace that exists, and waits until its roles take effect.
pub(super) async fn apply_rights(client: &Client, account: Account) -> Result<()> {
    for object in account.objects()? {
        let kind = object.types.as_ref().context("a document without kind")?;
        apply(client, &object, &GroupVersionKind::try_from(kind)?).await?;
    }
    for attributes in account.one_of_each() {
        let (verb, resource) = (attributes.verb.as_deref(), attributes.resource.as_deref());
        let what = format!("the right to {} {}", verb.unwrap_or_default(), resource.unwrap_or_default());
        eventually(&what, RELOAD, async || {
            ensure!(is_allowed(client, account, &attributes).await?, "it is not granted");
            Ok(Some(()))
        })
        .await?;
    }
    Ok(())
}

async fn is_allowed(client: &Client, account: Account, attributes: &ResourceAttributes) -> Result<bool> {
    let spec = SubjectAccessReviewSpec {
        user: Some(account.user().to_owned()),
        resource_attributes: Some(attributes.clone()),
        ..SubjectAccessReviewSpec::default()
    };
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    let answer = Api::all(client.clone()).create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

async fn apply(client: &Client, object: &DynamicObject, kind: &GroupVersionKind) -> Result<()> {
    let resource = ApiResource::from_gvk(kind);
    let api: Api<DynamicObject> = match object.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let (name, params) = (object.name_any(), PatchParams::apply("kerf-tests").force());
    let applied = api.patch(&name, &params, &Patch::Apply(object)).await;
    applied.with_context(|| format!("the API server refuses the {} {name}", kind.kind))?;
    Ok(())
}
