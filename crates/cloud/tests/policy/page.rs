//! Text of `docs/iam.md`.

use std::fmt::Write as _;

use super::{CALLS, PLACEHOLDERS, Policy};

const INTRODUCTION: &str = r#"# IAM policies of the controller

Written from `crates/cloud/src/policy` by `make bless`. The policies allow the calls that Kerf makes and no others: a test fails
when a call has no statement or a statement no call, and when a launch lacks a tag that a statement asks for. Names are Karpenter's.

Attach them to the role that the controller's Pod runs as (EKS Pod Identity, or IAM roles for service accounts). The role of the
nodes is another one: it needs AmazonEKSWorkerNodePolicy, AmazonEC2ContainerRegistryPullOnly, AmazonEKS_CNI_Policy unless the CNI has
a role of its own, and AmazonSSMManagedInstanceCore if people should reach nodes through Session Manager.

`controller/rights` has all of this as a CloudFormation template and a Terraform module, with both roles and, if wanted, the queue with
its rules: written from the same tables. This page is for reading, and for other tools.

    aws cloudformation deploy --stack-name kerf-prod --template-file controller/rights/cloudformation.yaml \
      --parameter-overrides ClusterName=prod --capabilities CAPABILITY_NAMED_IAM

## How to fill them in

| placeholder | what it is |
|---|---|
"#;

const USE: &str = r#"
    export CLUSTER=prod REGION=us-west-2 ACCOUNT=123456789012 PARTITION=aws NODE_ROLE=KarpenterNodeRole-prod QUEUE=prod
    for part in NodeLifecycle IAMIntegration EKSIntegration Interruption ResourceDiscovery; do
      name="KarpenterController${part}Policy"
      awk -v name="$name" '/^## /{on = index($0, name)} /^```$/{code = 0} on && code; /^```json/{code = 1}' docs/iam.md |
        envsubst > "$name.json"
      aws iam create-policy --policy-name "$name-$CLUSTER" --policy-document "file://$name.json"
    done

`envsubst` puts nothing in the place of a variable that is not set: set them all, also for parts that you leave out.

## What can be left out, and what may be missing

| part | needed when |
|---|---|
| Interruption | `INTERRUPTION_QUEUE` is set. Spot notices need no queue: the agent hears them on the node |
| IAMIntegration, all but AllowPassingInstanceRole | some EC2NodeClass has `role`. With `instanceProfile` everywhere Kerf makes no profiles; `ISOLATED_VPC` makes none either |
| EKSIntegration | the cluster is of EKS, and not all of `CLUSTER_ENDPOINT`, `CLUSTER_CA_BUNDLE` and `CLUSTER_CIDR` are set, or `EKS_CONTROL_PLANE` is |
| AllowPricingReadActions | the Pricing API can be reached. Without it the price table that Kerf carries counts (`docs/types.md`) |
| ssm:GetParameter on a parameter of your own | `amiSelectorTerms` has an `ssmParameter` outside `/aws/service/` |
| iam:PassRole on further roles | classes name several roles |
| use of a KMS key | volumes are encrypted with a key of your own: the key's policy must let the controller's role use it and make grants |
| the service-linked role of spot | the account never bought spot: `aws iam create-service-linked-role --aws-service-name spot.amazonaws.com` |

## If you have Karpenter's policies already

Everything but one thing works with them: instances that were bought together get their owner's tags when they are nodes, and
`kerf.sh/nodeclaim-uid` is one of them. Add that key to `aws:TagKeys` in AllowScopedResourceTagging; until then Kerf logs that it
may not tag them, and tries again. Beyond that these are tighter: what a launch makes must belong to the account, instance
profiles must lie under the cluster's path, and there is no policy for zonal shifts, which Kerf does not follow.
"#;

pub(super) fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for (name, meaning) in PLACEHOLDERS {
        writeln!(page, "| `${{{name}}}` | {meaning} |").unwrap();
    }
    page.push_str(USE);
    for policy in Policy::ALL {
        let text = serde_json::to_string_pretty(&policy.document()).unwrap();
        write!(page, "\n## {}-${{CLUSTER}}\n\n```json\n{text}\n```\n", policy.name()).unwrap();
    }
    page.push_str(
        "\n## Which call needs what\n\nThe first action is the call's own; the others AWS asks for on the way.\n\n",
    );
    page.push_str("| call | actions | statements |\n|---|---|---|\n");
    let mut rows: Vec<String> = Vec::new();
    for need in CALLS {
        let row = format!("| {} | {} | {} |", need.call, need.actions.join(", "), need.statements.join(", "));
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    page.push_str(&rows.join("\n"));
    page.push('\n');
    page
}
