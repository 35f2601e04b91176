//! `controller/rights`: linted, then created in moto by CloudFormation and, if available, by Terraform. The resulting account
//! matches the tables of `cloud::policy`. The controller can read the messages that the rules send.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use aws::AwsCloud;
use cloud::Cloud;
use cloud::policy::{NODE_POLICIES, Policy, RETENTION, RULES, Rule};
use controller::informer::interruption::message::{Message, parse};
use serde_json::{Value, json};
use testbed::linters;
use testbed::process::keep_on_loopback;

use super::moto::Moto;
use super::{REGION, settings};

const ACCOUNT: &str = "123456789012";
const CLUSTER: &str = "kerf";

fn rights() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../controller/rights")
}

fn filled(text: &str) -> String {
    let placeholders = [
        ("${CLUSTER}", CLUSTER),
        ("${REGION}", REGION),
        ("${ACCOUNT}", ACCOUNT),
        ("${PARTITION}", "aws"),
        ("${NODE_ROLE}", "KarpenterNodeRole-kerf"),
        ("${QUEUE}", CLUSTER),
    ];
    placeholders.iter().fold(text.to_owned(), |text, (placeholder, word)| text.replace(placeholder, word))
}

fn document(policy: Policy) -> Value {
    serde_json::from_str(&filled(&serde_json::to_string(&policy.document()).unwrap())).unwrap()
}

/// Runs a program with moto's credentials; returns its output.
fn run(command: &mut Command) -> String {
    let keys = [("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test"), ("AWS_DEFAULT_REGION", REGION)];
    keep_on_loopback(command);
    let output = command.envs(keys).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}{errors}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout).unwrap()
}

fn script(name: &str) -> Command {
    let mut command = Command::new(linters::python_programs("moto").unwrap().join("python3"));
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("rights").join(name));
    command
}

fn facts(url: &str) -> Value {
    serde_json::from_str(&run(script("facts.py").arg(url))).unwrap()
}

fn stack(url: &str, parameters: &[&str]) -> Value {
    let template = rights().join("cloudformation.yaml");
    // moto supports neither access entries nor pod identity associations.
    let mut command = script("stack.py");
    command.arg(url).arg(template).args(["ClusterName=kerf", "ClusterResources=false"]).args(parameters);
    serde_json::from_str(&run(&mut command)).unwrap()
}

/// Asserts the policies of the controller's role, for any tool that created it.
fn assert_policies(facts: &Value, policies: &[Policy]) {
    let names: Vec<String> = policies.iter().map(|policy| format!("{}-{CLUSTER}", policy.name())).collect();
    let mut attached = names.clone();
    attached.sort();
    assert_eq!(facts["roles"]["KarpenterControllerRole-kerf"]["policies"], json!(attached));
    assert_eq!(facts["policies"].as_object().unwrap().len(), names.len(), "nothing beside them");
    for (policy, name) in policies.iter().zip(&names) {
        assert_eq!(facts["policies"][name], document(*policy), "{name}");
    }
}

fn pattern(rule: &Rule) -> Value {
    let mut pattern = json!({"source": [rule.source], "detail-type": [rule.detail_type]});
    for (field, values) in rule.detail {
        pattern["detail"][*field] = json!(values);
    }
    pattern
}

