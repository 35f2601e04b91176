//! Arguments of verbs that ask AWS.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `kerf prices`.
#[derive(Debug, Args)]
pub struct Prices {
    /// Region of the prices
    #[arg(long, default_value = crate::catalogue::DEFAULT_REGION)]
    pub region: String,
    /// Output file [default: the file that kerf plan reads: ~/.local/share/kerf/prices-REGION.csv]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// URL of the price list's server
    #[arg(long, value_name = "URL", default_value = "https://pricing.us-east-1.amazonaws.com")]
    pub endpoint: String,
}

/// Arguments of `kerf commitments`.
#[derive(Debug, Args)]
pub struct Commitments {
    /// Region of the nodes
    #[arg(long, default_value = crate::catalogue::DEFAULT_REGION)]
    pub region: String,
}
