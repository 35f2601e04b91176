# Generated from crates/cloud/src/policy by `make bless`: optional policies of the node role.

variable "nodes_run_vpc_cni" {
  description = "Attaches AmazonEKS_CNI_Policy to the node role; false when the VPC CNI has a role of its own, or another network is used."
  type        = bool
  default     = true
}

variable "session_manager" {
  description = "Attaches AmazonSSMManagedInstanceCore to the node role; false to disable access through Session Manager."
  type        = bool
  default     = true
}
