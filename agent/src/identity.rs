//! Who this machine is to AWS and to its cluster: the instance role's credentials from metadata, requests signed with them, and the
//! tokens that EKS makes of such a signature. All of it happens in this process: no AWS CLI, no SDK, no call but to metadata.

pub mod credentials;
pub mod plugin;
pub mod recognise;
pub mod signing;
pub mod sts;
pub mod token;

pub use credentials::{CredentialsError, Role};
pub use token::{Audience, Token};
