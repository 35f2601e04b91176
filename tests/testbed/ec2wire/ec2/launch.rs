//! Launch templates and CreateFleet.

use std::collections::BTreeMap;
use std::sync::Mutex;

use cloud::{Cloud, FleetAnswer, FleetConfig, FleetOverride, FleetRequest, LaunchTemplate, RunInstancesProbe, Tags};

use super::describe::{Select, tags_of};
use super::template;
use crate::ec2wire::answer::{Failure, Reply, dry_run, invalid, page};
use crate::ec2wire::form::Form;
use crate::ec2wire::xml::Xml;
use crate::ec2wire::{Shared, lock};

/// Most templates per page, as in EC2.
const PAGE: usize = 200;

/// Templates of CreateLaunchTemplate by client token: the same token never creates a second template.
pub(in crate::ec2wire) type Tokens = Mutex<BTreeMap<String, LaunchTemplate>>;

pub(super) async fn describe_templates(cloud: &dyn Cloud, form: &Form) -> Result<Reply, Failure> {
    let filter = Select::read(form).filter("launch-template-id", "launch-template-name")?;
    let mut found = cloud.launch_templates(&filter.tags).await?;
    let (ids, names) = (form.texts("LaunchTemplateId"), form.texts("LaunchTemplateName"));
    if let Some(id) = ids.iter().find(|id| found.iter().all(|template| template.id != **id)) {
        let message = format!("The specified launch template, with template ID {id}, does not exist.");
        return Err(invalid("InvalidLaunchTemplateId.NotFound", message));
    }
    if let Some(name) = names.iter().find(|name| found.iter().all(|template| template.name != **name)) {
        let message = format!("At least one of the launch templates specified in the request does not exist: {name}.");
        return Err(invalid("InvalidLaunchTemplateName.NotFoundException", message));
    }
    found.retain(|template| ids.is_empty() || ids.contains(&template.id));
    found.retain(|template| names.is_empty() || names.contains(&template.name));
    found.retain(|template| filter.ids.is_empty() || filter.ids.contains(&template.id));
    found.retain(|template| filter.names.is_empty() || filter.names.contains(&template.name));
    let summary = format!("{} launch templates", found.len());
    let (rows, next) = page(found, form, PAGE)?;
    let body = Xml::response("DescribeLaunchTemplates", |xml| {
        xml.items("launchTemplates", &rows, described);
        xml.some("nextToken", next);
    });
    Ok(Reply { body, summary })
}

fn described(xml: &mut Xml, row: &LaunchTemplate) {
    xml.text("launchTemplateId", &row.id);
    xml.text("launchTemplateName", &row.name);
    xml.text("defaultVersionNumber", 1);
    xml.text("latestVersionNumber", 1);
    xml.tags(&row.tags);
}

pub(super) async fn create_template(shared: &Shared, form: &Form) -> Result<Reply, Failure> {
    let (cloud, tokens) = (&shared.cloud, &shared.templates);
    let token = form.owned("ClientToken");
    let before = lock(tokens).get(&token).cloned();
    let made = match before {
        Some(template) => template,
        None => cloud.create_launch_template(&template::request(form, &specified(form, "launch-template"))).await?,
    };
    lock(&shared.launch_tags).add_template(&made.name, form);
    if !token.is_empty() {
        lock(tokens).insert(token, made.clone());
    }
    let body = Xml::response("CreateLaunchTemplate", |xml| {
        xml.element("launchTemplate", |xml| described(xml, &made));
    });
    Ok(Reply { body, summary: made.id })
}

/// Returns the tags of a request for resources of `kind`.
fn specified(form: &Form, kind: &str) -> Tags {
    let specifications = form.list("TagSpecification");
    specifications
        .iter()
        .find(|specification| specification.text("ResourceType") == kind)
        .map(tags_of)
        .unwrap_or_default()
}

pub(super) async fn delete_template(cloud: &dyn Cloud, form: &Form) -> Result<Reply, Failure> {
    let name = form.text("LaunchTemplateName");
    cloud.delete_launch_template(name).await?;
    let body = Xml::response("DeleteLaunchTemplate", |xml| {
        xml.element("launchTemplate", |xml| xml.text("launchTemplateName", name));
    });
    Ok(Reply { body, summary: "deleted".to_owned() })
}

pub(super) async fn create_fleet(shared: &Shared, form: &Form) -> Result<Reply, Failure> {
    let request = fleet_request(form)?;
    let answer = shared.cloud.create_fleet(&request).await?;
    for launched in &answer.instances {
        let machine = shared.cloud.machine(&launched.id);
        let template = machine.map(|machine| machine.template.name).unwrap_or_default();
        lock(&shared.launch_tags).add_instance(&launched.id, &template, form);
    }
    let summary = summary(&answer);
    let body = Xml::response("CreateFleet", |xml| fleet(xml, &answer));
    Ok(Reply { body, summary })
}

