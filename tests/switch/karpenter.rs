//! Karpenter 1.14 as other programs see it: its objects in the API server, in EC2 and in IAM when it is stopped, and its first
//! writes after a restart. The code follows Karpenter's documented behaviour. Only the hash of the NodePool comes from Kerf,
//! whose algorithm equals Karpenter's byte by byte.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::objects::Node;
use api::status::Conditioned;
use api::{EC2NodeClass, NodeClaim, NodePool, annotation, condition, hash, label};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cloud::{Cloud as _, FleetConfig, FleetOverride, FleetRequest, LaunchTemplateRequest, Tags};
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use testbed::environment::{CLUSTER, Environment};
use testbed::eventually;

/// Version of Karpenter's hash of an EC2NodeClass, and an arbitrary value: only Karpenter can verify it.
const CLASS_HASH: (&str, &str) = ("v6", "4182795473168236110");
/// Name of Karpenter's launch template.
const TEMPLATE: &str = "karpenter.k8s.aws/13475923875429061772";
/// Instance profile that Karpenter created for the role of the EC2NodeClass.
pub const PROFILE: &str = "kerf-demo_9236487021557719846";
const ROLE: &str = "KarpenterNodeRole-kerf-demo";
const FINALIZER: &str = "karpenter.sh/termination";
const TYPE: &str = "m5.xlarge";
const ZONE: &str = "us-west-2a";
const LIMIT: Duration = Duration::from_secs(90);

/// Returns the NodePool. One instance type at one price excludes any cheaper replacement.
fn pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    {"key": label::INSTANCE_TYPE, "operator": "In", "values": [TYPE]},
                    {"key": label::CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
                ],
            }},
            "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]},
        },
    })
}

fn class() -> Value {
    let discovery = json!([{"tags": {"karpenter.sh/discovery": CLUSTER}}]);
    json!({
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default", "finalizers": ["karpenter.k8s.aws/termination"], "annotations": class_annotations()},
        "spec": {
            "role": ROLE,
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": discovery,
            "securityGroupSelectorTerms": discovery,
        },
    })
}

fn class_annotations() -> Value {
    json!({annotation::EC2_NODE_CLASS_HASH: CLASS_HASH.1, annotation::EC2_NODE_CLASS_HASH_VERSION: CLASS_HASH.0})
}

/// Karpenter on a simulated cluster.
pub struct Karpenter<'a> {
    environment: &'a Environment,
}

impl<'a> Karpenter<'a> {
    pub fn on(environment: &'a Environment) -> Self {
        Self { environment }
    }

