//! Pods that get capacity together or not at all: pod groups and ProvisioningRequests.

use anyhow::{Context, Result, ensure};
use api::{ProvisioningRequest, annotation, condition, label, reason};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PodTemplate;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::{Value, json};
use testbed::{eventually, kueue};

use super::fixture::{Fixture, LIMIT, run};

/// Returns a NodePool with this limit for nodes of 4 CPUs.
fn training_pool(cpu: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "training"},
        "spec": {"limits": {"cpu": cpu}, "disruption": {"consolidateAfter": "Never"}, "template": {
            "metadata": {"labels": {"group": "training"}},
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [{"key": label::INSTANCE_TYPE, "operator": "In", "values": ["m5.xlarge"]}],
            },
        }},
    })
}

/// Waits until this number of pods of the app run.
async fn run_together(fixture: &Fixture, app: &str, count: usize) -> Result<()> {
    eventually(&format!("{count} pods of {app} to run"), LIMIT, async || {
        let pods = fixture.pods().list(&ListParams::default().labels(&format!("app={app}"))).await?.items;
        let running = pods.iter().filter(|pod| pod.status.phase == "Running").count();
        ensure!(running == count, "{running} of {} run", pods.len());
        Ok(Some(()))
    })
    .await
}

#[test]
fn pod_group_gets_nodes_for_all_pods_or_none() {
    run(async |fixture| {
        fixture.environment.apply_value(training_pool("8")).await?;
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "training", "namespace": "default"},
            "spec": {"parallelism": 3, "completions": 3, "template": {
                "metadata": {"labels": {"app": "training"}, "annotations": {annotation::POD_GROUP_MIN: "3"}},
                "spec": {
                    "restartPolicy": "Never",
                    "nodeSelector": {"group": "training"},
                    "containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": "3"}}}],
                },
            }},
        });
        fixture.environment.apply_value(job).await?;
        let reason = "pod group default/training has a place for 2 of 3 pods, so none gets one";
        fixture.wait_for_event("training", reason::FAILED_SCHEDULING, reason).await?;
        ensure!(fixture.claims_of("training").await?.is_empty(), "no node for a part of the group");

        fixture.environment.apply_value(training_pool("12")).await?;
        run_together(fixture, "training", 3).await?;
        ensure!(fixture.claims_of("training").await?.len() == 3, "a node for each pod");
        Ok(())
    });
}

/// Returns the specification of one pod of the training.
fn training_pod() -> Value {
    json!({
        "restartPolicy": "Never",
        "nodeSelector": {"group": "training"},
        "containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": "3"}}}],
    })
}

/// Returns a request for three pods of the training.
fn training_request(name: &str, class: &str) -> Value {
    json!({
        "apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "provisioningClassName": format!("{class}.autoscaling.x-k8s.io"),
            "podSets": [{"podTemplateRef": {"name": "training"}, "count": 3}],
        },
    })
}

/// Waits until a condition of the request has this status and reason.
async fn wait_for_request(fixture: &Fixture, name: &str, type_: &str, expected: (&str, &str)) -> Result<String> {
    let requests: Api<ProvisioningRequest> = Api::namespaced(fixture.client.clone(), "default");
    eventually(&format!("{type_} {expected:?} of request {name}"), LIMIT, async || {
        let conditions = requests.get(name).await?.status.unwrap_or_default().conditions;
        let found = conditions.iter().find(|it| it.type_ == type_);
        let is_expected = found.is_some_and(|it| (it.status.as_str(), it.reason.as_str()) == expected);
        ensure!(is_expected, "{conditions:?}");
        Ok(found.map(|it| it.message.clone()))
    })
    .await
}

