# AMI: Amazon's EKS image of Amazon Linux 2023 with the Kerf agent. Usage: docs/ami.md.

packer {
  required_version = ">= 1.10.0"
  required_plugins {
    amazon = {
      source  = "github.com/hashicorp/amazon"
      version = "= 1.3.4"
    }
  }
}

variable "region" {
  type        = string
  description = "AWS region of the build and of the AMI."
  default     = "us-west-2"
}

variable "kubernetes" {
  type        = string
  description = "Kubernetes minor version of the cluster, such as 1.36. Amazon publishes one image for each."
  validation {
    condition     = can(regex("^1\\.[0-9]{2}$", var.kubernetes))
    error_message = "The variable kubernetes is a minor version, such as 1.36."
  }
}

variable "architecture" {
  type        = string
  description = "CPU architecture: amd64 or arm64."
  default     = "amd64"
  validation {
    condition     = contains(["amd64", "arm64"], var.architecture)
    error_message = "The variable architecture is amd64 or arm64."
  }
}

variable "variant" {
  type        = string
  description = "Variant of Amazon's image: standard, or nvidia for instances with GPUs."
  default     = "standard"
  validation {
    condition     = contains(["standard", "nvidia"], var.variant)
    error_message = "The variable variant is standard or nvidia."
  }
}

variable "mode" {
  type        = string
  description = "Program that configures the node: EKS's nodeadm (observe) or the Kerf agent (bootstrap)."
  default     = "observe"
  validation {
    condition     = contains(["observe", "bootstrap"], var.mode)
    error_message = "The variable mode is observe or bootstrap."
  }
}

variable "agent" {
  type        = string
  description = "Path of the agent's binary. Default: the output of `make agent`, or of `make agent ARCH=arm64` for arm64."
  default     = ""
}

variable "version" {
  type        = string
  description = "Last part of the AMI name, which makes the name unique. Default: the time of the build."
  default     = ""
}

variable "source_owner" {
  type        = string
  description = "Owner account of the source AMI. Amazon's accounts differ in China and GovCloud; `amazon` matches all of them."
  default     = "amazon"
}

variable "source_name" {
  type        = string
  description = "Name of the source AMI, with wildcards. Default: the name of Amazon's image for the variables above."
  default     = ""
}

variable "source_ami" {
  type        = string
  description = "ID of the source AMI, for reproducible builds. Default: the newest AMI that matches."
  default     = ""
  validation {
    condition     = can(regex("^(ami-[0-9a-f]{8,17})?$", var.source_ami))
    error_message = "The variable source_ami is an AMI ID, such as ami-0123456789abcdef0."
  }
}

variable "instance_type" {
  type        = string
  description = "EC2 instance type of the build. Default: a small type of the architecture. The nvidia variant needs no GPU for the build."
  default     = ""
}

variable "subnet_id" {
  type        = string
  description = "Subnet of the build instance. Default: the default VPC."
  default     = null
}

variable "share_with" {
  type        = list(string)
  description = "AWS accounts that may launch the AMI."
  default     = []
}

variable "kms_key_id" {
  type        = string
  description = "KMS key that encrypts the AMI's volume. Default: the account's default for EBS encryption."
  default     = null
}

variable "tags" {
  type        = map(string)
  description = "Additional tags of the AMI and its snapshots, for amiSelectorTerms."
  default     = {}
}

# Default: the address of the build instance and a temporary key pair. Set the keys for access through a tunnel.
variable "ssh" {
  type        = map(string)
  description = "SSH access to the build instance. Keys: username, host, port, private_key_file, keypair_name."
  default     = {}
}

variable "manifest" {
  type        = string
  description = "Path of the manifest file, which contains the AMI ID."
  default     = "packer-manifest.json"
}

variable "endpoint" {
  type        = string
  description = "Custom endpoint of the EC2 API, such as that of a private network. Default: AWS's endpoint."
  default     = null
}