    fn api<K: kube::Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.environment.client.clone())
    }

    /// Simulates a run of Karpenter: launches an instance for each of these NodeClaims, and stops.
    pub async fn ran(&self, claims: &[&str]) -> Result<()> {
        self.environment.apply("getting-started/aws-node.yaml").await?;
        self.environment.apply_value(class()).await?;
        self.environment.apply_value(pool()).await?;
        self.makes_profile().await?;
        let pool = self.api::<NodePool>().get("default").await?;
        let hashes = json!({"metadata": {"annotations": pool_annotations(&pool)?}});
        self.api::<NodePool>().patch("default", &PatchParams::default(), &Patch::Merge(hashes)).await?;
        for name in claims {
            self.launches(name, &pool).await.with_context(|| format!("NodeClaim {name}"))?;
        }
        Ok(())
    }

    async fn makes_profile(&self) -> Result<()> {
        let class = self.api::<EC2NodeClass>().get("default").await?;
        let uid = class.uid().unwrap_or_default();
        let mut tags: Tags = own_tags();
        tags.insert("topology.kubernetes.io/region".to_owned(), "us-west-2".to_owned());
        let path = format!("/karpenter/us-west-2/{CLUSTER}/{uid}/");
        let request = cloud::InstanceProfileRequest { name: PROFILE.to_owned(), path, tags };
        self.environment.ec2.create_instance_profile(&request).await?;
        self.environment.ec2.add_role_to_instance_profile(PROFILE, ROLE).await?;
        let status = json!({"status": {"instanceProfile": PROFILE}});
        self.api::<EC2NodeClass>().patch_status("default", &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    }

    async fn launches(&self, name: &str, pool: &NodePool) -> Result<()> {
        let image = self.image().await?;
        let owner = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "default", "uid": pool.uid(), "blockOwnerDeletion": true,
        });
        let mut annotations = pool_annotations(pool)?;
        let of_class = class_annotations();
        annotations.as_object_mut().context("no map")?.extend(of_class.as_object().cloned().context("no map")?);
        annotations[annotation::INSTANCE_PROFILE_NAME] = json!(PROFILE);
        annotations[annotation::INSTANCE_TAGGED] = json!("true");
        annotations[annotation::CLUSTER_NAME_TAGGED] = json!("true");
        let mut requirements = pool_requirements();
        requirements.push(json!({"key": label::NODEPOOL, "operator": "In", "values": ["default"]}));
        self.environment
            .apply_value(json!({
                "apiVersion": "karpenter.sh/v1",
                "kind": "NodeClaim",
                "metadata": {
                    "name": name, "labels": labels(), "annotations": annotations, "finalizers": [FINALIZER],
                    "ownerReferences": [owner],
                },
                "spec": {
                    "expireAfter": "720h",
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                    "requirements": requirements,
                    "resources": {"requests": {"cpu": "3", "pods": "3"}},
                },
            }))
            .await?;
        let instance = self.buys(name, &image).await?;
        let node = self.registers(&instance, &annotations).await?;
        let status = json!({"status": {
            "providerID": provider_id(&instance), "imageID": image, "nodeName": node.name(),
            "capacity": node.status.capacity, "allocatable": node.status.allocatable,
            "conditions": conditions(),
        }});
        self.api::<NodeClaim>().patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    }

    async fn image(&self) -> Result<String> {
        let path = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id";
        self.environment.ec2.parameter(path).await?.context("no image")
    }

    async fn buys(&self, claim: &str, image: &str) -> Result<String> {
        let ec2 = &self.environment.ec2;
        let discovery: Tags = [("karpenter.sh/discovery".to_owned(), CLUSTER.to_owned())].into();
        let tagged = cloud::Filter { tags: discovery, ..cloud::Filter::default() };
        let groups = ec2.security_groups(&tagged).await?.into_iter().map(|group| group.id).collect();
        let template = LaunchTemplateRequest {
            name: TEMPLATE.to_owned(),
            image_id: image.to_owned(),
            instance_profile: PROFILE.to_owned(),
            security_group_ids: groups,
            user_data: STANDARD.encode(self.user_data()),
            tags: own_tags(),
            ..LaunchTemplateRequest::default()
        };
        if !ec2.template_names().iter().any(|name| name == TEMPLATE) {
            ec2.create_launch_template(&template).await?;
        }
        let subnets = ec2.subnets(&tagged).await?;
        let subnet = subnets.iter().find(|subnet| subnet.zone == ZONE).context("no subnet")?;
        let offer = FleetOverride {
            instance_type: TYPE.to_owned(),
            zone: ZONE.to_owned(),
            subnet_id: subnet.id.clone(),
            image_id: image.to_owned(),
            ..FleetOverride::default()
        };
        let mut tags = own_tags();
        tags.insert(label::NODEPOOL.to_owned(), "default".to_owned());
        tags.insert("karpenter.sh/nodeclaim".to_owned(), claim.to_owned());
        let request = FleetRequest {
            client_token: format!("of-karpenter-{claim}"),
            target: 1,
            capacity_type: "on-demand".to_owned(),
            configs: vec![FleetConfig { launch_template: TEMPLATE.to_owned(), overrides: vec![offer] }],
            tags,
            ..FleetRequest::default()
        };
        let answer = ec2.create_fleet(&request).await?;
        let instance = answer.instances.first().with_context(|| format!("nothing launched: {:?}", answer.errors))?;
        Ok(instance.id.clone())
    }

    /// Waits for the Node and registers it as Karpenter does: labels and annotations of the NodeClaim, no startup taint,
    /// Karpenter's finalizer.
    async fn registers(&self, instance: &str, annotations: &Value) -> Result<Node> {
        let node = eventually("the Node to be ready", LIMIT, async || {
            let nodes = self.api::<Node>().list(&ListParams::default()).await?;
            let node = nodes.into_iter().find(|node| node.spec.provider_id == provider_id(instance));
            Ok(node.filter(Node::is_ready))
        })
        .await?;
        let mut node_labels = labels();
        node_labels[label::REGISTERED] = json!("true");
        node_labels[label::INITIALIZED] = json!("true");
        let kept: Vec<_> = node.spec.taints.iter().filter(|taint| !taint.key.starts_with("karpenter.sh/")).collect();
        let change = json!({
            "metadata": {"labels": node_labels, "annotations": annotations, "finalizers": [FINALIZER]},
            "spec": {"taints": kept},
        });
        Ok(self.api::<Node>().patch(node.name(), &PatchParams::default(), &Patch::Merge(change)).await?)
    }

    /// Returns a NodeConfig as Karpenter renders it.
    fn user_data(&self) -> String {
        let authority = STANDARD.encode(self.environment.control_plane.authority().certificate());
        let labels = "karpenter.sh/capacity-type=on-demand,karpenter.sh/nodepool=default";
        format!(
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\nContent-Type: application/node.eks.aws\n\n\
             # Karpenter Generated NodeConfig\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nmetadata: {{}}\nspec:\n  \
             cluster:\n    apiServerEndpoint: {}\n    certificateAuthority: {authority}\n    cidr: 10.100.0.0/16\n    name: {CLUSTER}\n  \
             kubelet:\n    config:\n      clusterDNS:\n      - 10.100.0.10\n      maxPods: 58\n      registerWithTaints:\n      \
             - effect: NoExecute\n        key: karpenter.sh/unregistered\n    flags:\n    - --node-labels=\"{labels}\"\n\n--//--\n",
            self.environment.control_plane.url(),
        )
    }

    /// Asserts that Karpenter could continue with every NodeClaim.
    pub async fn could_go_on(&self) -> Result<()> {
        let pool = self.api::<NodePool>().get("default").await?;
        for claim in self.api::<NodeClaim>().list(&ListParams::default()).await? {
            let name = claim.name_any();
            self.would_know(&claim, &pool).await.with_context(|| format!("NodeClaim {name}"))?;
        }
        Ok(())
    }

    async fn would_know(&self, claim: &NodeClaim, pool: &NodePool) -> Result<()> {
        ensure!(claim.finalizers() == [FINALIZER], "its finalizers are {:?}", claim.finalizers());
        let owner = claim.owner_references().iter().find(|owner| Some(&owner.uid) == pool.uid().as_ref());
        ensure!(owner.is_some(), "the pool does not own it");
        for type_ in [condition::LAUNCHED, condition::REGISTERED, condition::INITIALIZED] {
            ensure!(claim.is_true(type_), "it is not {type_}");
        }
        let written = claim.annotations();
        for (key, value) in pool_annotations(pool)?.as_object().context("no map")? {
            ensure!(
                written.get(key).map(String::as_str) == value.as_str(),
                "{key} is {:?}, not {value}",
                written.get(key)
            );
        }
        // Karpenter replaces a hash of an unknown version, and never compares it.
        let recipe = written.get(annotation::EC2_NODE_CLASS_HASH_VERSION);
        ensure!(
            recipe.is_some_and(|version| version != CLASS_HASH.0),
            "the class's hash is said to be of its recipe: {recipe:?}"
        );
        let status = claim.status.as_ref().context("no status")?;
        let node = self.api::<Node>().get(&status.node_name).await?;
        ensure!(node.finalizers().contains(&FINALIZER.to_owned()), "its Node's finalizers are {:?}", node.finalizers());
        for key in [label::REGISTERED, label::INITIALIZED] {
            ensure!(node.label(key) == Some("true"), "its Node lacks the label {key}");
        }
        let instance = cloud::launch::claim::instance_id(&status.provider_id).context("no instance")?;
        let machine = self.environment.ec2.machine(instance).context("EC2 does not know its instance")?;
        let mut expected = own_tags();
        expected.insert(label::NODEPOOL.to_owned(), "default".to_owned());
        expected.insert("karpenter.sh/nodeclaim".to_owned(), claim.name_any());
        for (key, value) in expected {
            let found = machine.instance.tags.get(&key);
            ensure!(found == Some(&value), "the tag {key} of its instance is {found:?}, not {value:?}");
        }
        Ok(())
    }

    /// Simulates Karpenter's first writes after a restart: hashes of its own version.
    pub async fn came_back(&self) -> Result<()> {
        let change = json!({"metadata": {"annotations": class_annotations()}});
        for claim in self.api::<NodeClaim>().list(&ListParams::default()).await? {
            let (api, name) = (self.api::<NodeClaim>(), claim.name_any());
            api.patch(&name, &PatchParams::default(), &Patch::Merge(&change)).await?;
        }
        self.api::<EC2NodeClass>().patch("default", &PatchParams::default(), &Patch::Merge(&change)).await?;
        Ok(())
    }
}

