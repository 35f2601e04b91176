//! EC2 client for the two facts of a boot that only EC2 has. The facts are the private DNS name of the instance, and the
//! interface limits of a type that our table lacks. Requests are signed and sent without AWS's SDK, which would be many times
//! the size of this program.

pub mod auto_scaling;
mod connection;
pub mod error;
pub mod proxy;
pub mod xml;

use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use jiff::Timestamp;
use machine::pods::{self, InterfaceLimits};

use crate::aws::identity::signing::{self, Keys, Signer};
use crate::aws::identity::{Role, sts};
use crate::aws::imds::Imds;
use crate::aws::imds::backoff::Backoff;
use crate::host::Host;
use crate::host::environment::Environment;
use connection::ServerRoute;
use proxy::Server;

pub use error::Ec2Error;

/// An AWS service with EC2's query protocol.
#[derive(Debug, Clone, Copy)]
struct Service {
    /// Name in host names and signatures.
    name: &'static str,
    version: &'static str,
    /// Environment variable that names another endpoint.
    endpoint: &'static str,
}

const EC2: Service = Service { name: "ec2", version: "2016-11-15", endpoint: "AWS_ENDPOINT_URL_EC2" };
const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";
const MAX_ATTEMPTS: &str = "AWS_MAX_ATTEMPTS";

/// Retry limits of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ec2Retries {
    /// Time limit for one exchange.
    pub exchange: Duration,
    /// Greatest number of attempts of a request, unless `AWS_MAX_ATTEMPTS` is set.
    pub attempts: u32,
    /// Delays between attempts.
    pub backoff: Backoff,
    /// Delays between requests for a name while EC2 responds without a name.
    pub naming: Backoff,
    /// Total time limit for the name.
    pub limit: Duration,
}

impl Ec2Retries {
    /// Returns the limits of EKS's bootstrap: 30 attempts of 30 s. The delays for the name start at 15 s and grow to 2 min, 10
    /// min in all.
    #[must_use]
    pub const fn nodeadm(seed: u64) -> Self {
        let seconds = Duration::from_secs;
        Self {
            exchange: seconds(30),
            attempts: 30,
            backoff: Backoff { start: seconds(1), ceiling: seconds(20), seed },
            naming: Backoff { start: seconds(30), ceiling: seconds(120), seed },
            limit: seconds(600),
        }
    }

    /// Returns limits for optional data: two attempts of 3 s.
    #[must_use]
    pub const fn brief(seed: u64) -> Self {
        Self { exchange: Duration::from_secs(3), attempts: 2, ..Self::nodeadm(seed) }
    }

    /// Returns limits for a caller that repeats the whole request: two attempts of 5 s, 20 s in all for the name.
    #[must_use]
    pub const fn repeated(seed: u64) -> Self {
        let seconds = Duration::from_secs;
        Self {
            exchange: seconds(5),
            attempts: 2,
            naming: Backoff { start: seconds(1), ceiling: seconds(5), seed },
            limit: seconds(20),
            ..Self::nodeadm(seed)
        }
    }

    /// Returns the number of attempts of one request in this environment.
    ///
    /// # Errors
    /// [`Ec2Error::Variable`] when `AWS_MAX_ATTEMPTS` is no number from 1 on.
    pub fn attempts_in(&self, environment: &Environment) -> Result<u32, Ec2Error> {
        let Some(text) = environment.get(MAX_ATTEMPTS) else { return Ok(self.attempts) };
        let unusable = || Ec2Error::Variable { name: MAX_ATTEMPTS.to_owned(), cure: "write a number from 1 on" };
        text.parse().ok().filter(|attempts| *attempts > 0).ok_or_else(unusable)
    }

    /// Returns the least time after which `attempts` exchanges without a response fail.
    #[must_use]
    pub fn shortest(&self, attempts: u32) -> Duration {
        let waits: Duration = (0..attempts.saturating_sub(1)).map(|attempt| self.backoff.delay(attempt)).sum();
        self.exchange * attempts + waits
    }
}

/// Client for EC2 of one region.
#[derive(Debug)]
pub struct Ec2<'a> {
    service: Service,
    region: &'a str,
    environment: &'a Environment,
    host: &'a Host,
    role: Role,
    patience: Ec2Retries,
}

