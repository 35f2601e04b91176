//! Text of `docs/iam.md`.

use std::fmt::Write as _;

use super::{CALLS, PLACEHOLDERS, Policy};

const INTRODUCTION: &str = r#"# IAM policies of the controller

This page is the reference for the permissions of the controller, written from `crates/cloud/src/policy` by `make bless`. The
policies allow exactly the calls that Kerf makes, which a test checks, and have Karpenter's names.

`controller/rights` has them as a CloudFormation template and a Terraform module, with both roles and, as an option, the queue and
its rules. Use this page for other tools.

    aws cloudformation deploy --stack-name kerf-prod --template-file controller/rights/cloudformation.yaml \
      --parameter-overrides ClusterName=prod --capabilities CAPABILITY_NAMED_IAM

A cluster name above 80 characters needs `NameSuffix` (Terraform: `name_suffix`), because queues have shorter names than clusters. Above
40 characters it needs the names of both roles.

| role | needs |
|---|---|
| of the controller's Pod (EKS Pod Identity, or IAM roles for service accounts) | the policies of this page |
| of the nodes | AmazonEKSWorkerNodePolicy, AmazonEC2ContainerRegistryPullOnly, AmazonEKS_CNI_Policy unless the CNI has its own role, AmazonSSMManagedInstanceCore for Session Manager |

## Placeholders

| placeholder | meaning |
|---|---|
"#;

const USE: &str = r#"
    export CLUSTER=prod REGION=us-west-2 ACCOUNT=123456789012 PARTITION=aws NODE_ROLE=KarpenterNodeRole-prod QUEUE=prod
    for part in NodeLifecycle IAMIntegration EKSIntegration Interruption ZonalShift ResourceDiscovery; do
      name="KarpenterController${part}Policy"
      awk -v name="$name" '/^## /{on = index($0, name)} /^```$/{code = 0} on && code; /^```json/{code = 1}' docs/iam.md |
        envsubst > "$name.json"
      aws iam create-policy --policy-name "$name-$CLUSTER" --policy-document "file://$name.json"
    done

Set all variables, also for parts that you leave out: `envsubst` replaces a missing variable with nothing.

## Optional and additional permissions

| part | needed when |
|---|---|
| Interruption | `INTERRUPTION_QUEUE` is set; agents receive spot notices without a queue |
| ZonalShift | `ENABLE_ZONAL_SHIFT` is set |
| IAMIntegration, all but AllowPassingInstanceRole | an EC2NodeClass has `role`, and `ISOLATED_VPC` is not set |
| EKSIntegration | one of `CLUSTER_ENDPOINT`, `CLUSTER_CA_BUNDLE` and `CLUSTER_CIDR` is not set, or `EKS_CONTROL_PLANE` or `ENABLE_ZONAL_SHIFT` is |
| AllowPricingReadActions | the Pricing API can be reached; else built-in prices are used ([types.md](types.md)) |
| ssm:GetParameter on a parameter of your own | `amiSelectorTerms` has an `ssmParameter` outside `/aws/service/` |
| iam:PassRole on further roles | classes name several roles |
| use of a KMS key | volumes are encrypted with your key: its policy must let the controller's role use it and create grants |
| the service-linked role of spot | the account never used spot: `aws iam create-service-linked-role --aws-service-name spot.amazonaws.com` |

## With Karpenter's policies

The policies of Karpenter 1.14 allow every call; a test runs the controller with them. They deny one tag, `kerf.sh/nodeclaim-uid` on
instances that are launched together, which is then left out: nothing depends on it. To have it, add the key to `aws:TagKeys` in
AllowScopedResourceTagging. Otherwise the policies of this page are tighter: resources of a launch must belong to the account, and
instance profiles have the path of the cluster.

Policies of your own may deny more tags. Kerf finds this out by itself, and reports each case once as the event `TagsDenied` of the
EC2NodeClass:

| denied tag | when | instead |
|---|---|---|
| `kerf.sh/nodeclaim-uid` in CreateTags | an instance of a fleet of several is a node | left out |
| `Name`, `eks:eks-cluster-name` or `karpenter.sh/nodeclaim` in CreateTags | an instance is a node | the others are written; tried again within an hour |
| `kerf.sh/launch-token`, `karpenter.sh/nodeclaim` or `kerf.sh/nodeclaim-uid` in CreateFleet | the dry run of an EC2NodeClass | launches omit all three: an instance whose launch a crash of the controller interrupts is terminated instead of used |

With `DISABLE_DRY_RUN` the last row fails launches. Tags of the EC2NodeClass and those that Karpenter writes at launches are never left out.

`kerf adopt --check --iam-policy FILE` compares policies with these needs: it names missing actions with the statements to add, and denied
tags ([migrate-from-karpenter.md](migrate-from-karpenter.md#iam-policies)). Each `--iam-limit FILE` adds a limit of the role: its
permissions boundary, or the service control policies of one account, organizational unit or root. The end of `kerf adopt --help` has the
commands that write the files.
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
        "\n## Permissions by call\n\nOf several calls in a row, each needs the action of its own name. AWS checks further actions during a call.\n\n",
    );
    page.push_str("| calls | actions | statements |\n|---|---|---|\n");
    for row in rows() {
        let cells = [row.calls, row.actions, row.statements].map(|names| names.join(", "));
        writeln!(page, "| {} |", cells.join(" | ")).unwrap();
    }
    page
}

/// Calls with the same permissions. Calls with one action each share a row if a statement allows all of them.
struct Row {
    calls: Vec<&'static str>,
    actions: Vec<&'static str>,
    statements: Vec<&'static str>,
}

fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for need in CALLS {
        let is_same = |row: &&mut Row| {
            row.statements == need.statements && (row.actions == need.actions || need.actions.len() == 1)
        };
        match rows.iter_mut().find(is_same) {
            Some(row) => {
                add(&mut row.calls, &[need.call]);
                add(&mut row.actions, need.actions);
            }
            None => rows.push(Row {
                calls: vec![need.call],
                actions: need.actions.to_vec(),
                statements: need.statements.to_vec(),
            }),
        }
    }
    rows
}

/// Adds the names that the list does not have yet.
fn add(names: &mut Vec<&'static str>, more: &[&'static str]) {
    for name in more {
        if !names.contains(name) {
            names.push(name);
        }
    }
}
