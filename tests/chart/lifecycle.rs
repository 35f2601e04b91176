//! A release from install to uninstall on a real API server, with each Helm, by the commands of docs/install.md as written
//! there. The steps are an upgrade from a release with Karpenter's names, rollback, upgrade again, uninstall, and a new
//! installation. Each step checks pods, NodePools and CRDs.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::NodePool;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, ValidationDirective};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;
use testbed::controlplane::{ControlPlane, Options};
use testbed::eventually;
use testbed::helm::{Helm, Version};

const NAMESPACE: &str = "karpenter";
const RELEASE: &str = "karpenter";
const OURS: &str = "registry.example/kerf";
const THEIRS: &str = "mirror.example.com/karpenter/controller";
const SOON: Duration = Duration::from_secs(120);

/// One Helm, one cluster, and the page with the commands.
struct Lifecycle<'a> {
    helm: Helm,
    client: &'a Client,
    page: BTreeMap<String, Vec<String>>,
    values: String,
}

/// Returns the commands of docs/install.md by heading.
fn page() -> Result<BTreeMap<String, Vec<String>>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/install.md");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut commands: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut heading = String::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            title.clone_into(&mut heading);
        } else if let Some(command) = line.strip_prefix("    ") {
            commands.entry(heading.clone()).or_default().push(command.to_owned());
        }
    }
    Ok(commands)
}

impl<'a> Lifecycle<'a> {
    fn new(version: Version, control_plane: &ControlPlane, client: &'a Client) -> Result<Self> {
        let helm = Helm::find(version)?.on(&control_plane.admin_kubeconfig());
        let values = super::file("existing.yaml").display().to_string();
        Ok(Self { helm, client, page: page()?, values })
    }

    /// Runs the command number `place` below that heading of the page; returns its output.
    fn follow(&self, heading: &str, place: usize) -> Result<String> {
        let commands = self.page.get(heading).with_context(|| format!("the page has no {heading:?}"))?;
        let command = commands.get(place).with_context(|| format!("{heading:?} has no command {place}"))?;
        let names = [("NAMESPACE", NAMESPACE), ("CLUSTER", "prod"), ("IMAGE", OURS), ("VALUES", &self.values)];
        self.helm.shell(command, &names).with_context(|| format!("{heading}: {command}"))
    }

    /// Installs a stand-in for Karpenter's chart, and Karpenter's CRDs by a chart of their own.
    fn install_karpenter(&self) -> Result<()> {
        let definitions = tempfile::tempdir()?;
        let folder = definitions.path().join("karpenter-crd");
        std::fs::create_dir_all(folder.join("templates"))?;
        std::fs::write(folder.join("Chart.yaml"), "apiVersion: v2\nname: karpenter-crd\nversion: 1.14.1\n")?;
        for entry in std::fs::read_dir(Helm::chart("chart/crds"))? {
            let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
            if !name.to_string_lossy().starts_with("kerf.sh_") {
                std::fs::copy(path, folder.join("templates").join(name))?;
            }
        }
        let stand_in = super::file("stand-in").display().to_string();
        let folder = folder.display().to_string();
        self.helm.run(&["install", "karpenter-crd", &folder, "--namespace", NAMESPACE])?;
        self.helm.run(&["install", RELEASE, &stand_in, "--namespace", NAMESPACE, "--values", &self.values])?;
        Ok(())
    }

    fn in_namespace<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    async fn deployment(&self) -> Result<Deployment> {
        Ok(self.in_namespace::<Deployment>().get(RELEASE).await?)
    }

    /// Waits until a pod of that image has passed admission, which admits only `restricted` pods.
    async fn a_pod_comes(&self, image: &str) -> Result<()> {
        eventually(&format!("a pod of {image}"), SOON, async || {
            let pods: Vec<Pod> = self.in_namespace::<Pod>().list(&ListParams::default()).await?.items;
            let runs = |pod: &Pod| Some(pod.spec.as_ref()?.containers.first()?.image.as_ref()?.starts_with(image));
            let of_image = |pod: &&Pod| runs(pod).unwrap_or_default();
            let found = pods.iter().find(of_image).with_context(|| format!("there are {} pods", pods.len()))?;
            ensure!(found.metadata.deletion_timestamp.is_none(), "it goes already");
            Ok(Some(()))
        })
        .await
    }

