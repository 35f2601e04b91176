//! Moto server for one test: installed once into a cache, started on a free loopback port, stopped by pid.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use aws::AwsCloud;
use cloud::contract::Abilities;
use cloud::{
    Call, CapacityReservation, Cloud, CloudError, ClusterDescription, ErrorKind, Filter, FleetAnswer, FleetRequest,
    Image, Instance, InstanceProfile, InstanceProfileRequest, InstanceStatus, InstanceTypeInfo, LaunchTemplate,
    LaunchTemplateRequest, OnDemandPrice, PlacementGroup, PlacementGroupQuery, QueueMessage, ReservationFilter,
    RunInstancesProbe, SecurityGroup, SpotPrice, Subnet, Tags, TypeOffering, ZonalShift,
};
use http::Request;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use testbed::eventually;
use testbed::linters;
use testbed::process::{Process, RunFolder};
use tokio::net::TcpStream;

use super::REGION;

/// Time limit for the start of moto. moto listens after a second, and Python can be slow on a busy machine.
const START: Duration = Duration::from_secs(60);

const GRACE: Duration = Duration::from_secs(5);

/// Name pattern of an image that moto contains.
const IMAGE: &str = "al2023-ami-2023*-kernel-*-x86_64";

pub struct Moto {
    process: Process,
    url: String,
    folder: RunFolder,
}

impl Moto {
    /// Installs moto when it is missing (once, for minutes), and starts moto.
    pub async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    /// Starts a server with Amazon's managed policies, which takes some seconds more.
    pub async fn start_with_managed_policies() -> Result<Self> {
        Self::start_with(&[("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")]).await
    }

    async fn start_with(environment: &[(&str, &str)]) -> Result<Self> {
        let program = tokio::task::spawn_blocking(install).await??;
        let folder = RunFolder::create("moto")?;
        let mut command = Command::new(program);
        // With port 0 the kernel selects the port, and the log of the server contains it.
        command.args(["-H", "127.0.0.1", "-p", "0"]).envs(environment.iter().copied());
        let mut process = Process::spawn("moto", command, &folder.log("moto"))?;
        let url = eventually("moto to listen", START, async || {
            ensure!(process.ended()?.is_none(), "{}", process.exit_report());
            Ok(listening(&process.log_tail(20)))
        })
        .await?;
        Ok(Self { process, url, folder })
    }

    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Tags moto's default network, and returns the ids that a launch needs.
    pub async fn furnish(&self, cloud: &dyn Cloud) -> Result<Abilities> {
        let tags: Tags = [("karpenter.sh/discovery".to_owned(), "kerf".to_owned())].into();
        let subnets = cloud.subnets(&Filter::default()).await?;
        let groups = cloud.security_groups(&Filter::default()).await?;
        let ids: Vec<String> =
            subnets.into_iter().map(|subnet| subnet.id).chain(groups.into_iter().map(|group| group.id)).collect();
        cloud.create_tags(&ids, &tags).await?;
        let images = cloud.images(&Filter { names: vec![IMAGE.to_owned()], ..Filter::default() }).await?;
        let Some(image) = images.into_iter().next() else { bail!("moto has no image called {IMAGE}") };
        Ok(Abilities {
            name: "kerf-contract".to_owned(),
            network_tags: tags,
            image_id: image.id,
            parameter: "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64".to_owned(),
            spot_prices: true,
            fleet_priorities: false,
            fleet_tokens: false,
            exhausted_spot_type: None,
            template_network: false,
        })
    }

    /// Creates an IAM role that every principal may assume.
    pub async fn create_role(&self, name: &str) -> Result<()> {
        let form = format!("Action=CreateRole&Version=2010-05-08&RoleName={name}&AssumeRolePolicyDocument=%7B%7D");
        self.post("iam", "/", &[("content-type", "application/x-www-form-urlencoded")], form).await
    }

