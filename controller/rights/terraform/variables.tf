variable "cluster_name" {
  description = "Name of the cluster, as in CLUSTER_NAME."
  type        = string
  validation {
    condition     = can(regex("^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$", var.cluster_name))
    error_message = "cluster_name must be a valid EKS name: up to 100 letters, digits, _ and -, with a letter or digit first."
  }
}

variable "node_role_name" {
  description = "Name of the node role, as in spec.role of an EC2NodeClass; empty for KarpenterNodeRole-CLUSTER."
  type        = string
  default     = ""
}

variable "controller_role_name" {
  description = "Name of the controller role; empty for KarpenterControllerRole-CLUSTER."
  type        = string
  default     = ""
}

variable "name_suffix" {
  description = "End of the names of policies, and name of the queue; empty for the name of the cluster, if it has at most 80 characters."
  type        = string
  default     = ""
}

variable "identity" {
  description = "Credentials of the controller's Pod: PodIdentity (needs the EKS Pod Identity agent) or IRSA (needs an IAM OIDC provider)."
  type        = string
  default     = "PodIdentity"
  validation {
    condition     = contains(["PodIdentity", "IRSA"], var.identity)
    error_message = "identity must be PodIdentity or IRSA."
  }
}

variable "oidc_provider" {
  description = "For IRSA, the cluster's issuer without https://, such as oidc.eks.us-west-2.amazonaws.com/id/EXAMPLE."
  type        = string
  default     = ""
}

variable "namespace" {
  description = "Namespace of the controller."
  type        = string
  default     = "kube-system"
}

variable "service_account" {
  description = "The controller's ServiceAccount."
  type        = string
  default     = "karpenter"
}

variable "cluster_resources" {
  description = "Creates the access entry of nodes and, with PodIdentity, the association; false if other tools create them."
  type        = bool
  default     = true
}

variable "interruption_queue" {
  description = "Creates a queue with the name of the cluster, or name_suffix, for INTERRUPTION_QUEUE. Agents receive Spot notices without it."
  type        = bool
  default     = true
}

variable "zonal_shift" {
  description = "Lets the controller read the cluster's zonal shifts, for ENABLE_ZONAL_SHIFT."
  type        = bool
  default     = false
}

variable "tags" {
  description = "Tags of all resources of this module."
  type        = map(string)
  default     = {}
}
