//! Request in its protocol: service, operation, and the service's form of an error.

use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};
use hyper::body::Bytes;
use jiff::Timestamp;

use super::answer::{self, Failure, Reply};
use super::eks::EksCall;
use super::fis::FisCall;
use super::form::Form;
use super::{Shared, account, arc, ec2, form, iam, pricing, sqs, ssm};

/// Version that identifies IAM in a query.
const IAM: &str = "2010-05-08";

/// Version that identifies STS in a query.
const STS: &str = "2011-06-15";

/// Services with a JSON protocol, by the prefix of their operations.
const JSON: [(&str, Json); 3] =
    [("AmazonSSM.", Json::Ssm), ("AmazonSQS.", Json::Sqs), ("AWSPriceListService.", Json::Pricing)];

/// Service with a JSON protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Json {
    Ssm,
    Sqs,
    Pricing,
}

/// Request and its protocol.
pub(super) enum Call {
    /// EC2's query protocol, with the name of the action.
    Ec2(String, Form),
    /// IAM's query protocol.
    Iam(Form),
    /// STS' query protocol.
    Sts(Form),
    /// JSON, with the name of the operation in a header.
    Json(Json, String, Bytes),
    /// EKS' REST protocol.
    Eks(EksCall),
    /// FIS' REST protocol.
    Fis(FisCall),
    /// ARC's REST protocol, of which Kerf uses GetManagedResource: the ARN of the cluster.
    Arc(String),
}

impl Call {
    pub(super) fn read(head: &Parts, body: &Bytes) -> Self {
        let target = head.headers.get("x-amz-target").and_then(|value| value.to_str().ok()).unwrap_or_default();
        for (prefix, service) in JSON {
            if let Some(operation) = target.strip_prefix(prefix) {
                return Self::Json(service, operation.to_owned(), body.clone());
            }
        }
        let (method, path) = (head.method.clone(), head.uri.path());
        if let Some(path) = path.strip_prefix("/clusters/") {
            return Self::Eks(EksCall { method, path: path.to_owned() });
        }
        if FisCall::is_path(path) {
            return Self::Fis(FisCall { method, path: path.to_owned(), body: body.to_vec() });
        }
        if let Some(arn) = path.strip_prefix("/managedresources/") {
            return Self::Arc(form::decode(arn));
        }
        let form = Form::parse(&String::from_utf8_lossy(body));
        match form.text("Version") {
            IAM => return Self::Iam(form),
            STS => return Self::Sts(form),
            _ => {}
        }
        let asked_only = if form.text("DryRun") == "true" { "(DryRun)" } else { "" };
        Self::Ec2(format!("{}{asked_only}", form.text("Action")), form)
    }

    /// Returns AWS' name of the action; `CreateFleet(DryRun)` for a dry run.
    pub(super) fn action(&self) -> &str {
        match self {
            Self::Ec2(action, _) => action,
            Self::Iam(form) | Self::Sts(form) => form.text("Action"),
            Self::Json(_, operation, _) => operation,
            Self::Eks(call) => call.action(),
            Self::Fis(call) => call.action(),
            Self::Arc(_) => "GetManagedResource",
        }
    }

    pub(super) async fn answer(&self, shared: &Shared, headers: &HeaderMap) -> Result<Reply, Failure> {
        // The token in the call takes the place of a signature.
        if self.action() != account::WEB_IDENTITY {
            answer::check_signed(headers)?;
        }
        let cloud = &shared.cloud;
        match self {
            Self::Ec2(action, form) => ec2::act(shared, action, form).await,
            Self::Iam(form) => iam::act(shared, form).await,
            Self::Sts(form) => account::sts(form, Timestamp::now()),
            Self::Json(Json::Ssm, operation, body) => ssm::act(cloud, operation, body).await,
            Self::Json(Json::Sqs, operation, body) => sqs::act(cloud, operation, body).await,
            Self::Json(Json::Pricing, operation, body) => pricing::act(cloud, operation, body).await,
            Self::Eks(call) => call.act(cloud).await,
            Self::Fis(call) => call.act(cloud, &shared.fis),
            Self::Arc(arn) => arc::describe(cloud, arn).await,
        }
    }

    pub(super) fn content_type(&self) -> &'static str {
        match self {
            Self::Ec2(..) | Self::Iam(_) | Self::Sts(_) => "text/xml;charset=UTF-8",
            Self::Json(Json::Sqs, ..) => "application/x-amz-json-1.0",
            Self::Json(..) => "application/x-amz-json-1.1",
            Self::Eks(_) | Self::Fis(_) | Self::Arc(_) => "application/json",
        }
    }

    pub(super) fn error(&self, code: &str, message: &str) -> String {
        match self {
            Self::Ec2(..) => answer::error_xml(code, message),
            Self::Iam(_) | Self::Sts(_) => iam::error_xml(code, message),
            Self::Json(Json::Sqs, ..) => answer::error_json(sqs::shape(code), message),
            Self::Json(..) | Self::Eks(_) | Self::Fis(_) | Self::Arc(_) => answer::error_json(code, message),
        }
    }

    /// Adds the error code as a header, if the service does so: SQS keeps the code of its old protocol there.
    pub(super) fn mark(&self, code: &str, headers: &mut HeaderMap) {
        let (name, value) = match self {
            Self::Json(Json::Sqs, ..) => ("x-amzn-query-error", format!("{code};Sender")),
            Self::Eks(_) | Self::Fis(_) | Self::Arc(_) => ("x-amzn-errortype", code.to_owned()),
            _ => return,
        };
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}
