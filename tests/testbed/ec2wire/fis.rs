//! FIS' REST protocol, for experiments that interrupt spot instances. Kerf does not use it; Karpenter's own suites do.

use std::collections::BTreeMap;
use std::sync::Mutex;

use cloud::fake::FakeCloud;
use http::Method;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::answer::{Failure, Reply, invalid, json as parse};
use super::lock;

/// Time from the notice of a spot interruption to the termination.
const NOTICE: SignedDuration = SignedDuration::from_mins(2);

/// Experiment templates by id: the instances that they interrupt.
pub(super) type Templates = Mutex<BTreeMap<String, Vec<String>>>;

/// Request: method, path and body.
#[derive(Clone, Debug)]
pub(super) struct FisCall {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: Vec<u8>,
}

impl FisCall {
    /// Reports whether a path belongs to FIS.
    pub(super) fn is_path(path: &str) -> bool {
        path.starts_with("/experiment")
    }

    /// Returns AWS' name of the action.
    pub(super) fn action(&self) -> &'static str {
        match (&self.method, self.path.as_str()) {
            (&Method::POST, "/experimentTemplates") => "CreateExperimentTemplate",
            (&Method::POST, "/experiments") => "StartExperiment",
            (&Method::DELETE, path) if path.starts_with("/experimentTemplates/") => "DeleteExperimentTemplate",
            _ => "unknown",
        }
    }

    pub(super) fn act(&self, cloud: &FakeCloud, templates: &Templates) -> Result<Reply, Failure> {
        match self.action() {
            "CreateExperimentTemplate" => create(templates, &parse(&self.body)?),
            "StartExperiment" => start(cloud, templates, &parse(&self.body)?),
            "DeleteExperimentTemplate" => delete(templates, self.path.rsplit('/').next().unwrap_or_default()),
            _ => Err(invalid("ValidationException", format!("{} {} is not known here", self.method, self.path))),
        }
    }
}

fn create(templates: &Templates, request: &Value) -> Result<Reply, Failure> {
    let targets = request["targets"].as_object().into_iter().flat_map(|targets| targets.values());
    let arns = targets.flat_map(|target| target["resourceArns"].as_array().cloned().unwrap_or_default());
    let instances: Vec<String> = arns.filter_map(|arn| Some(arn.as_str()?.rsplit_once('/')?.1.to_owned())).collect();
    if instances.is_empty() {
        return Err(invalid("ValidationException", "only targets with resourceArns are known here".to_owned()));
    }
    let mut templates = lock(templates);
    let id = format!("EXT{}", templates.len() + 1);
    templates.insert(id.clone(), instances);
    Ok(Reply { body: json!({"experimentTemplate": {"id": id}}).to_string(), summary: id })
}

fn start(cloud: &FakeCloud, templates: &Templates, request: &Value) -> Result<Reply, Failure> {
    let id = request["experimentTemplateId"].as_str().unwrap_or_default();
    let instances = lock(templates).get(id).cloned().ok_or_else(|| missing(id))?;
    let deadline = cloud.now().saturating_add(NOTICE).unwrap_or(jiff::Timestamp::MAX);
    if let Some(instance) = instances.iter().find(|instance| !cloud.interrupt(instance, deadline)) {
        return Err(invalid("ValidationException", format!("{instance} is no running instance")));
    }
    let answer = json!({"experiment": {"id": format!("EXP-{id}"), "experimentTemplateId": id}});
    Ok(Reply { body: answer.to_string(), summary: instances.join(", ") })
}

fn delete(templates: &Templates, id: &str) -> Result<Reply, Failure> {
    lock(templates).remove(id).ok_or_else(|| missing(id))?;
    Ok(Reply { body: json!({"experimentTemplate": {"id": id}}).to_string(), summary: id.to_owned() })
}

fn missing(id: &str) -> Failure {
    invalid("ResourceNotFoundException", format!("there is no experiment template {id}"))
}