/// A request gets nodes for all of its pods or none. Its nodes are kept for its pods, which wait until then; a check of the capacity launches
/// nothing.
#[test]
fn provisioning_request_books_nodes_for_all_pods_or_none() {
    run(async |fixture| {
        fixture.environment.apply_value(training_pool("8")).await?;
        let request = training_request("atomic", "best-effort-atomic-scale-up");
        fixture.environment.apply_value(request).await?;
        let refused = ("False", reason::INVALID_REQUEST);
        wait_for_request(fixture, "atomic", condition::ACCEPTED, refused).await?;
        fixture
            .environment
            .apply_value(json!({
                "apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "training", "namespace": "default"},
                "template": {"metadata": {"labels": {"app": "training"}}, "spec": training_pod()},
            }))
            .await?;
        let not_found = ("False", reason::CAPACITY_IS_NOT_FOUND);
        let why = wait_for_request(fixture, "atomic", condition::PROVISIONED, not_found).await?;
        let limited = "NodePool training: a new node would exceed the limit for cpu";
        ensure!(why.starts_with("2 of 3 pods could get a place: ") && why.contains(limited), "{why}");
        ensure!(fixture.claims_of("training").await?.is_empty(), "no node for a part of the request");

        // The pods consume the request, so no node is launched for them alone.
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "training", "namespace": "default"},
            "spec": {"parallelism": 3, "completions": 3, "template": {
                "metadata": {"labels": {"app": "training"}, "annotations": {annotation::CONSUMES_REQUEST: "atomic"}},
                "spec": training_pod(),
            }},
        });
        fixture.environment.apply_value(job).await?;
        let waits = "it waits for the capacity of ProvisioningRequest default/atomic";
        fixture.wait_for_event("training", reason::FAILED_SCHEDULING, waits).await?;
        ensure!(fixture.claims_of("training").await?.is_empty(), "no node for pods of the request");

        fixture.environment.apply_value(training_pool("12")).await?;
        wait_for_request(fixture, "atomic", condition::PROVISIONED, ("True", reason::CAPACITY_IS_PROVISIONED)).await?;
        run_together(fixture, "training", 3).await?;
        ensure!(fixture.claims_of("training").await?.len() == 3, "a node for each pod");

        fixture.environment.apply_value(training_request("check", "check-capacity")).await?;
        let why = wait_for_request(fixture, "check", condition::PROVISIONED, not_found).await?;
        ensure!(why == "existing nodes have a place for 0 of 3 pods", "{why}");
        let requests: Api<ProvisioningRequest> = Api::namespaced(fixture.client.clone(), "default");
        let jobs: Api<Job> = Api::namespaced(fixture.client.clone(), "default");
        jobs.delete("training", &DeleteParams::background()).await?;
        // The capacity is still booked for the pods of the first request.
        requests.delete("atomic", &DeleteParams::default()).await?;
        let found = ("True", reason::CAPACITY_IS_FOUND);
        wait_for_request(fixture, "check", condition::PROVISIONED, found).await?;
        ensure!(fixture.claims_of("training").await?.len() == 3, "a check of the capacity launches nothing");

        let templates: Api<PodTemplate> = Api::namespaced(fixture.client.clone(), "default");
        templates.delete("training", &DeleteParams::default()).await?;
        Ok(())
    });
}

/// Kueue itself asks for the nodes of a Job with 50 pods, with the queue of the how-to. The Job starts when all of its nodes are ready.
#[test]
fn kueue_starts_a_job_when_all_of_its_nodes_are_ready() {
    run(async |fixture| {
        let environment = &fixture.environment;
        let started = kueue::start(&environment.control_plane, environment.folder()).await?;
        environment.apply("kueue/queues.yaml").await?;
        let pool = |cpu: &str| {
            let requirements = json!([{"key": label::INSTANCE_TYPE, "operator": "In", "values": ["m5.2xlarge"]}]);
            let mut pool = training_pool(cpu);
            pool["spec"]["template"]["spec"]["requirements"] = requirements;
            pool
        };
        // A node has a place for seven of the pods, and the limit permits seven nodes.
        environment.apply_value(pool("56")).await?;
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {
                "name": "forecast", "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "forecast"},
            },
            "spec": {"suspend": true, "parallelism": 50, "completions": 50, "template": {
                "metadata": {"labels": {"app": "forecast"}},
                "spec": {
                    "restartPolicy": "Never",
                    "nodeSelector": {"group": "training"},
                    "containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": "1"}}}],
                },
            }},
        });
        environment.apply_value(job).await?;
        let requests: Api<ProvisioningRequest> = Api::namespaced(fixture.client.clone(), "default");
        let request = eventually("Kueue's request", LIMIT, async || {
            let found = requests.list(&ListParams::default()).await?.items;
            Ok(found.into_iter().next().and_then(|request| request.metadata.name))
        })
        .await
        .with_context(|| started.process.log_tail(40))?;
        let not_found = ("False", reason::CAPACITY_IS_NOT_FOUND);
        let why = wait_for_request(fixture, &request, condition::PROVISIONED, not_found).await?;
        ensure!(why.starts_with("49 of 50 pods could get a place"), "{why}");
        ensure!(fixture.claims_of("training").await?.is_empty(), "no node for a part of the Job");
        let pods = fixture.pods().list(&ListParams::default().labels("app=forecast")).await?.items;
        ensure!(pods.is_empty(), "the Job has begun without its nodes");

        environment.apply_value(pool("64")).await?;
        run_together(fixture, "forecast", 50).await.with_context(|| started.process.log_tail(40))?;
        wait_for_request(fixture, &request, condition::PROVISIONED, ("True", reason::CAPACITY_IS_PROVISIONED)).await?;
        ensure!(fixture.claims_of("training").await?.len() == 8, "eight nodes for all pods");
        Ok(())
    });
}
