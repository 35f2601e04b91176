//! Custom resources about money: limits of the cost, and what is paid already.

pub mod commitment;
pub mod spendpolicy;

/// Pattern of an amount of dollars.
const DOLLARS: &str = r"^\d+(\.\d+)?$";
