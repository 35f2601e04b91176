//! Tokens as EKS makes them, from metadata to the API server's answer, evaluated by the same rules and AWS's own signer.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

#[path = "../../tests/world/eks/judge.rs"]
mod judge;
mod minted;
mod verdicts;
