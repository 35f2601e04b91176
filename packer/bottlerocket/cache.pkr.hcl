# AMI: Bottlerocket with container images on its data volume. Use the snapshot of the data volume in blockDeviceMappings of an EC2NodeClass
# with Amazon's AMI, or use this AMI itself. Usage: docs/bottlerocket.md.

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
  description = "Bottlerocket variant without the version: aws-k8s, aws-k8s-nvidia, aws-k8s-fips."
  default     = "aws-k8s"
  validation {
    condition     = contains(["aws-k8s", "aws-k8s-nvidia", "aws-k8s-fips"], var.variant)
    error_message = "The variable variant is aws-k8s, aws-k8s-nvidia or aws-k8s-fips."
  }
}

variable "images" {
  type        = list(string)
  description = "Container images to pull, each by its full name with tag or digest."
  validation {
    condition     = length(var.images) > 0 && alltrue([for image in var.images : can(regex("^[A-Za-z0-9._:/@-]+$", image))])
    error_message = "The variable images lists at least one image, each by its full name: registry/repository:tag or @sha256:digest."
  }
}

variable "registry_user" {
  type        = string
  description = "USER:PASSWORD for the registry; AWS: and the output of `aws ecr get-login-password` for ECR. Empty for public images."
  default     = ""
  sensitive   = true
}

variable "data_volume_size" {
  type        = number
  description = "Size of the data volume in GiB. The data volume of a node must not be smaller."
  default     = 20
}

variable "source_owner" {
  type        = string
  description = "Owner account of the source AMI. Amazon's accounts differ in China and GovCloud; `amazon` matches all of them."
  default     = "amazon"
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
  description = "EC2 instance type of the build. Default: a small type of the architecture."
  default     = ""
}

variable "subnet_id" {
  type        = string
  description = "Subnet of the build instance. Default: the default VPC."
  default     = null
}

variable "tags" {
  type        = map(string)
  description = "Additional tags of the AMI and its snapshots."
  default     = {}
}

# Default: the address of the build instance and a temporary key pair. Set the keys for access through a tunnel.
variable "ssh" {
  type        = map(string)
  description = "SSH access to the admin container. Keys: username, host, port, private_key_file, keypair_name."
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

  # aws-k8s-1.36, aws-k8s-1.36-nvidia
  variant = replace(var.variant, "aws-k8s", "aws-k8s-${var.kubernetes}")
  # bottlerocket-aws-k8s-1.36-x86_64-v1.46.0-hash
  source_name = "bottlerocket-${local.variant}-${local.machine.name}-v*"
  name        = "kerf-bottlerocket-cache-${local.variant}-${local.machine.name}-${formatdate("YYYYMMDDhhmmss", timestamp())}"
  own_tags = {
    "Name"                 = local.name
    "kerf.sh/image"        = "bottlerocket"
    "kerf.sh/variant"      = local.variant
    "kerf.sh/source-image" = "{{ .SourceAMIName }}"
  }
}

source "amazon-ebs" "bottlerocket" {
  region              = var.region
  custom_endpoint_ec2 = var.endpoint
  ami_name            = local.name
  ami_description     = "Bottlerocket ${local.variant} with container images on its data volume"
  instance_type       = coalesce(var.instance_type, local.machine.instance_type)
  subnet_id           = var.subnet_id
  imds_support        = "v2.0"

  # SSH access needs the admin container, which accepts the key pair of the instance.
  user_data = <<-END
    [settings.host-containers.admin]
    enabled = true
  END

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

  launch_block_device_mappings {
    device_name           = "/dev/xvdb"
    volume_size           = var.data_volume_size
    volume_type           = "gp3"
    delete_on_termination = true
  }

  metadata_options {
    http_endpoint = "enabled"
    http_tokens   = "required"
    # The admin container is one network hop away from IMDS.
    http_put_response_hop_limit = 2
  }

  ssh_username             = try(var.ssh.username, "ec2-user")
  ssh_host                 = try(var.ssh.host, null)
  ssh_port                 = try(var.ssh.port, 22)
  ssh_private_key_file     = try(var.ssh.private_key_file, null)
  ssh_keypair_name         = try(var.ssh.keypair_name, null)
  ssh_file_transfer_method = "sftp"
  temporary_key_pair_type  = "ed25519"
  run_tags                 = { "Name" = "packer-${local.name}", "kerf.sh/image" = "being-built" }
  tags                     = merge(var.tags, local.own_tags)
  snapshot_tags            = merge(var.tags, local.own_tags)
}

build {
  sources = ["source.amazon-ebs.bottlerocket"]

  provisioner "shell" {
    script           = "${path.root}/fetch"
    execute_command  = "chmod +x {{ .Path }}; {{ .Vars }} sudo -E {{ .Path }}"
    environment_vars = ["IMAGES=${join(" ", var.images)}", "REGISTRY_USER=${var.registry_user}"]
  }

  post-processor "manifest" {
    output     = var.manifest
    strip_path = true
  }
}