    /// Returns the names of the objects with the label of the release.
    async fn of_the_release<K>(&self) -> Result<Vec<String>>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        let ours = ListParams::default().labels(&format!("app.kubernetes.io/instance={RELEASE}"));
        let found = Api::<K>::all(self.client.clone()).list(&ours).await?;
        Ok(found.items.iter().map(ResourceExt::name_any).collect())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chart_upgrades_karpenter_release_and_rolls_back() -> Result<()> {
    let control_plane = ControlPlane::start(Options::full("chart")).await?;
    let client = control_plane.admin().await?;
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    });
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.patch(NAMESPACE, &PatchParams::apply("tests"), &Patch::Apply(namespace)).await?;
    for version in Version::ALL {
        let lifecycle = Lifecycle::new(version, &control_plane, &client)?;
        in_place(&lifecycle).await.with_context(|| format!("{version:?}, in place of Karpenter"))?;
        anew(&lifecycle).await.with_context(|| format!("{version:?}, a new installation"))?;
        forget_definitions(&client).await?;
    }
    control_plane.stop().await?;
    Ok(())
}

async fn in_place(lifecycle: &Lifecycle<'_>) -> Result<()> {
    lifecycle.install_karpenter()?;
    let before = lifecycle.deployment().await?;
    a_pool(lifecycle.client).await?;

    // With the default values of the other chart, or without the CRDs, the upgrade changes nothing.
    let chart = Helm::chart("chart").display().to_string();
    let image = format!("--set=kerf.image.repository={OURS}");
    let reused = lifecycle.helm.run(&["upgrade", RELEASE, &chart, "--namespace", NAMESPACE, "--reuse-values", &image]);
    let refusal = reused.err().context("an upgrade with the other chart's defaults went through")?;
    ensure!(format!("{refusal:#}").contains("--reset-then-reuse-values"), "{refusal:#}");
    let heading = "Replace Karpenter";
    let refusal = lifecycle.follow(heading, 1).err().context("an upgrade without NodeUsages went through")?;
    ensure!(format!("{refusal:#}").contains("no NodeUsages"), "{refusal:#}");
    ensure!(lifecycle.deployment().await?.spec == before.spec, "the refused upgrade changed the Deployment");

    lifecycle.follow(heading, 0)?;
    let notes = lifecycle.follow(heading, 1)?;
    for parts in ["controller.image (mirror.example.com", "settings.assumeRoleARN is no"] {
        ensure!(notes.contains(parts), "the notes lack {parts:?}:\n{notes}");
    }
    let notes = notes.lines().filter(|line| line.starts_with("- ")).count();
    ensure!(notes == 2, "{notes} notes instead of 2:\n{notes}");
    let after = lifecycle.deployment().await?;
    ensure!(after.metadata.uid == before.metadata.uid, "the Deployment was made anew");
    lifecycle.a_pod_comes(OURS).await?;
    let roles = Api::<Role>::namespaced(lifecycle.client.clone(), "kube-system");
    ensure!(roles.get_opt("karpenter-dns").await?.is_some(), "the right to read the address of cluster DNS is missing");
    administrators_may(lifecycle.client).await?;
    accepted_as_it_is(lifecycle).await?;

    lifecycle.follow("Back to Karpenter", 0)?;
    let back = lifecycle.deployment().await?;
    ensure!(back.metadata.uid == before.metadata.uid && back.spec == before.spec, "{:?}", back.spec);
    lifecycle.a_pod_comes(THEIRS).await?;
    ensure!(roles.get_opt("karpenter-dns").await?.is_some(), "the rollback did not bring everything back");

    lifecycle.follow(heading, 1)?;
    away(lifecycle).await
}

