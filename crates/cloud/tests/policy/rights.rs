//! Files of `controller/rights`: roles, queue and rules for CloudFormation and Terraform, from the same tables as
//! `docs/iam.md`. The parts without permissions are files in the folder beside this module.

use std::fmt::Write as _;

use cloud::policy::{NODE_POLICIES, NodePolicy, Policy, RETENTION, RULES, Rule};
use serde_json::{Value, json};

/// Returns all generated files below `controller/rights` with their text.
pub(super) fn files() -> Vec<(String, String)> {
    let mut files = vec![
        ("cloudformation.yaml".to_owned(), template()),
        ("terraform/rights.tf".to_owned(), locals()),
        ("terraform/nodes.tf".to_owned(), node_variables()),
    ];
    files.extend(Policy::ALL.map(|policy| {
        (format!("terraform/policies/{}.json.tftpl", policy.name()), pretty(&json!(policy.document())) + "\n")
    }));
    files
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap()
}

/// Replaces the placeholders with CloudFormation's variables.
fn substituted(text: &str) -> String {
    let words = [
        ("${CLUSTER}", "${ClusterName}"),
        ("${REGION}", "${AWS::Region}"),
        ("${ACCOUNT}", "${AWS::AccountId}"),
        ("${PARTITION}", "${AWS::Partition}"),
        ("${NODE_ROLE}", "${NodeRole}"),
        ("${QUEUE}", "${Queue.QueueName}"),
    ];
    words.iter().fold(text.to_owned(), |text, (ours, theirs)| text.replace(ours, theirs))
}

fn indented(text: &str, by: usize) -> String {
    text.lines().map(|line| format!("{:by$}{line}\n", "")).collect()
}

fn template() -> String {
    let frame = include_str!("rights/cloudformation.yaml");
    let mut text = frame.replace("# PARAMETERS OF THE NODES\n", &node_parameters());
    text = text.replace("# CONDITIONS OF THE NODES\n", &node_conditions());
    text = text.replace("# POLICIES OF THE NODES\n", &NODE_POLICIES.iter().map(node_policy).collect::<String>());
    text = text.replace("RETENTION", &RETENTION.to_string());
    let arns = RULES.iter().map(|rule| format!("                  - !GetAtt {}.Arn\n", rule.name));
    text = text.replace("# THE RULES\n", &arns.collect::<String>());
    let mut resources: String = Policy::ALL.iter().map(|policy| managed(*policy)).collect();
    resources.extend(RULES.iter().map(rule));
    text.replace("# POLICIES AND RULES\n", &resources)
}

fn optional() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    NODE_POLICIES.iter().filter_map(|policy| policy.optional.map(|(name, why)| (policy.name, name, why)))
}

fn node_parameters() -> String {
    let one = |(policy, name, why): (&str, &str, &str)| {
        format!(
            "  {name}:\n    Type: String\n    Default: \"true\"\n    AllowedValues: [\"true\", \"false\"]\n    \
             Description: Attaches {policy} to the node role; {why}.\n"
        )
    };
    optional().map(one).collect()
}

fn node_conditions() -> String {
    optional().map(|(_, name, _)| format!("  With{name}: !Equals [!Ref {name}, \"true\"]\n")).collect()
}

fn node_policy(policy: &NodePolicy) -> String {
    let arn = format!("!Sub \"arn:${{AWS::Partition}}:iam::aws:policy/{}\"", policy.name);
    match policy.optional {
        None => format!("        - {arn}\n"),
        Some((name, _)) => format!("        - !If [With{name}, {arn}, !Ref AWS::NoValue]\n"),
    }
}

/// Returns a managed policy with its document as text, because CloudFormation substitutes variables in condition keys only in
/// text.
fn managed(policy: Policy) -> String {
    let name = policy.name();
    let condition = match policy {
        Policy::Interruption => "    Condition: WithQueue\n",
        Policy::ZonalShift => "    Condition: WithZonalShift\n",
        _ => "",
    };
    let document = indented(&substituted(&pretty(&json!(policy.document()))), 8);
    format!(
        "  {name}:\n    Type: AWS::IAM::ManagedPolicy\n{condition}    Properties:\n      \
         ManagedPolicyName: !Sub\n        - \"{name}-${{Suffix}}\"\n        \
         - Suffix: !If [DefaultNameSuffix, !Ref ClusterName, !Ref NameSuffix]\n      Roles: [!Ref ControllerRole]\n      \
         PolicyDocument: !Sub |\n{document}"
    )
}

fn pattern(rule: &Rule) -> Value {
    let mut pattern = json!({"source": [rule.source], "detail-type": [rule.detail_type]});
    for (field, values) in rule.detail {
        pattern["detail"][*field] = json!(values);
    }
    pattern
}

fn rule(rule: &Rule) -> String {
    let name = rule.name;
    let pattern = pattern(rule);
    format!(
        "  {name}:\n    Type: AWS::Events::Rule\n    Condition: WithQueue\n    Properties:\n      \
         EventPattern: {pattern}\n      Targets:\n        - Id: Queue\n          Arn: !GetAtt Queue.Arn\n"
    )
}

fn node_variables() -> String {
    let one = |(policy, name, why): (&str, &str, &str)| {
        format!(
            "\nvariable \"{}\" {{\n  description = \"Attaches {policy} to the node role; {why}.\"\n  \
             type        = bool\n  default     = true\n}}\n",
            snake(name)
        )
    };
    let head = "# Generated from crates/cloud/src/policy by `make bless`: optional policies of the node role.\n";
    std::iter::once(head.to_owned()).chain(optional().map(one)).collect()
}

fn snake(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

fn locals() -> String {
    let mut text = String::from(
        "# Generated from crates/cloud/src/policy by `make bless`: policies and event rules.\n\nlocals {\n  \
         node_policies = compact([\n",
    );
    for policy in NODE_POLICIES {
        let name = policy.name;
        let line = match policy.optional {
            None => format!("    \"{name}\",\n"),
            Some((parameter, _)) => format!("    var.{} ? \"{name}\" : \"\",\n", snake(parameter)),
        };
        text.push_str(&line);
    }
    text.push_str("  ])\n\n  policies = toset(compact([\n");
    for policy in Policy::ALL {
        let name = policy.name();
        let line = match policy {
            Policy::Interruption => format!("    var.interruption_queue ? \"{name}\" : \"\",\n"),
            Policy::ZonalShift => format!("    var.zonal_shift ? \"{name}\" : \"\",\n"),
            _ => format!("    \"{name}\",\n"),
        };
        text.push_str(&line);
    }
    writeln!(text, "  ]))\n\n  retention = {RETENTION}\n\n  rules = {{").unwrap();
    let widest = RULES.iter().map(|rule| rule.name.len()).max().unwrap();
    for rule in RULES {
        let pattern = pattern(rule).to_string().replace('"', "\\\"");
        writeln!(text, "    {:widest$} = \"{pattern}\"", rule.name).unwrap();
    }
    text.push_str("  }\n}\n");
    text
}