fn assert_queue(facts: &Value) {
    let queue = &facts["queues"][0];
    assert_eq!(queue["QueueArn"], format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{CLUSTER}"));
    assert_eq!(queue["MessageRetentionPeriod"], RETENTION.to_string());
    assert_eq!(queue["SqsManagedSseEnabled"], "true");
    let rules = facts["rules"].as_array().unwrap();
    assert_eq!(rules.len(), RULES.len());
    for rule in RULES {
        let found = rules.iter().find(|found| found["pattern"] == pattern(rule));
        let found = found.unwrap_or_else(|| panic!("{}: no rule has its pattern", rule.name));
        assert_eq!(found["targets"], json!([queue["QueueArn"]]), "{}", rule.name);
    }
}

/// Returns a message detail that matches a rule.
fn detail(rule: &Rule) -> Value {
    let mut detail = json!({"instance-id": "i-1", "affectedEntities": [{"entityValue": "i-1"}]});
    for (field, values) in rule.detail {
        detail[*field] = json!(values[0]);
    }
    detail
}

#[test]
fn rights_pass_cfn_lint_and_policy_lint() {
    let programs = linters::python_programs("linters").unwrap();
    run(Command::new(programs.join("cfn-lint"))
        .arg("--non-zero-exit-code")
        .arg("informational")
        .arg(rights().join("cloudformation.yaml")));
    for policy in Policy::ALL {
        let mut command = Command::new(programs.join("python3"));
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("rights/lint.py"));
        let found = run(command.arg(document(policy).to_string()));
        assert_eq!(found.trim(), "[]", "{}", policy.name());
    }
}

#[tokio::test]
async fn cloudformation_creates_policies_and_queue_of_the_tables() {
    let moto = Moto::start().await.unwrap();
    let made = stack(&moto.url(), &["ZonalShift=true"]);
    assert_eq!(made["status"], "CREATE_COMPLETE");
    assert_eq!(made["outputs"]["QueueName"], CLUSTER);
    let facts = facts(&moto.url());
    assert_policies(&facts, &Policy::ALL);
    assert_queue(&facts);
    let trust = &facts["roles"]["KarpenterControllerRole-kerf"]["trust"]["Statement"][0];
    assert_eq!(trust["Principal"], json!({"Service": "pods.eks.amazonaws.com"}));
    let only = &trust["Condition"]["StringEquals"];
    assert_eq!(only["aws:RequestTag/eks-cluster-arn"], format!("arn:aws:eks:{REGION}:{ACCOUNT}:cluster/{CLUSTER}"));
    assert_eq!(only["aws:RequestTag/kubernetes-service-account"], "karpenter");
    let nodes = &facts["roles"]["KarpenterNodeRole-kerf"]["trust"]["Statement"][0];
    assert_eq!(nodes["Principal"], json!({"Service": "ec2.amazonaws.com"}));
    assert_eq!(made["outputs"]["NodeRoleName"], "KarpenterNodeRole-kerf");
    moto.stop().await.unwrap();
}

/// An account with other parameters: an OIDC provider, and no queue.
#[tokio::test]
async fn cloudformation_supports_irsa_and_omits_queue_when_disabled() {
    let moto = Moto::start().await.unwrap();
    let provider = "oidc.eks.us-west-2.amazonaws.com/id/AB";
    let made = stack(&moto.url(), &["Identity=IRSA", &format!("OidcProvider={provider}"), "InterruptionQueue=false"]);
    assert!(made["outputs"].get("QueueName").is_none(), "{made}");
    let facts = facts(&moto.url());
    let optional = [Policy::Interruption, Policy::ZonalShift];
    let others: Vec<Policy> = Policy::ALL.into_iter().filter(|policy| !optional.contains(policy)).collect();
    assert_policies(&facts, &others);
    assert_eq!((&facts["queues"], &facts["rules"]), (&json!([]), &json!([])));
    let trust = &facts["roles"]["KarpenterControllerRole-kerf"]["trust"]["Statement"][0];
    assert_eq!(trust["Principal"]["Federated"], format!("arn:aws:iam::{ACCOUNT}:oidc-provider/{provider}"));
    let only = json!({
        format!("{provider}:aud"): "sts.amazonaws.com",
        format!("{provider}:sub"): "system:serviceaccount:kube-system:karpenter",
    });
    assert_eq!(trust["Condition"]["StringEquals"], only);
    moto.stop().await.unwrap();
}

