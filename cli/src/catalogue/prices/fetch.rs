//! Download of the price list: hundreds of megabytes, parsed as they arrive and never stored.

use std::collections::BTreeMap;
use std::time::Duration;

use super::csv::Splitter;
use super::offers::Offers;
use crate::failure::{Failure, chain};

/// Timeout for a server that sends nothing.
const SILENCE: Duration = Duration::from_secs(60);

/// Maximum size of a record in bytes. The largest of AWS has a few thousand.
const LONGEST_RECORD: usize = 1 << 20;

/// Downloads the on-demand prices at `url`, in millionths of a dollar per hour by instance type.
pub(super) fn fetch(url: &str, region: &str) -> Result<BTreeMap<String, i64>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::internal)?;
    runtime.block_on(download(url, region))
}

async fn download(url: &str, region: &str) -> Result<BTreeMap<String, i64>, Failure> {
    // An error means that another part of the process installed the same provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .connect_timeout(Duration::from_secs(20))
        .read_timeout(SILENCE)
        .user_agent(concat!("kerf/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| unavailable(url, &chain(&error)))?;
    let mut answer = client.get(url).send().await.map_err(|error| unavailable(url, &chain(&error.without_url())))?;
    let status = answer.status();
    if !status.is_success() {
        return Err(refused(url, region, status.as_u16()));
    }
    let expected = answer.content_length();
    let (mut splitter, mut offers, mut read) = (Splitter::default(), Offers::default(), 0_u64);
    loop {
        let piece = answer.chunk().await;
        let Some(piece) = piece.map_err(|error| interrupted(url, read, &chain(&error.without_url())))? else { break };
        read += piece.len() as u64;
        splitter.feed(&piece, |record| offers.record(record, region)).map_err(|problem| invalid(url, &problem))?;
        if splitter.incomplete() > LONGEST_RECORD {
            return Err(invalid(url, &format!("a record has more than {LONGEST_RECORD} bytes")));
        }
    }
    if expected.is_some_and(|expected| expected != read) || !splitter.is_at_rest() {
        return Err(interrupted(url, read, "the response ends in the middle of a record"));
    }
    offers.finish().map_err(|problem| invalid(url, &problem))
}

fn unavailable(url: &str, problem: &str) -> Failure {
    let cure = "check the network and HTTPS_PROXY, or set --endpoint; the table is unchanged";
    Failure::unavailable(format!("{url}: {problem}; {cure}"))
}

fn refused(url: &str, region: &str, status: u16) -> Failure {
    let cure = match status {
        403 | 404 => format!("check that {region} is a region of AWS"),
        _ => "try again later".to_owned(),
    };
    Failure::unavailable(format!("{url}: status {status}; {cure}; the table is unchanged"))
}

fn interrupted(url: &str, read: u64, problem: &str) -> Failure {
    Failure::unavailable(format!("{url}: interrupted after {read} bytes: {problem}; retry, the table is unchanged"))
}

fn invalid(url: &str, problem: &str) -> Failure {
    let cure = "check --endpoint; the table is unchanged";
    Failure::unavailable(format!("{url}: not a price list of EC2: {problem}; {cure}"))
}
