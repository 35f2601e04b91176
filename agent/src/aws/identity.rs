//! Identity of this machine in AWS and in its cluster. The module has the instance role's credentials from IMDS, requests
//! signed with them, and the EKS tokens made from such a signature. All of this runs in this process: no AWS CLI, no SDK, and
//! no requests except to IMDS.

pub mod credentials;
pub mod plugin;
pub mod recognise;
pub mod signing;
pub mod sts;
pub mod token;

pub use credentials::{CredentialsError, Role};
pub use token::{Audience, Token};
