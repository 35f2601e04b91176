//! EKS tokens, from the metadata service to the response of the API server, verified by EKS's rules and AWS's own signer.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

mod minted;
mod verification;
#[path = "../../tests/testbed/eks/token_verifier.rs"]
mod verifier;
