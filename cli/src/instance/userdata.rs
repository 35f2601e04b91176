//! User data for an instance of a class and a NodePool: the same document that the controller would send.

use std::error::Error;
use std::io::Read;
use std::path::Path;

use api::nodeclass::AmiFamily;
use api::{EC2NodeClass, NodePool, Operator, label};
use cloud::launch::LaunchRequest;
use cloud::nodeclass::user_data;
use cloud::types::{self, ClassSettings};
use cloud::{Settings, data};
use planner::Resources;

use crate::args::{Cluster, UserData};
use crate::failure::Failure;
use crate::input::{self, Objects};

/// Prefix of labels that only instance types have.
const INSTANCE_LABELS: &str = "karpenter.k8s.aws/instance-";

/// The document, with notes for the user.
pub struct RenderedUserData {
    /// Document as the instance receives it.
    pub text: String,
    /// Notes, one sentence each.
    pub notes: Vec<String>,
}

/// Renders the user data of an instance.
///
/// # Errors
/// Returns an error if a file cannot be read, has other objects than required, or if the class's user data cannot be merged.
/// The message contains the file.
pub fn render(args: &UserData, stdin: &mut dyn Read) -> Result<RenderedUserData, Failure> {
    let (classes, pools, mut notes) = objects(args, stdin)?;
    let pool = pool(&pools, &args.pool)?;
    let class = class(&classes, pool, &args.class)?;
    let name = class.metadata.name.as_deref().unwrap_or_default();
    let at = |problem: String| Failure::usage(format!("{}: EC2NodeClass {name}: {problem}", shown(&args.class)));
    let family = class.spec.resolved_ami_family();
    notes.extend(args.cluster.missing(family));
    let settings = Settings { reserved_enis: args.reserved_enis, ..args.cluster.settings() };
    let pods = pods(class, args.kind.as_deref(), &settings, &at)?;
    if pods.is_none() && !matches!(family, AmiFamily::Custom) {
        notes.push("maxPods depends on the instance type; set --type".to_owned());
    }
    notes.extend(exclusion(pool, args, &settings)?);
    let capacity_type = args.capacity_type.map_or_else(|| capacity_type(pool), |given| given.as_str());
    let document = user_data::of_class(class, &settings, launch_request(pool).registration(), capacity_type, pods)
        .map_err(|error| at(error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))))?;
    notes.extend(document.warnings.iter().map(|warning| format!("EC2NodeClass {name}: {warning}")));
    let text = if args.base64 { machine::userdata::encode(&document.text) + "\n" } else { document.text };
    Ok(RenderedUserData { text, notes })
}

/// Returns the warnings about the user data of each EC2NodeClass that a NodePool uses, and the error if there is none.
pub(crate) fn warnings(objects: &Objects) -> Vec<String> {
    let mut all = Vec::new();
    for pool in &objects.pools {
        let wanted = Some(&pool.spec.template.spec.node_class_ref.name);
        let Some(class) = objects.classes.iter().find(|class| class.metadata.name.as_ref() == wanted) else { continue };
        let settings = Cluster::default().settings();
        let document =
            user_data::of_class(class, &settings, launch_request(pool).registration(), capacity_type(pool), None);
        let name = class.metadata.name.as_deref().unwrap_or_default();
        match document {
            Ok(document) => all.extend(document.warnings.iter().map(|it| format!("EC2NodeClass {name}: {it}"))),
            Err(error) => {
                let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
                all.push(format!("EC2NodeClass {name}: no instance can be launched: {error}{cause}"));
            }
        }
    }
    all.sort();
    all.dedup();
    all
}

/// Reads both files; standard input is read once for both.
fn objects(args: &UserData, stdin: &mut dyn Read) -> Result<(Objects, Objects, Vec<String>), Failure> {
    let classes = input::read(std::slice::from_ref(&args.class), stdin).map_err(Failure::from)?;
    if args.class == args.pool {
        return Ok((classes.objects.clone(), classes.objects, classes.notes));
    }
    let pools = input::read(std::slice::from_ref(&args.pool), stdin).map_err(Failure::from)?;
    Ok((classes.objects, pools.objects, [classes.notes, pools.notes].concat()))
}

fn shown(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

fn pool<'a>(objects: &'a Objects, path: &Path) -> Result<&'a NodePool, Failure> {
    match objects.pools.as_slice() {
        [pool] => Ok(pool),
        [] => Err(Failure::usage(format!("{}: no NodePool; use a file with one", shown(path)))),
        several => {
            let names: Vec<&str> = several.iter().filter_map(|pool| pool.metadata.name.as_deref()).collect();
            let names = names.join(", ");
            Err(Failure::usage(format!("{}: several NodePools ({names}); use a file with one", shown(path))))
        }
    }
}

fn class<'a>(objects: &'a Objects, pool: &NodePool, path: &Path) -> Result<&'a EC2NodeClass, Failure> {
    let wanted = &pool.spec.template.spec.node_class_ref.name;
    let found = objects.classes.iter().find(|class| class.metadata.name.as_ref() == Some(wanted));
    found.map(AsRef::as_ref).ok_or_else(|| {
        let names: Vec<&str> = objects.classes.iter().filter_map(|class| class.metadata.name.as_deref()).collect();
        let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let pool = pool.metadata.name.as_deref().unwrap_or_default();
        Failure::usage(format!(
            "{}: NodePool {pool}: spec.template.spec.nodeClassRef.name is {wanted}, but the EC2NodeClass is \
             {there}; use the file with {wanted}",
            shown(path)
        ))
    })
}

