//! Sources of change: watches of the API server, the SQS queue of EC2 notices, EC2's status checks, EKS' description of the
//! cluster, the address of cluster DNS, and zonal shifts of ARC.

pub mod cluster_dns;
pub mod cluster_info;
pub mod interruption;
pub mod watch;
pub mod zonal_shifts;