async fn anew(lifecycle: &Lifecycle<'_>) -> Result<()> {
    // The CRDs have no owner, as if kubectl had created them.
    let definitions: Api<CustomResourceDefinition> = Api::all(lifecycle.client.clone());
    let orphaned = json!({"metadata": {"labels": null, "annotations": null}});
    for definition in definitions.list(&ListParams::default()).await?.items {
        definitions.patch(&definition.name_any(), &PatchParams::default(), &Patch::Merge(&orphaned)).await?;
    }
    let heading = "New installation";
    ensure!(lifecycle.follow(heading, 0).is_err(), "Helm took what has no owner without being asked");
    lifecycle.follow("Replace Karpenter", 2)?;
    let notes = lifecycle.follow(heading, 1)?;
    ensure!(!notes.contains("no effect"), "notes without a reason:\n{notes}");
    lifecycle.a_pod_comes(OURS).await?;
    away(lifecycle).await
}

async fn a_pool(client: &Client) -> Result<()> {
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}, "requirements": [],
        }}},
    });
    let pools: Api<NodePool> = Api::all(client.clone());
    eventually("NodePools to be served", SOON, async || {
        pools.patch("default", &PatchParams::apply("tests"), &Patch::Apply(&pool)).await?;
        Ok(Some(()))
    })
    .await
}

/// Asserts that no object of the release is left, and that all objects of the user are.
async fn away(lifecycle: &Lifecycle<'_>) -> Result<()> {
    for place in 0..2 {
        lifecycle.follow("Uninstall", place)?;
    }
    let left = [
        lifecycle.of_the_release::<Deployment>().await?,
        lifecycle.of_the_release::<ClusterRole>().await?,
        lifecycle.of_the_release::<ClusterRoleBinding>().await?,
        lifecycle.of_the_release::<Role>().await?,
    ]
    .concat();
    ensure!(left.is_empty(), "left: {left:?}");
    let pool = Api::<NodePool>::all(lifecycle.client.clone()).get("default").await?;
    ensure!(pool.metadata.deletion_timestamp.is_none(), "the NodePool goes with the release");
    let definitions: Api<CustomResourceDefinition> = Api::all(lifecycle.client.clone());
    let kept = definitions.list(&ListParams::default()).await?.items;
    ensure!(kept.len() == api::crds().len(), "{} CRDs are left", kept.len());
    ensure!(kept.iter().all(|one| one.metadata.deletion_timestamp.is_none()), "CRDs go with the release");
    Ok(())
}

/// Waits for the role that aggregates into `admin`.
async fn administrators_may(client: &Client) -> Result<()> {
    let roles: Api<ClusterRole> = Api::all(client.clone());
    eventually("administrators to have rights on NodePools", SOON, async || {
        let rules = roles.get("admin").await?.rules.unwrap_or_default();
        let named = rules.iter().flat_map(|rule| rule.resources.iter().flatten());
        ensure!(named.into_iter().any(|resource| resource == "nodepools"), "they have none");
        Ok(Some(()))
    })
    .await
}

/// Asserts that the API server accepts every field of every object that the chart can render.
async fn accepted_as_it_is(lifecycle: &Lifecycle<'_>) -> Result<()> {
    let [values, image] = super::existing();
    let everything = [values.as_str(), &image, "--set=kerf.networkPolicy.enabled=true", "--set=fullnameOverride=tried"];
    for object in lifecycle.helm.render(&Helm::chart("chart"), &everything)? {
        let kind = GroupVersionKind::try_from(object.types.as_ref().context("an object without a kind")?)?;
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = match object.namespace() {
            Some(namespace) => Api::namespaced_with(lifecycle.client.clone(), &namespace, &resource),
            None => Api::all_with(lifecycle.client.clone(), &resource),
        };
        let mut params = PatchParams::apply("tests").force();
        params.dry_run = true;
        params.field_validation = Some(ValidationDirective::Strict);
        let tried = api.patch(&object.name_any(), &params, &Patch::Apply(&object)).await;
        tried.with_context(|| format!("{} {}", kind.kind, object.name_any()))?;
    }
    Ok(())
}

/// Deletes all CRDs, so that the next Helm begins with a cluster without CRDs of Kerf.
async fn forget_definitions(client: &Client) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    eventually("the CRDs to go", SOON, async || {
        let left = definitions.list(&ListParams::default()).await?.items.len();
        ensure!(left == 0, "{left} are left");
        Ok(Some(()))
    })
    .await
}