locals {
  machine = {
    amd64 = { name = "x86_64", instance_type = "m7i.large" }
    arm64 = { name = "arm64", instance_type = "m7g.large" }
  }[var.architecture]

  source_name = coalesce(var.source_name,
  "amazon-eks-node-al2023-${local.machine.name}-${var.variant}-${var.kubernetes}-v*")
  agent = coalesce(var.agent,
  pathexpand("~/.cache/kerf/agent/kerf-agent${var.architecture == "arm64" ? "-arm64" : ""}"))
  staging = "/tmp/kerf"
  version = var.version != "" ? var.version : formatdate("YYYYMMDDhhmmss", timestamp())
  name    = "kerf-al2023-${local.machine.name}-${var.variant}-${var.kubernetes}-${local.version}"
  own_tags = {
    "Name"                  = local.name
    "kerf.sh/image"         = "al2023"
    "kerf.sh/variant"       = var.variant
    "kerf.sh/mode"          = var.mode
    "kerf.sh/kubernetes"    = var.kubernetes
    "kerf.sh/image-version" = local.version
    "kerf.sh/source-image"  = "{{ .SourceAMIName }}"
  }
}

source "amazon-ebs" "al2023" {
  region              = var.region
  custom_endpoint_ec2 = var.endpoint
  ami_name            = local.name
  ami_description     = "EKS node, Kubernetes ${var.kubernetes}, with the Kerf agent (${var.mode})"
  ami_users           = var.share_with
  instance_type       = coalesce(var.instance_type, local.machine.instance_type)
  subnet_id           = var.subnet_id
  encrypt_boot        = var.kms_key_id == null ? null : true
  kms_key_id          = var.kms_key_id
  imds_support        = "v2.0"

  # With source_ami set, the filter only verifies the owner, the name and the architecture of the AMI.
  source_ami = var.source_ami == "" ? null : var.source_ami
  source_ami_filter {
    owners      = [var.source_owner]
    most_recent = true
    filters = {
      name                = local.source_name
      architecture        = local.machine.name
      virtualization-type = "hvm"
      state               = "available"
    }
  }

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  ssh_username              = try(var.ssh.username, "ec2-user")
  ssh_host                  = try(var.ssh.host, null)
  ssh_port                  = try(var.ssh.port, 22)
  ssh_private_key_file      = try(var.ssh.private_key_file, null)
  ssh_keypair_name          = try(var.ssh.keypair_name, null)
  ssh_clear_authorized_keys = true
  ssh_file_transfer_method  = "sftp"
  temporary_key_pair_type   = "ed25519"
  disable_stop_instance     = false
  run_tags                  = { "Name" = "packer-${local.name}", "kerf.sh/image" = "being-built" }
  run_volume_tags           = { "Name" = "packer-${local.name}" }
  tags                      = merge(var.tags, local.own_tags)
  snapshot_tags             = merge(var.tags, local.own_tags)
}

build {
  sources = ["source.amazon-ebs.al2023"]

  provisioner "shell" {
    inline = ["mkdir -p ${local.staging}"]
  }

  provisioner "file" {
    sources = concat(
      [for name in ["kerf-agent.service", "kerf-agent-bootstrap.service", "kerf-local-disks.service", "kerf-volumes.service", "80-kerf.preset", "kerf.conf"] :
      "${path.root}/../../systemd/${name}"],
      [for name in ["journald.conf", "kubelet.conf", "logind.conf"] : "${path.root}/files/${name}"],
    )
    destination = "${local.staging}/"
  }

  provisioner "file" {
    source      = local.agent
    destination = "${local.staging}/kerf-agent"
  }

  provisioner "shell" {
    script          = "${path.root}/provision"
    execute_command = "chmod +x {{ .Path }}; {{ .Vars }} sudo -E {{ .Path }} ${local.staging} ${var.mode}"
  }

  provisioner "shell" {
    script          = "${path.root}/verify"
    execute_command = "chmod +x {{ .Path }}; {{ .Vars }} sudo -E {{ .Path }} ${var.mode}"
  }

  post-processor "manifest" {
    output     = var.manifest
    strip_path = true
  }
}
