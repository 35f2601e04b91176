//! Sources of change: watches of the API server, the SQS queue of EC2 notices, EC2's status checks, and EKS' description of the
//! cluster.

pub mod cluster_info;
pub mod interruption;
pub mod watch;