/// Returns the maximum number of pods for an instance of the type with the class's settings.
fn pods(
    class: &EC2NodeClass,
    kind: Option<&str>,
    settings: &Settings,
    at: &impl Fn(String) -> Failure,
) -> Result<Option<u32>, Failure> {
    let Some(kind) = kind else {
        let own = class.spec.kubelet.as_ref().and_then(|kubelet| kubelet.max_pods);
        return Ok(own.and_then(|pods| u32::try_from(pods).ok()));
    };
    let infos = data::instance_types().map_err(Failure::internal)?;
    let info = infos
        .get(kind)
        .ok_or_else(|| Failure::usage(format!("--type: unknown instance type {kind}; write one such as m7g.large")))?;
    let facts = data::facts().map_err(Failure::internal)?;
    let sizes = ClassSettings::new(class, std::collections::BTreeMap::new()).map_err(|error| at(error.to_string()))?;
    let capacity = types::capacity(info, facts, &sizes, settings);
    Ok(u32::try_from(capacity.get(Resources::PODS)).ok())
}

/// Returns a note if the NodePool would never launch the requested type. The document is correct, but no instance receives it.
fn exclusion(pool: &NodePool, args: &UserData, settings: &Settings) -> Result<Option<String>, Failure> {
    let Some(kind) = args.kind.as_deref() else { return Ok(None) };
    let infos = data::instance_types().map_err(Failure::internal)?;
    let Some(info) = infos.get(kind) else { return Ok(None) };
    let facts = data::facts().map_err(Failure::internal)?;
    let labels = types::labels(info, facts, settings);
    let list = pool.template_requirements();
    let wanted = cloud::requirements(&list);
    let refuses = |requirement: &&api::Requirement| {
        let key = label::canonical(&requirement.key);
        let own = labels.get(key).filter(|_| key != label::REGION);
        let absent = own.is_none() && key.starts_with(INSTANCE_LABELS);
        let allows = |value: Option<&str>| wanted.get(key).is_none_or(|set| set.allows(value));
        absent && !allows(None) || own.is_some_and(|values| !values.iter().any(|value| allows(Some(value))))
    };
    let refusing: Vec<String> = list.iter().filter(refuses).map(|one| label::canonical(&one.key).to_owned()).collect();
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    Ok((!refusing.is_empty()).then(|| {
        format!("NodePool {name} never launches {kind}: its requirements on {} exclude it", refusing.join(", "))
    }))
}

/// Returns the capacity type that a launch prefers: spot if the NodePool allows it.
fn capacity_type(pool: &NodePool) -> &'static str {
    let requirements = cloud::requirements(&pool.template_requirements());
    let allows = |value: &str| requirements.get(label::CAPACITY_TYPE).is_none_or(|set| set.allows(Some(value)));
    let all = [label::CAPACITY_SPOT, label::CAPACITY_ON_DEMAND, label::CAPACITY_RESERVED];
    all.into_iter().find(|value| allows(value)).unwrap_or(label::CAPACITY_ON_DEMAND)
}

/// Returns the launch request of a NodeClaim of the NodePool, before any pod narrows it.
fn launch_request(pool: &NodePool) -> LaunchRequest {
    let template = &pool.spec.template;
    let name = pool.metadata.name.clone().unwrap_or_default();
    let mut labels = template.metadata.labels.clone().unwrap_or_default();
    for wanted in pool.template_requirements() {
        let own = !label::is_well_known(&wanted.key) && !label::is_restricted(&wanted.key);
        if let [value] = wanted.values.as_slice()
            && own
            && wanted.operator == Operator::In
        {
            labels.entry(wanted.key.clone()).or_insert_with(|| value.clone());
        }
    }
    let class = &template.spec.node_class_ref;
    labels.insert(label::NODEPOOL.to_owned(), name.clone());
    labels.insert(label::node_class_key(&class.group, &class.kind), class.name.clone());
    LaunchRequest {
        pool: name,
        labels,
        taints: template.spec.taints.clone().unwrap_or_default(),
        startup_taints: template.spec.startup_taints.clone().unwrap_or_default(),
        ..LaunchRequest::default()
    }
}

impl Cluster {
    /// Returns the settings of the cluster, with placeholders for unknown values.
    fn settings(&self) -> Settings {
        let text = |value: &Option<String>, placeholder: &str| value.clone().unwrap_or_else(|| placeholder.to_owned());
        Settings {
            cluster_name: text(&self.cluster_name, "CLUSTER_NAME"),
            cluster_endpoint: text(&self.cluster_endpoint, "https://CLUSTER_ENDPOINT"),
            cluster_ca: text(&self.cluster_ca_bundle, "CLUSTER_CA_BUNDLE"),
            cluster_cidr: text(&self.cluster_cidr, "CLUSTER_CIDR"),
            cluster_dns: self.cluster_dns.clone(),
            ..Settings::default()
        }
    }

    /// Returns a note about the placeholders that the family needs.
    fn missing(&self, family: AmiFamily) -> Option<String> {
        let is_generated = family != AmiFamily::Custom;
        let all = [
            ("CLUSTER_NAME", is_generated && self.cluster_name.is_none()),
            ("CLUSTER_ENDPOINT", is_generated && self.cluster_endpoint.is_none()),
            ("CLUSTER_CA_BUNDLE", is_generated && self.cluster_ca_bundle.is_none()),
            ("CLUSTER_CIDR", family == AmiFamily::Al2023 && self.cluster_cidr.is_none()),
        ];
        let names: Vec<&str> = all.into_iter().filter(|(_, missing)| *missing).map(|(name, _)| name).collect();
        let verb = if names.len() == 1 { "stands" } else { "stand" };
        (!names.is_empty())
            .then(|| format!("{} {verb} for unknown values; set the variables, or the flags", names.join(", ")))
    }
}
