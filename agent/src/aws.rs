//! Clients of AWS: the instance metadata service, the role's identity that it returns, and the APIs of EC2 and Auto Scaling.

pub mod ec2;
pub mod identity;
pub mod imds;