/// The Terraform module creates the same, if `terraform` is on the path and the provider's mirror is in
/// `KERF_TERRAFORM_PLUGINS`. No package registry has either of them, so `make e2e` reports a skipped test.
#[tokio::test]
#[ignore = "run by make e2e"]
async fn terraform_creates_policies_and_queue_of_the_tables() {
    let Some((terraform, plugins)) = linters::on_path("terraform").zip(std::env::var_os("KERF_TERRAFORM_PLUGINS"))
    else {
        skip::report("no terraform on the path, or KERF_TERRAFORM_PLUGINS is not set");
        return;
    };
    let moto = Moto::start_with_managed_policies().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("main.tf"), terraform_root(&moto.url())).unwrap();
    let run_in = |arguments: &[&OsStr]| {
        let mut command = Command::new(&terraform);
        command.args(arguments).current_dir(folder.path());
        run(command.env("TF_CLI_CONFIG_FILE", "/dev/null").env("CHECKPOINT_DISABLE", "1").env("TF_IN_AUTOMATION", "1"))
    };
    let mut plugin_folder = OsString::from("-plugin-dir=");
    plugin_folder.push(plugins);
    run_in(&["init".as_ref(), &plugin_folder]);
    run_in(&["validate".as_ref()]);
    run_in(&["apply".as_ref(), "-auto-approve".as_ref()]);
    let facts = facts(&moto.url());
    assert_policies(&facts, &Policy::ALL);
    assert_queue(&facts);
    let mut expected: Vec<&str> = NODE_POLICIES.iter().map(|policy| policy.name).collect();
    expected.sort_unstable();
    assert_eq!(facts["roles"]["KarpenterNodeRole-kerf"]["policies"], json!(expected));
    moto.stop().await.unwrap();
}

/// Returns a root module that uses Kerf's module, with a provider that sends its requests to moto.
fn terraform_root(url: &str) -> String {
    let endpoints: String =
        ["ec2", "eks", "events", "iam", "sqs", "sts"].map(|service| format!("    {service} = \"{url}\"\n")).concat();
    let module = rights().join("terraform");
    format!(
        "provider \"aws\" {{\n  region = \"{REGION}\"\n  skip_credentials_validation = true\n  skip_metadata_api_check = true\n  \
         endpoints {{\n{endpoints}  }}\n}}\nmodule \"rights\" {{\n  source = \"{}\"\n  cluster_name = \"{CLUSTER}\"\n  \
         cluster_resources = false\n  zonal_shift = true\n}}\n",
        module.display()
    )
}

/// Messages of EC2 and AWS Health pass through rule and queue to the parser of the controller. Messages without relevance do
/// not reach the queue.
#[tokio::test]
async fn rules_send_messages_that_the_controller_parses() {
    let moto = Moto::start().await.unwrap();
    stack(&moto.url(), &[]);
    let cloud = AwsCloud::connect(&settings(&moto.url())).await;
    let queue = cloud.queue_url(CLUSTER).await.unwrap();
    let publish = |source: &str, detail_type: &str, detail: Value| {
        run(script("notice.py").args([&moto.url(), source, detail_type, &detail.to_string()]));
    };
    publish("aws.ec2", "EC2 Instance State-change Notification", json!({"instance-id": "i-1", "state": "running"}));
    publish("aws.health", "AWS Health Event", json!({"service": "RDS", "eventTypeCategory": "scheduledChange"}));
    let queued = &facts(&moto.url())["queues"][0]["ApproximateNumberOfMessages"];
    assert_eq!(queued, "0", "nothing that ends no instance");
    for rule in RULES {
        publish(rule.source, rule.detail_type, detail(rule));
        let messages = cloud.receive_messages(&queue).await.unwrap();
        let [message] = messages.as_slice() else { panic!("{}: {messages:?}", rule.name) };
        let read = parse(&message.body).unwrap();
        assert!(matches!(&read, Message::Notice { instances, .. } if instances == &["i-1"]), "{}: {read:?}", rule.name);
        cloud.delete_messages(&queue, std::slice::from_ref(&message.receipt)).await.unwrap();
    }
    moto.stop().await.unwrap();
}