    /// Creates an EKS cluster.
    pub async fn create_cluster(&self, name: &str, cidr: &str) -> Result<()> {
        let role = "arn:aws:iam::123456789012:role/nodes";
        let network = json!({"serviceIpv4Cidr": cidr});
        let subnets = json!({"subnetIds": []});
        let cluster = json!({
            "name": name, "roleArn": role, "resourcesVpcConfig": subnets, "kubernetesNetworkConfig": network,
        });
        self.post("eks", "/clusters", &[("content-type", "application/json")], cluster.to_string()).await
    }

    /// Calls an SQS operation that Kerf itself never calls.
    pub async fn sqs(&self, operation: &str, input: Value) -> Result<()> {
        let target = format!("AmazonSQS.{operation}");
        let headers = [("content-type", "application/x-amz-json-1.0"), ("x-amz-target", target.as_str())];
        self.post("sqs", "/", &headers, input.to_string()).await
    }

    /// Sends a request. moto reads only service and region of a signature.
    async fn post(&self, service: &str, path: &str, headers: &[(&str, &str)], body: String) -> Result<()> {
        let scope = format!("Credential=test/20260101/{REGION}/{service}/aws4_request");
        let signature = format!("AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=none");
        let address = self.url.trim_start_matches("http://");
        let mut request = Request::post(path).header("host", address).header("authorization", signature);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let stream = TokioIo::new(TcpStream::connect(address).await?);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
        let connection = tokio::spawn(connection);
        let answer = sender.send_request(request.body(Full::new(Bytes::from(body)))?).await?;
        connection.abort();
        ensure!(answer.status().is_success(), "moto answers {} to {service}", answer.status());
        Ok(())
    }

    pub async fn stop(mut self) -> Result<()> {
        self.process.stop(GRACE).await?;
        drop(self.folder);
        Ok(())
    }
}

/// Returns the address from the line that the server prints when it listens.
fn listening(log: &str) -> Option<String> {
    let (_, rest) = log.split_once("Running on ")?;
    rest.split_whitespace().next().map(str::to_owned)
}

/// Returns the path of the server, which is installed when it is missing.
fn install() -> Result<PathBuf> {
    Ok(linters::python_programs("moto")?.join("moto_server"))
}

/// moto with one error corrected. For a missing launch template EC2 reports that the template does not exist, but moto reports
/// a missing parameter. Every other call passes unchanged.
pub struct Translated(pub AwsCloud);

impl Cloud for Translated {
    fn delete_launch_template<'a>(&'a self, name: &'a str) -> Call<'a, ()> {
        let not_found = |error: CloudError| match error.code.as_str() {
            "MissingParameter" => CloudError { kind: ErrorKind::NotFound, ..error },
            _ => error,
        };
        Box::pin(async move { self.0.delete_launch_template(name).await.map_err(not_found) })
    }

