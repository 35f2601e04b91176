//! The address of cluster DNS, from the Service kube-dns. Images of Amazon Linux 2 and Windows guess the address from the VPC, and
//! the guess is wrong in clusters with another service CIDR and in IPv6 clusters.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use daemon::backoff::RetryDelays;
use k8s_openapi::api::core::v1::Service;
use kube::{Api, Client};

use crate::capacity::offerings::Offerings;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "kube-dns";
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(60);
/// Interval between reads: the Service may be created after the controller.
const REFRESH: Duration = Duration::from_secs(60);

/// Returns the address at the start, with retries until the API server answers. Returns `None` without the Service or without
/// the permission to read it: then EC2NodeClasses and images decide.
pub async fn find(client: &Client) -> Option<String> {
    let mut delays = RetryDelays::new(FIRST_RETRY, LAST_RETRY);
    loop {
        match read(client).await {
            Ok(found) => {
                match &found {
                    Some(address) => tracing::info!(address = address.as_str(), "found cluster DNS"),
                    None => tracing::info!(
                        "no Service kube-system/kube-dns with an address: nodes use the DNS address of their EC2NodeClass or image"
                    ),
                }
                return found;
            }
            Err(error) => {
                let refused = is_refused(&error);
                tell(&error);
                if refused {
                    return None;
                }
                tokio::time::sleep(delays.next_delay()).await;
            }
        }
    }
}

/// Follows the address forever. New nodes use a new address; existing nodes keep theirs.
pub async fn follow(client: Client, offerings: Arc<Offerings>) {
    loop {
        tokio::time::sleep(REFRESH).await;
        match read(&client).await {
            Ok(found) => {
                let address = found.as_deref().unwrap_or_default().to_owned();
                if offerings.cluster().follow_dns(found) {
                    tracing::info!(address = address.as_str(), "cluster DNS changed");
                }
            }
            Err(error) => tell(&error),
        }
    }
}

/// Reads the cluster IP of the Service. Returns `None` if the Service does not exist or has no address, as a headless one.
async fn read(client: &Client) -> Result<Option<String>, kube::Error> {
    let services: Api<Service> = Api::namespaced(client.clone(), NAMESPACE);
    let address = services.get_opt(NAME).await?.and_then(|service| service.spec?.cluster_ip);
    Ok(address.filter(|text| text.parse::<IpAddr>().is_ok()))
}

/// Reports whether a repeated request would fail too.
fn is_refused(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 429)
}

fn tell(error: &kube::Error) {
    let hint = "allow get on Service kube-dns in kube-system, or set spec.kubelet.clusterDNS of EC2NodeClasses";
    let error = daemon::error::chain(error);
    tracing::warn!(error = error.as_str(), hint, "failed to read the address of cluster DNS");
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use parking_lot::Mutex;
    use serde_json::{Value, json};

    use super::find;

    /// Returns a client of an API server that gives these answers in order, and the paths of its requests.
    fn server(answers: Vec<(u16, Value)>) -> (Client, Arc<Mutex<Vec<String>>>) {
        let paths = Arc::new(Mutex::new(Vec::new()));
        let (seen, answers) = (Arc::clone(&paths), Mutex::new(VecDeque::from(answers)));
        let service = tower::service_fn(move |request: Request<Body>| {
            seen.lock().push(request.uri().path().to_owned());
            let (status, body) = answers.lock().pop_front().unwrap();
            std::future::ready(Response::builder().status(status).body(Body::from(body.to_string().into_bytes())))
        });
        (Client::new(service, "default"), paths)
    }

    fn service(cluster_ip: &str) -> (u16, Value) {
        let spec = json!({"clusterIP": cluster_ip, "clusterIPs": [cluster_ip, "fd00:10::b"]});
        (200, json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kube-dns"}, "spec": spec}))
    }

    fn failure(code: u16) -> (u16, Value) {
        (code, json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "", "code": code}))
    }

    /// Rows: answers of the API server, and the address. Each answer is requested once.
    #[tokio::test(start_paused = true)]
    async fn find_returns_the_cluster_ip_of_the_service() {
        let rows = [
            (vec![service("10.100.0.10")], Some("10.100.0.10")),
            (vec![service("fd00:10::a")], Some("fd00:10::a")),
            (vec![service("None")], None),
            (vec![failure(404)], None),
            (vec![failure(403)], None),
            (vec![failure(500), failure(429), service("10.0.0.10")], Some("10.0.0.10")),
        ];
        for (answers, expected) in rows {
            let (count, what) = (answers.len(), format!("{answers:?}"));
            let (client, paths) = server(answers);
            assert_eq!(find(&client).await.as_deref(), expected, "{what}");
            assert_eq!(*paths.lock(), vec!["/api/v1/namespaces/kube-system/services/kube-dns"; count], "{what}");
        }
    }
}
