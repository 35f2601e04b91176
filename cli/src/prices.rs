//! List prices: where a table lies, and how it is refreshed from AWS's public price list.

mod csv;
mod fetch;
mod offers;
pub mod table;

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Fetches the on-demand prices of a region and writes them as a table: whole or not at all. Returns a sentence.
///
/// # Errors
/// When the price list cannot be fetched in full or says nothing of use, or the table cannot be written.
pub fn refresh(endpoint: &str, region: &str, out: Option<&Path>) -> Result<String, Failure> {
    let path = match out {
        Some(path) => path.to_owned(),
        None => table::usual_place(region).ok_or_else(|| Failure::usage("no home folder; set --out FILE"))?,
    };
    let url = format!("{}/offers/v1.0/aws/AmazonEC2/current/{region}/index.csv", endpoint.trim_end_matches('/'));
    let prices = fetch::fetch(&url, region)?;
    write(&path, &table::text(region, &prices))
        .map_err(|error| Failure::usage(format!("{}: cannot be written: {error}; set --out FILE", path.display())))?;
    Ok(format!("{}: {} prices of {region}\n", path.display(), prices.len()))
}

/// Writes a file beside the place and moves it there, so that a reader never sees half a table.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .map_or_else(|| PathBuf::from("."), Path::to_owned);
    std::fs::create_dir_all(&folder)?;
    let mut file = tempfile::Builder::new().prefix(".prices-").tempfile_in(&folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}