/// Runs the dry run of CreateFleet; EC2 reports its success as an error, too.
pub(super) async fn rehearse_fleet(cloud: &dyn Cloud, form: &Form) -> Result<Reply, Failure> {
    cloud.dry_run_create_fleet(&fleet_request(form)?).await?;
    Err(dry_run())
}

pub(super) async fn probe(cloud: &dyn Cloud, form: &Form) -> Result<Reply, Failure> {
    let probe = RunInstancesProbe {
        launch_template: form.owned("LaunchTemplate.LaunchTemplateName"),
        instance_type: form.owned("InstanceType"),
        subnet_id: form.owned("NetworkInterface.1.SubnetId"),
        tags: specified(form, "instance"),
    };
    cloud.dry_run_run_instances(&probe).await?;
    Err(dry_run())
}

fn summary(answer: &FleetAnswer) -> String {
    let launched = answer.instances.iter().map(|one| format!("{} {} {}", one.id, one.instance_type, one.zone));
    let refused = answer.errors.iter().map(|one| format!("{} {} {}", one.code, one.instance_type, one.zone));
    launched.chain(refused).collect::<Vec<_>>().join(", ")
}

fn fleet_request(form: &Form) -> Result<FleetRequest, Failure> {
    if form.text("Type") != "instant" {
        return Err(invalid("InvalidParameterValue", "only fleets of type instant are known here".to_owned()));
    }
    let capacity = form.at("TargetCapacitySpecification");
    let Some(target) = capacity.read("TotalTargetCapacity") else {
        return Err(invalid("MissingParameter", "TotalTargetCapacity is missing or negative".to_owned()));
    };
    let default = capacity.text("DefaultTargetCapacityType");
    let mut configs = Vec::new();
    for config in form.list("LaunchTemplateConfigs") {
        configs.push(fleet_config(&config)?);
    }
    Ok(FleetRequest {
        client_token: form.owned("ClientToken"),
        target,
        capacity_type: if default == "spot" { default.to_owned() } else { "on-demand".to_owned() },
        default_target_capacity_type: (!matches!(default, "spot" | "on-demand")).then(|| default.to_owned()),
        reserved_capacity_types: form.texts("ReservedCapacityOptions.ReservationType"),
        configs,
        tags: specified(form, "instance"),
        context: form.get("Context").map(str::to_owned),
        prioritized: is_prioritized(form),
    })
}

/// Reports whether the strategy for the requested capacity type uses the priorities of the overrides.
fn is_prioritized(form: &Form) -> bool {
    let strategy = |options: &str| form.at(options).owned("AllocationStrategy");
    strategy("SpotOptions") == "capacity-optimized-prioritized" || strategy("OnDemandOptions") == "prioritized"
}

fn fleet_config(config: &Form) -> Result<FleetConfig, Failure> {
    let template = config.at("LaunchTemplateSpecification");
    if template.text("Version") != "$Latest" {
        return Err(invalid("InvalidLaunchTemplateId.VersionNotFound", "only $Latest is known here".to_owned()));
    }
    let overrides = config.list("Overrides");
    Ok(FleetConfig {
        launch_template: template.owned("LaunchTemplateName"),
        overrides: overrides.iter().map(fleet_override).collect(),
    })
}

fn fleet_override(choice: &Form) -> FleetOverride {
    FleetOverride {
        instance_type: choice.owned("InstanceType"),
        zone: choice.owned("AvailabilityZone"),
        subnet_id: choice.owned("SubnetId"),
        image_id: choice.owned("ImageId"),
        priority: choice.read::<f64>("Priority").unwrap_or_default() as i64,
    }
}

fn fleet(xml: &mut Xml, answer: &FleetAnswer) {
    xml.text("fleetId", &answer.fleet_id);
    xml.items("errorSet", &answer.errors, |xml, error| {
        let pool =
            [("instanceType", &error.instance_type), ("availabilityZone", &error.zone), ("subnetId", &error.subnet_id)];
        pool_used(xml, &pool);
        xml.text("lifecycle", &error.lifecycle);
        xml.text("errorCode", &error.code);
        xml.text("errorMessage", &error.message);
    });
    xml.items("fleetInstanceSet", &answer.instances, |xml, instance| {
        let pool = [
            ("instanceType", &instance.instance_type),
            ("availabilityZone", &instance.zone),
            ("subnetId", &instance.subnet_id),
            ("imageId", &instance.image_id),
        ];
        pool_used(xml, &pool);
        xml.text("lifecycle", &instance.lifecycle);
        xml.texts("instanceIds", [&instance.id]);
        xml.text("instanceType", &instance.instance_type);
    });
}

fn pool_used(xml: &mut Xml, fields: &[(&str, &String)]) {
    xml.element("launchTemplateAndOverrides", |xml| {
        xml.element("overrides", |xml| {
            for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
                xml.text(name, value);
            }
        });
    });
}
