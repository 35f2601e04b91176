//! Tokens as EKS makes them, from metadata to the API server's answer, judged by the same rules and AWS's own signer.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

#[path = "../run/api.rs"]
#[expect(dead_code, reason = "not every test needs all of the scripted server")]
mod api;
#[path = "../bootstrap/imds.rs"]
#[expect(dead_code, reason = "not every test needs all of the fake")]
mod imds;
#[path = "../../../tests/world/eks/judge.rs"]
mod judge;
mod minted;
mod verdicts;
