variable "cluster_name" {
  description = "Name of the cluster, as in CLUSTER_NAME."
  type        = string
  validation {
    condition     = can(regex("^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$", var.cluster_name))
    error_message = "cluster_name must be a name of EKS: up to 100 letters, digits, _ and -, a letter or digit first."
  }
}

variable "node_role_name" {
  description = "Name of the nodes' role, as EC2NodeClass names it in spec.role; empty for KarpenterNodeRole-CLUSTER."
  type        = string
  default     = ""
}

variable "controller_role_name" {
  description = "Name of the controller's role; empty for KarpenterControllerRole-CLUSTER."
  type        = string
  default     = ""
}

variable "identity" {
  description = "How the controller's Pod becomes the role: PodIdentity (needs the EKS Pod Identity agent) or IRSA (an IAM OIDC provider)."
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
  description = "Makes the access entry that lets nodes join and, with PodIdentity, the association; false when others make them."
  type        = bool
  default     = true
}

variable "interruption_queue" {
  description = "Makes a queue named like the cluster, for INTERRUPTION_QUEUE. Agents hear spot notices without it."
  type        = bool
  default     = true
}

variable "zonal_shift" {
  description = "Gives the controller the cluster's zonal shifts, for ENABLE_ZONAL_SHIFT."
  type        = bool
  default     = false
}

variable "tags" {
  description = "Tags of everything that the module makes."
  type        = map(string)
  default     = {}
}