    fn instance_types(&self) -> Call<'_, Vec<InstanceTypeInfo>> {
        self.0.instance_types()
    }

    fn type_offerings(&self) -> Call<'_, Vec<TypeOffering>> {
        self.0.type_offerings()
    }

    fn spot_prices(&self) -> Call<'_, Vec<SpotPrice>> {
        self.0.spot_prices()
    }

    fn subnets<'a>(&'a self, filter: &'a Filter) -> Call<'a, Vec<Subnet>> {
        self.0.subnets(filter)
    }

    fn security_groups<'a>(&'a self, filter: &'a Filter) -> Call<'a, Vec<SecurityGroup>> {
        self.0.security_groups(filter)
    }

    fn images<'a>(&'a self, filter: &'a Filter) -> Call<'a, Vec<Image>> {
        self.0.images(filter)
    }

    fn parameter<'a>(&'a self, name: &'a str) -> Call<'a, Option<String>> {
        self.0.parameter(name)
    }

    fn launch_templates<'a>(&'a self, tags: &'a Tags) -> Call<'a, Vec<LaunchTemplate>> {
        self.0.launch_templates(tags)
    }

    fn create_launch_template<'a>(&'a self, request: &'a LaunchTemplateRequest) -> Call<'a, LaunchTemplate> {
        self.0.create_launch_template(request)
    }

    fn create_fleet<'a>(&'a self, request: &'a FleetRequest) -> Call<'a, FleetAnswer> {
        self.0.create_fleet(request)
    }

    fn instances<'a>(&'a self, tags: &'a Tags) -> Call<'a, Vec<Instance>> {
        self.0.instances(tags)
    }

    fn instances_by_id<'a>(&'a self, ids: &'a [String]) -> Call<'a, Vec<Instance>> {
        self.0.instances_by_id(ids)
    }

    fn terminate_instances<'a>(&'a self, ids: &'a [String]) -> Call<'a, ()> {
        self.0.terminate_instances(ids)
    }

    fn create_tags<'a>(&'a self, ids: &'a [String], tags: &'a Tags) -> Call<'a, ()> {
        self.0.create_tags(ids, tags)
    }

    fn on_demand_prices(&self) -> Call<'_, Vec<OnDemandPrice>> {
        self.0.on_demand_prices()
    }

    fn capacity_reservations<'a>(&'a self, filter: &'a ReservationFilter) -> Call<'a, Vec<CapacityReservation>> {
        self.0.capacity_reservations(filter)
    }

    fn placement_group<'a>(&'a self, query: &'a PlacementGroupQuery) -> Call<'a, Option<PlacementGroup>> {
        self.0.placement_group(query)
    }

    fn dry_run_create_fleet<'a>(&'a self, request: &'a FleetRequest) -> Call<'a, ()> {
        self.0.dry_run_create_fleet(request)
    }

    fn dry_run_run_instances<'a>(&'a self, probe: &'a RunInstancesProbe) -> Call<'a, ()> {
        self.0.dry_run_run_instances(probe)
    }

    fn instance_statuses(&self) -> Call<'_, Vec<InstanceStatus>> {
        self.0.instance_statuses()
    }

    fn instance_profile<'a>(&'a self, name: &'a str) -> Call<'a, Option<InstanceProfile>> {
        self.0.instance_profile(name)
    }

    fn instance_profiles<'a>(&'a self, path_prefix: &'a str) -> Call<'a, Vec<InstanceProfile>> {
        self.0.instance_profiles(path_prefix)
    }

    fn create_instance_profile<'a>(&'a self, request: &'a InstanceProfileRequest) -> Call<'a, ()> {
        self.0.create_instance_profile(request)
    }

    fn add_role_to_instance_profile<'a>(&'a self, profile: &'a str, role: &'a str) -> Call<'a, ()> {
        self.0.add_role_to_instance_profile(profile, role)
    }

    fn remove_role_from_instance_profile<'a>(&'a self, profile: &'a str, role: &'a str) -> Call<'a, ()> {
        self.0.remove_role_from_instance_profile(profile, role)
    }

    fn delete_instance_profile<'a>(&'a self, name: &'a str) -> Call<'a, ()> {
        self.0.delete_instance_profile(name)
    }

    fn cluster<'a>(&'a self, name: &'a str) -> Call<'a, ClusterDescription> {
        self.0.cluster(name)
    }

    fn zonal_shifts<'a>(&'a self, cluster_arn: &'a str) -> Call<'a, Vec<ZonalShift>> {
        self.0.zonal_shifts(cluster_arn)
    }

    fn queue_url<'a>(&'a self, name: &'a str) -> Call<'a, String> {
        self.0.queue_url(name)
    }

    fn receive_messages<'a>(&'a self, url: &'a str) -> Call<'a, Vec<QueueMessage>> {
        self.0.receive_messages(url)
    }

    fn delete_messages<'a>(&'a self, url: &'a str, receipts: &'a [String]) -> Call<'a, Vec<String>> {
        self.0.delete_messages(url, receipts)
    }
}
