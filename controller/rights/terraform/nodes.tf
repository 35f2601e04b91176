# Written from crates/cloud/src/policy by `make bless`: which rights nodes may do without.

variable "nodes_run_vpc_cni" {
  description = "Gives nodes AmazonEKS_CNI_Policy; false when the VPC CNI has a role of its own, or another network is used."
  type        = bool
  default     = true
}

variable "session_manager" {
  description = "Gives nodes AmazonSSMManagedInstanceCore; false to disable access through Session Manager."
  type        = bool
  default     = true
}
