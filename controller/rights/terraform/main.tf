# AWS permissions of Kerf: the node role, the controller role with its policies and, optionally, the SQS queue of notices with its
# EventBridge rules. rights.tf, nodes.tf and the folder policies contain the permissions; `make bless` generates them. docs/iam.md explains
# each statement.

terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.50"
    }
  }
}

data "aws_caller_identity" "current" {}
data "aws_partition" "current" {}
data "aws_region" "current" {}

locals {
  account              = data.aws_caller_identity.current.account_id
  partition            = data.aws_partition.current.partition
  region               = data.aws_region.current.name
  node_role_name       = coalesce(var.node_role_name, "KarpenterNodeRole-${var.cluster_name}")
  controller_role_name = coalesce(var.controller_role_name, "KarpenterControllerRole-${var.cluster_name}")
  name_suffix          = coalesce(var.name_suffix, var.cluster_name)
  cluster_arn          = "arn:${local.partition}:eks:${local.region}:${local.account}:cluster/${var.cluster_name}"
  associate            = var.identity == "PodIdentity" && var.cluster_resources
}

data "aws_iam_policy_document" "node_trust" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["ec2.${data.aws_partition.current.dns_suffix}"]
    }
  }
}

resource "aws_iam_role" "node" {
  name               = local.node_role_name
  assume_role_policy = data.aws_iam_policy_document.node_trust.json
  tags               = var.tags
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each   = toset(local.node_policies)
  role       = aws_iam_role.node.name
  policy_arn = "arn:${local.partition}:iam::aws:policy/${each.value}"
}

resource "aws_eks_access_entry" "node" {
  count         = var.cluster_resources ? 1 : 0
  cluster_name  = var.cluster_name
  principal_arn = aws_iam_role.node.arn
  type          = "EC2_LINUX"
}

data "aws_iam_policy_document" "controller_trust" {
  dynamic "statement" {
    for_each = var.identity == "PodIdentity" ? [1] : []
    content {
      actions = ["sts:AssumeRole", "sts:TagSession"]
      principals {
        type        = "Service"
        identifiers = ["pods.eks.amazonaws.com"]
      }
      condition {
        test     = "StringEquals"
        variable = "aws:RequestTag/eks-cluster-arn"
        values   = [local.cluster_arn]
      }
      condition {
        test     = "StringEquals"
        variable = "aws:RequestTag/kubernetes-namespace"
        values   = [var.namespace]
      }
      condition {
        test     = "StringEquals"
        variable = "aws:RequestTag/kubernetes-service-account"
        values   = [var.service_account]
      }
    }
  }
  dynamic "statement" {
    for_each = var.identity == "IRSA" ? [1] : []
    content {
      actions = ["sts:AssumeRoleWithWebIdentity"]
      principals {
        type        = "Federated"
        identifiers = ["arn:${local.partition}:iam::${local.account}:oidc-provider/${var.oidc_provider}"]
      }
      condition {
        test     = "StringEquals"
        variable = "${var.oidc_provider}:aud"
        values   = ["sts.amazonaws.com"]
      }
      condition {
        test     = "StringEquals"
        variable = "${var.oidc_provider}:sub"
        values   = ["system:serviceaccount:${var.namespace}:${var.service_account}"]
      }
    }
  }
}

resource "aws_iam_role" "controller" {
  name               = local.controller_role_name
  assume_role_policy = data.aws_iam_policy_document.controller_trust.json
  tags               = var.tags

  lifecycle {
    precondition {
      condition     = var.identity != "IRSA" || var.oidc_provider != ""
      error_message = "identity IRSA needs oidc_provider; aws eks describe-cluster returns it as identity.oidc.issuer."
    }
    precondition {
      condition     = length(local.name_suffix) <= 80
      error_message = "the name of the cluster has more than 80 characters, the limit of SQS: set name_suffix."
    }
    precondition {
      condition     = max(length(local.node_role_name), length(local.controller_role_name)) <= 64
      error_message = "the name of a role has more than 64 characters: set node_role_name and controller_role_name."
    }
  }
}

resource "aws_iam_policy" "controller" {
  for_each = local.policies
  name     = "${each.value}-${local.name_suffix}"
  tags     = var.tags
  policy = templatefile("${path.module}/policies/${each.value}.json.tftpl", {
    ACCOUNT   = local.account
    CLUSTER   = var.cluster_name
    NODE_ROLE = aws_iam_role.node.name
    PARTITION = local.partition
    QUEUE     = local.name_suffix
    REGION    = local.region
  })
}

resource "aws_iam_role_policy_attachment" "controller" {
  for_each   = aws_iam_policy.controller
  role       = aws_iam_role.controller.name
  policy_arn = each.value.arn
}

resource "aws_eks_pod_identity_association" "controller" {
  count           = local.associate ? 1 : 0
  cluster_name    = var.cluster_name
  namespace       = var.namespace
  service_account = var.service_account
  role_arn        = aws_iam_role.controller.arn
  tags            = var.tags
}

resource "aws_sqs_queue" "notices" {
  count                     = var.interruption_queue ? 1 : 0
  name                      = local.name_suffix
  message_retention_seconds = local.retention
  sqs_managed_sse_enabled   = true
  tags                      = var.tags
}

resource "aws_cloudwatch_event_rule" "notices" {
  for_each      = var.interruption_queue ? local.rules : {}
  name_prefix   = substr("${var.cluster_name}-${each.key}", 0, 38)
  event_pattern = each.value
  tags          = var.tags
}

resource "aws_cloudwatch_event_target" "notices" {
  for_each  = aws_cloudwatch_event_rule.notices
  rule      = each.value.name
  target_id = "Queue"
  arn       = aws_sqs_queue.notices[0].arn
}

data "aws_iam_policy_document" "notices" {
  count = var.interruption_queue ? 1 : 0
  statement {
    sid       = "RulesMaySend"
    actions   = ["sqs:SendMessage"]
    resources = [aws_sqs_queue.notices[0].arn]
    principals {
      type        = "Service"
      identifiers = ["events.amazonaws.com"]
    }
    condition {
      test     = "ArnEquals"
      variable = "aws:SourceArn"
      values   = [for rule in aws_cloudwatch_event_rule.notices : rule.arn]
    }
  }
  statement {
    sid       = "NothingInTheClear"
    effect    = "Deny"
    actions   = ["sqs:*"]
    resources = [aws_sqs_queue.notices[0].arn]
    principals {
      type        = "*"
      identifiers = ["*"]
    }
    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

resource "aws_sqs_queue_policy" "notices" {
  count     = var.interruption_queue ? 1 : 0
  queue_url = aws_sqs_queue.notices[0].id
  policy    = data.aws_iam_policy_document.notices[0].json
}

output "node_role_name" {
  description = "For spec.role of an EC2NodeClass"
  value       = aws_iam_role.node.name
}

output "controller_role_arn" {
  description = "With IRSA, for the ServiceAccount's annotation eks.amazonaws.com/role-arn"
  value       = aws_iam_role.controller.arn
}

output "queue_name" {
  description = "For settings.interruptionQueue of the chart; null without a queue"
  value       = one(aws_sqs_queue.notices[*].name)
}
