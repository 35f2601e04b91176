//! List prices: where a table lies, and how it is refreshed from AWS's public price list.

pub mod table;