impl<'a> Ec2<'a> {
    /// Returns a client for `region`. Its credentials are those of the environment, else those of the instance's role.
    #[must_use]
    pub fn new(
        region: &'a str,
        environment: &'a Environment,
        host: &'a Host,
        imds: Arc<Imds>,
        patience: Ec2Retries,
    ) -> Self {
        Self { service: EC2, region, environment, host, role: Role::new(imds), patience }
    }

    /// Returns the private DNS name of an instance. Repeats the request until EC2 has a name.
    ///
    /// # Errors
    /// [`Ec2Error`]; [`Ec2Error::Unnamed`] when EC2 has no name in time.
    pub async fn private_dns_name(&self, instance: &str) -> Result<String, Ec2Error> {
        let asking = tokio::time::timeout(self.patience.limit, self.ask_for_name(instance)).await;
        let unnamed = |_| Ec2Error::Unnamed { instance: instance.to_owned(), after: self.patience.limit };
        asking.map_err(unnamed)?
    }

    async fn ask_for_name(&self, instance: &str) -> Result<String, Ec2Error> {
        const ACTION: &str = "DescribeInstances";
        const PATH: [&str; 6] =
            ["DescribeInstancesResponse", "reservationSet", "item", "instancesSet", "item", "privateDnsName"];
        let mut attempt = 0;
        loop {
            match self.call(ACTION, &[("InstanceId.1", instance)]).await {
                Ok(answer) => {
                    let names = xml::texts(&answer, &PATH);
                    let names = names.ok_or(Ec2Error::Content { action: ACTION, expected: "instances" })?;
                    if let Some(name) = names.into_iter().find(|name| !name.is_empty()) {
                        return Ok(name);
                    }
                    log::info!(attempt, instance_id = instance; "EC2 has no private DNS name yet");
                }
                Err(error) if error.is_unknown_instance() => {
                    log::info!(attempt, instance_id = instance; "EC2 does not list the instance yet")
                }
                Err(error) => return Err(error),
            }
            tokio::time::sleep(self.patience.naming.delay(attempt)).await;
            attempt += 1;
        }
    }

    /// Returns the interface limits of an instance type.
    ///
    /// # Errors
    /// [`Ec2Error`].
    pub async fn interface_limits(&self, instance_type: &str) -> Result<InterfaceLimits, Ec2Error> {
        const ACTION: &str = "DescribeInstanceTypes";
        let answer = self.call(ACTION, &[("InstanceType.1", instance_type)]).await?;
        limits(&answer).ok_or(Ec2Error::Content { action: ACTION, expected: "the limits of one instance type" })
    }

    /// Returns the limits of an instance type that our own table lacks; `None` where the table has it. Logs a warning and
    /// returns `None` where EC2 does not return limits: the node then has the default number of pods.
    pub async fn unknown_limits(&self, instance_type: &str) -> Option<InterfaceLimits> {
        if pods::interface_limits(instance_type).is_some() {
            return None;
        }
        let refused = |error: &Ec2Error| {
            let (most, why) = (pods::DEFAULT_MAX_PODS, daemon::error::chain(error));
            log::warn!(instance_type = instance_type, max_pods = most, error = why.as_str(); "unknown instance type");
        };
        self.interface_limits(instance_type).await.inspect_err(refused).ok()
    }

    /// Sends a request until it is answered or its attempts are used up.
    async fn call(&self, action: &'static str, parameters: &[(&str, &str)]) -> Result<String, Ec2Error> {
        let server = self.server()?;
        let attempts = self.patience.attempts_in(self.environment)?;
        let mut attempt = 0;
        loop {
            let asked = tokio::time::timeout(self.patience.exchange, self.ask(&server, action, parameters)).await;
            let late = |_| Ec2Error::Timeout { server: server.authority(true), timeout: self.patience.exchange };
            let error = match asked.map_err(late).and_then(|answer| answer) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if !error.may_pass() || attempt + 1 >= attempts {
                return Err(error);
            }
            log::warn!(attempt, error = daemon::error::chain(&error).as_str(); "retrying EC2");
            tokio::time::sleep(self.patience.backoff.delay(attempt)).await;
            attempt += 1;
        }
    }