fn pool_annotations(pool: &NodePool) -> Result<Value> {
    Ok(json!({annotation::NODEPOOL_HASH: hash::node_pool(pool)?, annotation::NODEPOOL_HASH_VERSION: "v3"}))
}

fn pool_requirements() -> Vec<Value> {
    pool()["spec"]["template"]["spec"]["requirements"].as_array().cloned().unwrap_or_default()
}

fn own_tags() -> Tags {
    let tags = [
        (format!("kubernetes.io/cluster/{CLUSTER}"), "owned"),
        ("eks:eks-cluster-name".to_owned(), CLUSTER),
        ("karpenter.k8s.aws/ec2nodeclass".to_owned(), "default"),
    ];
    tags.into_iter().map(|(key, value)| (key, value.to_owned())).collect()
}

/// Returns Karpenter's labels of type, zone and NodePool.
fn labels() -> Value {
    json!({
        label::NODEPOOL: "default",
        label::CAPACITY_TYPE: "on-demand",
        label::INSTANCE_TYPE: TYPE,
        label::ZONE: ZONE,
        "topology.kubernetes.io/region": "us-west-2",
        "topology.k8s.aws/zone-id": "usw2-az1",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "karpenter.k8s.aws/ec2nodeclass": "default",
        "karpenter.k8s.aws/instance-category": "m",
        "karpenter.k8s.aws/instance-cpu": "4",
        "karpenter.k8s.aws/instance-cpu-manufacturer": "intel",
        "karpenter.k8s.aws/instance-family": "m5",
        "karpenter.k8s.aws/instance-generation": "5",
        "karpenter.k8s.aws/instance-hypervisor": "nitro",
        "karpenter.k8s.aws/instance-memory": "16384",
        "karpenter.k8s.aws/instance-size": "xlarge",
    })
}

fn conditions() -> Value {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition_of = |name: &str| {
        json!({
            "type": name, "status": "True", "reason": name, "message": "", "lastTransitionTime": now, "observedGeneration": 1,
        })
    };
    ["Launched", "Registered", "Initialized", "Ready", "Consolidatable"].into_iter().map(condition_of).collect()
}

fn provider_id(instance: &str) -> String {
    format!("aws:///{ZONE}/{instance}")
}
