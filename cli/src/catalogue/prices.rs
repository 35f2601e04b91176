//! List prices: the path of the table, and its refresh from AWS's public price list.

mod csv;
mod fetch;
mod offers;
mod table;

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

pub use table::PriceTable;

/// Downloads the on-demand prices of a region and writes them as a table, completely or not at all. Returns a message.
///
/// # Errors
/// Returns an error if the price list cannot be downloaded completely or has no usable price, or if the table cannot be
/// written.
pub fn refresh(endpoint: &str, region: &str, out: Option<&Path>) -> Result<String, Failure> {
    let path = match out {
        Some(path) => path.to_owned(),
        None => table::default_path(region).ok_or_else(|| Failure::usage("no home folder; set --out FILE"))?,
    };
    let url = format!("{}/offers/v1.0/aws/AmazonEC2/current/{region}/index.csv", endpoint.trim_end_matches('/'));
    let prices = fetch::fetch(&url, region)?;
    write(&path, &table::text(region, &prices))
        .map_err(|error| Failure::usage(format!("{}: cannot be written: {error}; set --out FILE", path.display())))?;
    Ok(format!("{}: {} prices of {region}\n", path.display(), prices.len()))
}

/// Writes a temporary file in the same folder and renames it, so that a reader never sees a partial table.
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