    async fn ask(
        &self,
        server: &Server,
        action: &'static str,
        parameters: &[(&str, &str)],
    ) -> Result<String, Ec2Error> {
        let proxy = proxy::on_the_way(self.environment, server)?;
        let mut body = format!("Action={action}&Version={}", self.service.version);
        for (name, value) in parameters {
            body.push_str(&format!("&{}={}", signing::encode(name), signing::encode(value)));
        }
        let request = self.signed(server, body).await?;
        let way =
            ServerRoute { server, proxy: proxy.as_ref(), bundle: connection::bundle(self.environment, self.host) };
        let (status, answer) = way.exchange(request).await?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        if status.is_success() { Ok(answer) } else { Err(refused(action, status.as_u16(), &answer)) }
    }

    async fn signed(&self, server: &Server, body: String) -> Result<Request<Full<Bytes>>, Ec2Error> {
        let (keys, host) = (self.keys().await?, server.authority(false));
        let signer = Signer { keys: &keys, region: self.region, service: self.service.name };
        let unsigned = signing::Request {
            method: "POST",
            host: &host,
            path: "/",
            query: &[],
            headers: &[("content-type", FORM)],
            body: body.as_bytes(),
        };
        let mut request = Request::post("/").header("host", &host).header("content-type", FORM);
        for (name, value) in signer.headers(&unsigned, Timestamp::now()) {
            request = request.header(name, value);
        }
        let unusable = |_| Ec2Error::Variable { name: "AWS_ACCESS_KEY_ID".to_owned(), cure: "write plain text" };
        request.body(Full::new(Bytes::from(body))).map_err(unusable)
    }

    async fn keys(&self) -> Result<Keys, Ec2Error> {
        let variable = |name| self.environment.get(name).map(str::to_owned);
        if let (Some(access_key), Some(secret_key)) = (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"))
        {
            return Ok(Keys { access_key, secret_key, session_token: variable("AWS_SESSION_TOKEN") });
        }
        let credentials = self.role.credentials(Timestamp::now()).await.map_err(Ec2Error::Credentials)?;
        Ok(credentials.keys)
    }

    fn server(&self) -> Result<Server, Ec2Error> {
        for name in [self.service.endpoint, "AWS_ENDPOINT_URL"] {
            if let Some(url) = self.environment.get(name) {
                let unusable =
                    || Ec2Error::Variable { name: name.to_owned(), cure: "write https://HOST or http://HOST" };
                return Server::parse(url).ok_or_else(unusable);
            }
        }
        let fips = if self.environment.says_yes("AWS_USE_FIPS_ENDPOINT") { "-fips" } else { "" };
        let dual =
            self.environment.says_yes("AWS_USE_DUALSTACK_ENDPOINT") && sts::domain(self.region) == "amazonaws.com";
        let domain = if dual { "api.aws" } else { sts::domain(self.region) };
        Ok(Server { tls: true, host: format!("{}{fips}.{}.{domain}", self.service.name, self.region), port: 443 })
    }
}

fn refused(action: &'static str, status: u16, answer: &str) -> Ec2Error {
    let text = |name| {
        let at = |path: &[&str]| xml::texts(answer, path).and_then(|texts| texts.into_iter().next());
        let ec2s = at(&["Response", "Errors", "Error", name]);
        ec2s.or_else(|| at(&["ErrorResponse", "Error", name])).unwrap_or_default()
    };
    let message = match text("Message") {
        message if message.is_empty() => "no reason given".to_owned(),
        message => message,
    };
    Ec2Error::Refused { action, status, code: text("Code"), message }
}

/// Parses the number of interfaces of the default network card, and the IPv4 addresses of each interface.
fn limits(answer: &str) -> Option<InterfaceLimits> {
    let numbers = |path: &[&str]| -> Option<Vec<u32>> {
        let base = ["DescribeInstanceTypesResponse", "instanceTypeSet", "item", "networkInfo"];
        let texts = xml::texts(answer, &[&base[..], path].concat())?;
        texts.iter().map(|text| text.parse().ok()).collect()
    };
    let one = |name| numbers(&[name])?.first().copied();
    let default = one("defaultNetworkCardIndex").unwrap_or(0);
    let cards = numbers(&["networkCards", "item", "networkCardIndex"])?;
    let interfaces = numbers(&["networkCards", "item", "maximumNetworkInterfaces"])?;
    let of_default = cards.iter().zip(&interfaces).find(|(card, _)| **card == default).map(|(_, most)| *most);
    let interfaces = of_default.or_else(|| one("maximumNetworkInterfaces"))?;
    Some(InterfaceLimits { interfaces, ipv4_per_interface: one("ipv4AddressesPerInterface")? })
}
