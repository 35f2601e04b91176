//! Name of the node in a VPC whose DHCP options have domain names of their own. EKS knows the node by EC2's private DNS name.

use agent::bootstrap::{Bootstrap, BootstrapState};

use crate::imds::FakeImds;
use crate::nodeadm::ec2::{FakeEc2, Fault, NAME};
use crate::test_host::{TestHost, USER_DATA, metadata};

/// Machine with its metadata and its EC2.
struct NamedHost {
    test_host: TestHost,
    imds: FakeImds,
    ec2: FakeEc2,
}

impl NamedHost {
    /// Creates a machine with these host names in metadata.
    async fn new(host_names: &str, user_data: &str) -> Self {
        let (imds, ec2) = (FakeImds::start(metadata(user_data)).await, FakeEc2::start().await);
        imds.set("meta-data/local-hostname", host_names);
        Self { test_host: TestHost::new("v1.36.0"), imds, ec2 }
    }

    fn bootstrap(&self) -> Bootstrap {
        let environment = [
            ("AWS_ENDPOINT_URL", self.ec2.url()),
            ("AWS_ACCESS_KEY_ID", "AKIDTEST".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
        Bootstrap { environment, ..self.test_host.bootstrap(&self.imds.endpoint) }
    }
}

#[tokio::test]
async fn bootstrap_names_the_node_as_ec2_in_any_dhcp_domain() {
    let own = "ip-172-16-34-43.us-west-2.compute.internal";
    let by_id = "i-1234567890abcdef0.us-west-2.compute.internal";
    assert_eq!(NAME, own);
    for (host_names, expected, calls) in [
        ("ip-172-16-34-43.corp.example", own, 1),
        ("ip-172-16-34-43.corp.example ip-172-16-34-43.us-west-2.compute.internal", own, 0),
        ("ip-172-16-34-43", own, 1),
        ("ip-172-16-34-43.us-west-2.compute.internal ip-172-16-34-43.corp.example", own, 0),
        ("ip-172-16-34-43.ec2.internal", own, 1),
        (own, own, 0),
        (by_id, by_id, 0),
    ] {
        let named = NamedHost::new(host_names, USER_DATA).await;
        let plan = named.bootstrap().run().await.plan().unwrap();
        assert_eq!(plan.node_name, expected, "{host_names}");
        let flag = format!("--hostname-override={expected}");
        let has_flag = |text: &str| text.split_whitespace().any(|word| word.trim_matches('"') == flag);
        assert!(plan.files.iter().any(|file| has_flag(&String::from_utf8_lossy(&file.content))), "{host_names}");
        let requests = named.ec2.requests();
        let asked = requests.iter().filter(|request| request.contains("Action=DescribeInstances&")).count();
        assert_eq!(asked, calls, "{host_names}: {requests:?}");
    }
}

#[tokio::test]
async fn bootstrap_waits_when_ec2_refuses_to_return_the_name() {
    let named = NamedHost::new("ip-172-16-34-43.corp.example", USER_DATA).await;
    named.ec2.fail(&vec![Fault::Refuse(403, "UnauthorizedOperation"); 3]);
    let bootstrap = named.bootstrap();
    let refused = bootstrap.attempt(&mut agent::bootstrap::timeline::Timeline::default()).await.unwrap_err();
    let reason = format!("{refused:#}");
    assert!(reason.starts_with("metadata has the host name ip-172-16-34-43.corp.example, which is not in"), "{reason}");
    assert!(reason.contains("allow ec2:DescribeInstances"), "{reason}");
    assert_eq!(named.test_host.systemctl_calls(), Vec::<String>::new(), "kubelet does not start under another name");
    assert_eq!(bootstrap.run().await.node_name(), NAME);
    assert!(matches!(named.test_host.state(), BootstrapState::Done { .. }));
}

#[tokio::test]
async fn bootstrap_asks_ec2_for_no_name_when_the_id_is_the_name() {
    let user_data = USER_DATA.replace("spec:\n", "spec:\n  featureGates: {InstanceIdNodeName: true}\n");
    let named = NamedHost::new("ip-172-16-34-43.corp.example", &user_data).await;
    let plan = named.bootstrap().run().await.plan().unwrap();
    assert_eq!(plan.node_name, "i-1234567890abcdef0");
    assert_eq!(named.ec2.requests(), Vec::<String>::new());
}
